//! What the Pods of a Job tell together: each is looked at once, and of most only that they were there is kept.
//!
//! Must not: ask anybody, or judge.

use std::collections::BTreeMap;

use compact_str::CompactString;

use crate::{
    failures::FailedPods,
    model::{IndexSet, OWN_TRACKING_FINALIZER, PodPhase, TRACKING_FINALIZER, Time},
    wire::PodDetails,
};

use super::pending::{PendingGroup, PendingKind, pending};

/// As many kinds of words are kept apart: a message may be another one in each Pod.
const MOST_GROUPS: usize = 64;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct PodCensus {
    /// Pods of the Job that were looked at.
    pub(in crate::cli) seen: u32,
    /// Not ended, not being deleted, and not running yet.
    pub(in crate::cli) pending: u32,
    /// Why Pods do not run, most of them first.
    pub(in crate::cli) waiting: Vec<PendingGroup>,
    /// Each Pod that failed.
    pub(in crate::cli) failed: FailedPods,
    /// Ends of containers that were started again in their Pods.
    pub(in crate::cli) restarts: u32,
    /// When the last of the Pods that succeeded did, if these were looked at.
    pub(in crate::cli) last_success: Option<Time>,
    /// Whether these were looked at.
    pub(in crate::cli) has_successes: bool,
    /// Being deleted and not ended yet.
    pub(in crate::cli) terminating: AlikePods,
    /// Ended and not counted yet, by their finalizers.
    pub(in crate::cli) uncounted: AlikePods,
    /// Pods to be deleted that something else than the counting keeps, by its finalizer.
    pub(in crate::cli) kept: BTreeMap<CompactString, AlikePods>,
    /// The indexes with a Pod that is neither ended nor being deleted, as far as these were looked at.
    pub(in crate::cli) live_indexes: IndexSet,
    /// Those of them whose Pod does not run yet.
    pub(in crate::cli) pending_indexes: IndexSet,
}

/// Some Pods, by one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct AlikePods {
    pub(in crate::cli) count: u32,
    /// The one that is so for the longest.
    pub(in crate::cli) example: CompactString,
    pub(in crate::cli) node: CompactString,
    pub(in crate::cli) since: Option<Time>,
}

impl PodCensus {
    /// Looks at a Pod of the Job.
    pub(in crate::cli) fn take(&mut self, pod: PodDetails) {
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

    /// Sums up: the most frequent comes first.
    pub(in crate::cli) fn finish(&mut self) {
        self.waiting
            .sort_by_key(|group| std::cmp::Reverse(group.count));
    }

    /// Pods that wait for one thing, whatever their words, and the group with the most frequent.
    pub(in crate::cli) fn waiting_for(&self, kind: PendingKind) -> Option<(u32, &PendingGroup)> {
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
