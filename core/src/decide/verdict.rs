//! How a Job ends.
//!
//! Source: docs/rules/jobs.md, 2.3 to 2.6 and 6.2. The first test that holds decides; failure is
//! tested before success. Upstream deletes the active Pods first and announces the verdict with the
//! status that names what led to it; here that status goes first, for deletions may take long and a
//! controller may end in between.
//!
//! Must not: write to a Pod for a verdict that the server does not have yet.

use crate::model::{Condition, ConditionKind, PodTable, RestartPolicy, Time};

use super::{JobMachine, tracked::End};

/// How a Job ends, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it ends Complete; else Failed.
    pub success: bool,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

impl Verdict {
    pub(super) fn failed(reason: &str, message: &str) -> Self {
        Self {
            success: false,
            reason: reason.into(),
            message: message.into(),
        }
    }

    pub(super) fn succeeded(reason: &str, message: &str) -> Self {
        Self {
            success: true,
            reason: reason.into(),
            message: message.into(),
        }
    }

    fn stored(condition: &Condition, success: bool) -> Self {
        Self {
            success,
            reason: condition.reason.to_string(),
            message: condition.message.clone(),
        }
    }

    /// The condition that announces the verdict, while the Job's Pods are still there.
    pub(super) fn interim(&self) -> ConditionKind {
        if self.success {
            ConditionKind::SuccessCriteriaMet
        } else {
            ConditionKind::FailureTarget
        }
    }

    /// The condition that ends the Job.
    pub(super) fn terminal(&self) -> ConditionKind {
        if self.success {
            ConditionKind::Complete
        } else {
            ConditionKind::Failed
        }
    }
}

impl JobMachine {
    /// The verdict, going by all that is known.
    pub(super) fn verdict(&self, now: Time) -> Option<Verdict> {
        let stored = |kind, success| {
            self.status
                .true_condition(kind)
                .map(|found| Verdict::stored(found, success))
        };
        stored(ConditionKind::SuccessCriteriaMet, true)
            .or_else(|| stored(ConditionKind::FailureTarget, false))
            .or_else(|| self.ending.clone().filter(|_| self.announced))
            .or_else(|| self.fail_job.clone())
            .or_else(|| self.backoff_limit_verdict())
            .or_else(|| self.deadline_verdict(now))
            .or_else(|| self.failed_indexes_verdict())
            .or_else(|| self.success_policy_verdict())
            .or_else(|| self.completions_verdict())
    }

    /// Whether the server has yet to hear of the verdict.
    pub(super) fn must_announce(&self) -> bool {
        let stored = |verdict: &Verdict| self.status.true_condition(verdict.interim()).is_some();
        self.ending.as_ref().is_some_and(|verdict| !stored(verdict))
    }

    /// The status that is about to be made carries the verdict, and with it what led to it.
    pub(super) fn announce_verdict(&mut self, pods: &PodTable) {
        if self.ending.is_some() {
            self.announced = true;
            self.settle_all(pods);
        }
    }

    /// Does what follows from a verdict, as far as it may be done by now.
    pub(super) fn follow_verdict(&mut self, pods: &PodTable) {
        let must_announce = self.must_announce();
        self.status_is_stale |= must_announce || self.may_end();
        if self.announced || !must_announce {
            self.settle_all(pods);
        }
        if !must_announce && self.tally.active > self.tally.condemned {
            self.end_active();
        }
    }

    /// No Pod is kept for its index any more and, once none is active, none is waited for.
    fn settle_all(&mut self, pods: &PodTable) {
        self.release_all_retained();
        if self.tally.active == 0
            && self.creations.is_empty()
            && let Some(verdict) = self.ending.clone()
        {
            self.settle_live(&verdict, pods);
        }
    }

    fn backoff_limit_verdict(&self) -> Option<Verdict> {
        let limit = self.spec.backoff_limit;
        let too_many_failures = self.failed_total() > limit;
        let too_many_restarts = self.spec.restart_policy == RestartPolicy::OnFailure
            && self.tally.restarts > 0
            && self.tally.restarts >= u64::from(limit);
        (too_many_failures || too_many_restarts).then(|| {
            Verdict::failed(
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            )
        })
    }

    fn deadline_verdict(&self, now: Time) -> Option<Verdict> {
        let due = self.deadline_at()?;
        (now >= due).then(|| {
            Verdict::failed(
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
            )
        })
    }

    fn failed_indexes_verdict(&self) -> Option<Verdict> {
        let limit = self.spec.per_index?;
        let failed = self.indexes.failed_len();
        if limit.max_failed_indexes.is_some_and(|most| failed > most) {
            return Some(Verdict::failed(
                "MaxFailedIndexesExceeded",
                "Job has exceeded the specified maximal number of failed indexes",
            ));
        }
        let over = failed + self.indexes.completed_len();
        (failed > 0 && self.spec.completions.is_some_and(|wanted| over >= wanted))
            .then(|| Verdict::failed("FailedIndexes", "Job has failed indexes"))
    }

    /// When the Job's deadline passes, if its clock runs.
    pub(super) fn deadline_at(&self) -> Option<Time> {
        if self.spec.suspend {
            return None;
        }
        Some(self.start_time? + self.spec.active_deadline?)
    }

    /// All wanted completions are there. Pods that are still active are too many then, but where no
    /// number is wanted they may run to their end, and nobody stops those of a Job that is deleted.
    fn completions_verdict(&self) -> Option<Verdict> {
        let none_comes = self.tally.active == 0 && self.creations.is_empty();
        let reached = match self.spec.completions {
            None => self.succeeded_total() > 0 && none_comes,
            Some(wanted) => self.succeeded_total() >= wanted && (none_comes || !self.deleting),
        };
        reached.then(|| {
            Verdict::succeeded(
                "CompletionsReached",
                "Reached expected number of succeeded pods",
            )
        })
    }

    /// Failed Pods, counted by the server or not yet.
    pub(super) fn failed_total(&self) -> u32 {
        self.status.failed + self.ended_uncounted(End::Failure) + self.tally.retained
    }

    /// Succeeded Pods, or for an Indexed Job indexes, counted by the server or not yet.
    pub(super) fn succeeded_total(&self) -> u32 {
        if self.spec.is_indexed() {
            return self.indexes.completed_len();
        }
        self.status.succeeded + self.ended_uncounted(End::Success)
    }

    /// Pods that ended in this way and are not in the server's counters.
    fn ended_uncounted(&self, end: End) -> u32 {
        let orphans = self
            .writing
            .as_ref()
            .map_or(0, |writing| writing.orphans[end as usize]);
        self.uncounted.len(end) + self.tally.unlisted(end) + orphans
    }
}
