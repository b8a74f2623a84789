//! Chooses the stage of a Pod, and the length of its waits.
//!
//! Responsible for: matching, and draws that depend only on the seed, the stage and the Pod, so that a Pod's life does
//! not depend on other Pods. Must not: keep state between calls.

use std::fmt::{self, Write as _};

use super::{LabelSelectorOperator, LabelSelectorRequirement, Stage, Wait, Which};
use crate::kubelet::{decode::RawPod, ranges::Ranges};

/// Exclusive upper bound of draws: a prime, small enough that a float holds its square exactly. kwok computes the same
/// draws in jq.
pub(super) const DRAWS: u64 = 67_108_859;
/// Added between the rounds that mix a draw.
pub(super) const ROUNDS: [u64; 3] = [12_345, 54_321, 31_415];
/// Factor by which the number of a text grows with each character.
pub(super) const BASE: u64 = 257;

/// The inputs of a Pod's random draws.
#[derive(Clone, Copy, Debug)]
pub(in crate::kubelet) struct Chance<'a> {
    pub(in crate::kubelet) seed: u64,
    pub(in crate::kubelet) uid: &'a str,
    pub(in crate::kubelet) restarts: u32,
}

/// Returns the indexes of the stages that select a Pod, in order.
pub(in crate::kubelet) fn candidates(stages: &[Stage], pod: &RawPod<'_>) -> Box<[u16]> {
    let stages = stages.iter().zip(0..);
    stages
        .filter(|(stage, _)| stage.pods.means(pod))
        .map(|(_, place)| place)
        .collect()
}

impl Which {
    fn means(&self, pod: &RawPod<'_>) -> bool {
        let mut labels = self.labels.iter();
        let mut requirements = self.requirements.iter();
        let namespace = self.namespace.as_deref();
        let index = pod.completion_index();
        let is_in = |ranges: &Ranges| index.is_some_and(|index| ranges.contains(index));
        namespace.is_none_or(|namespace| *namespace == *pod.metadata.namespace)
            && labels.all(|(key, value)| pod.label(key) == Some(value.as_str()))
            && requirements.all(|requirement| requirement.holds(pod))
            && self.indexes.as_ref().is_none_or(is_in)
    }
}

impl LabelSelectorRequirement {
    fn holds(&self, pod: &RawPod<'_>) -> bool {
        let value = pod.label(&self.key);
        let is_listed = || value.is_some_and(|value| self.values.iter().any(|v| v == value));
        match self.operator {
            LabelSelectorOperator::In => is_listed(),
            LabelSelectorOperator::NotIn => !is_listed(),
            LabelSelectorOperator::Exists => value.is_some(),
            LabelSelectorOperator::DoesNotExist => value.is_none(),
        }
    }
}

impl Stage {
    /// Returns true if the stage now applies to a Pod that it selects.
    pub(in crate::kubelet) fn picks(&self, chance: Chance<'_>) -> bool {
        let restarts = self.pods.restarts.as_ref();
        let is_time = restarts.is_none_or(|ranges| ranges.contains(chance.restarts));
        is_time && chance.draw(&self.name, "picked") < self.share()
    }

    /// Returns the bound below which a draw picks the Pod.
    pub(super) fn share(&self) -> u64 {
        (self.probability * DRAWS as f64).round() as u64
    }

    /// Returns the length of a wait for a Pod of this stage.
    pub(in crate::kubelet) fn wait(
        &self,
        wait: Wait,
        what: &str,
        chance: Chance<'_>,
    ) -> std::time::Duration {
        if wait.jitter.is_zero() {
            return wait.delay;
        }
        let share = chance.draw(&self.name, what) as f64 / DRAWS as f64;
        wait.delay + wait.jitter.mul_f64(share)
    }
}

impl Chance<'_> {
    /// Returns a number below [`DRAWS`] for one decision about the Pod.
    pub(super) fn draw(&self, stage: &str, what: &str) -> u64 {
        let Self {
            seed,
            uid,
            restarts,
        } = self;
        let mut number = Number(0);
        write!(number, "{seed}/{stage}/{what}/{uid}/{restarts}").expect("a number takes any text");
        ROUNDS
            .iter()
            .fold(number.0, |x, add| (x * x % DRAWS * x + add) % DRAWS)
    }
}

/// The number of a text, computed without storing the text.
struct Number(u64);

impl fmt::Write for Number {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            self.0 = (self.0 * BASE + u64::from(u32::from(letter)) + 1) % DRAWS;
        }
        Ok(())
    }
}
