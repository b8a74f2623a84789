//! The times at which Pods are due again.
//!
//! Responsible for: one deadline per Pod, found in order. Must not: know what happens then.

use std::collections::BTreeMap;

use super::pods::PodId;
use crate::model::Time;

/// A deadline and the word that explains it.
pub(super) type Due = (Time, &'static str);

/// At most one deadline per Pod. The caller keeps the Pod's current one and hands it back, so
/// that no search is needed to replace it.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeMap<(Time, PodId), &'static str>);

impl Timers {
    /// Replaces the deadline of a Pod.
    pub(super) fn reset(&mut self, id: PodId, old: Option<Due>, new: Option<Due>) {
        if old == new {
            return;
        }
        if let Some((at, _)) = old {
            self.0.remove(&(at, id));
        }
        if let Some((at, why)) = new {
            self.0.insert((at, id), why);
        }
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Due> {
        self.0.first_key_value().map(|(&(at, _), &why)| (at, why))
    }

    /// The Pod of the earliest deadline, if that has passed. The deadline stays until it is reset.
    pub(super) fn first_due(&self, now: Time) -> Option<PodId> {
        self.0
            .first_key_value()
            .filter(|((at, _), _)| *at <= now)
            .map(|(&(_, id), _)| id)
    }
}
