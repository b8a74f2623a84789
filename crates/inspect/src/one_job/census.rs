//! Aggregates a Job's Pods: each is read once, and of most only counts are kept.
//!
//! Must not: send requests, or judge.

use std::collections::BTreeMap;

use compact_str::CompactString;

use lakh_model::{IndexSet, OWN_TRACKING_FINALIZER, PodPhase, TRACKING_FINALIZER, Time};
use lakh_wire::PodDetails;

use crate::failures::FailedPods;

use super::pending::{PendingGroup, PendingKind, pending};

/// Maximum number of groups with distinct messages: a message may differ in each Pod.
const MOST_GROUPS: usize = 64;

/// Counts and examples of a Job's Pods. Pass each Pod to [`take`](Self::take), then call [`finish`](Self::finish).
#[derive(Clone, Debug, Default)]
pub(crate) struct PodCensus {
    /// Number of the Job's Pods that were read.
    pub(crate) seen: u32,
    /// Pods that are not ended, not being deleted, and not running yet.
    pub(crate) pending: u32,
    /// Reasons why Pods do not run; after [`finish`](Self::finish) the most frequent first.
    pub(crate) waiting: Vec<PendingGroup>,
    /// Each Pod that failed.
    pub(crate) failed: FailedPods,
    /// Number of container restarts.
    pub(crate) restarts: u32,
    /// Time of the last success, if succeeded Pods were read.
    pub(crate) last_success: Option<Time>,
    /// Succeeded Pods were read.
    pub(crate) has_successes: bool,
    /// Pods that are being deleted and have not ended yet.
    pub(crate) terminating: AlikePods,
    /// Pods that have ended and are not counted yet, by their finalizers.
    pub(crate) uncounted: AlikePods,
    /// Pods to be deleted that are kept by a finalizer other than the tracking one, by finalizer.
    pub(crate) kept: BTreeMap<CompactString, AlikePods>,
    /// Indexes with a Pod that is neither ended nor being deleted, among the Pods that were read.
    pub(crate) live_indexes: IndexSet,
    /// Those of them with a Pod that does not run yet.
    pub(crate) pending_indexes: IndexSet,
}

/// Pods in the same state, with one example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AlikePods {
    pub(crate) count: u32,
    /// The Pod that has been in this state for longest.
    pub(crate) example: CompactString,
    pub(crate) node: CompactString,
    pub(crate) since: Option<Time>,
}

impl PodCensus {
    /// Adds a Pod of the Job.
    pub(crate) fn take(&mut self, pod: PodDetails) {
        self.seen += 1;
        let is_over = pod.phase.is_terminal();
        self.restarts += pod.containers.iter().map(|it| it.restarts).sum::<u32>();
        let mut finalizers = pod.finalizers.iter();
        let is_tracked =
            finalizers.any(|it| *it == TRACKING_FINALIZER || *it == OWN_TRACKING_FINALIZER);
        if is_over && is_tracked {
            self.uncounted.add(&pod, pod.finished());
        }
        if pod.deletion.is_some() {
            let others = pod.finalizers.iter();
            let others =
                others.filter(|it| **it != TRACKING_FINALIZER && **it != OWN_TRACKING_FINALIZER);
            for finalizer in others {
                self.kept
                    .entry(finalizer.clone())
                    .or_default()
                    .add(&pod, pod.deletion);
            }
            if !is_over {
                self.terminating.add(&pod, pod.deletion);
            }
        }
        match pod.phase {
            PodPhase::Failed => self.failed.take(&pod),
            PodPhase::Succeeded => self.last_success = self.last_success.max(pod.finished()),
            _ if pod.deletion.is_some() => {}
            phase => {
                self.pending += u32::from(phase == PodPhase::Pending);
                if let Some(index) = pod.index {
                    self.live_indexes.insert(index);
                    if phase == PodPhase::Pending {
                        self.pending_indexes.insert(index);
                    }
                }
                if let Some((kind, words)) = pending(&pod) {
                    self.wait(kind, words, pod);
                }
            }
        }
    }

    fn wait(&mut self, kind: PendingKind, words: String, pod: PodDetails) {
        let is_full = self.waiting.len() >= MOST_GROUPS;
        let mut groups = self.waiting.iter_mut();
        let found = groups.find(|group| group.kind == kind && (is_full || group.words == words));
        match found {
            Some(group) => {
                group.count += 1;
                if pod.created < group.example.created {
                    group.example = pod;
                }
            }
            None => self.waiting.push(PendingGroup {
                kind,
                words,
                count: 1,
                example: pod,
            }),
        }
    }

    /// Sorts the groups by frequency. Call it after the last Pod.
    pub(crate) fn finish(&mut self) {
        self.waiting
            .sort_by_key(|group| std::cmp::Reverse(group.count));
    }

    /// Returns the number of Pods that wait for one thing, whatever their messages, and their most frequent group.
    pub(crate) fn waiting_for(&self, kind: PendingKind) -> Option<(u32, &PendingGroup)> {
        let mut groups = self.waiting.iter().filter(|group| group.kind == kind);
        let count = groups.clone().map(|group| group.count).sum();
        Some((count, groups.next()?))
    }
}

impl AlikePods {
    fn add(&mut self, pod: &PodDetails, since: Option<Time>) {
        let is_first = self.count == 0;
        self.count += 1;
        if is_first || since < self.since {
            self.example = pod.name.clone();
            self.node = pod.node.clone();
            self.since = since;
        }
    }
}
