//! How a Job ends.
//!
//! Source: job-controller rules 2.3, 2.4 and 2.6. The first test that holds decides; failure is
//! tested before success.

use crate::model::{Condition, ConditionKind, RestartPolicy, Time};

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
    fn failed(reason: &str, message: &str) -> Self {
        Self {
            success: false,
            reason: reason.into(),
            message: message.into(),
        }
    }

    pub(super) fn completions_reached() -> Self {
        Self {
            success: true,
            reason: "CompletionsReached".into(),
            message: "Reached expected number of succeeded pods".into(),
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
    /// The verdict, as far as it does not depend on what this turn does to Pods.
    pub(super) fn verdict(&self, now: Time) -> Option<Verdict> {
        let stored = |kind, success| {
            self.status
                .true_condition(kind)
                .map(|found| Verdict::stored(found, success))
        };
        stored(ConditionKind::SuccessCriteriaMet, true)
            .or_else(|| stored(ConditionKind::FailureTarget, false))
            .or_else(|| self.announced.clone())
            .or_else(|| self.ending.clone())
            .or_else(|| self.backoff_limit_verdict())
            .or_else(|| self.deadline_verdict(now))
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

    /// When the Job's deadline passes, if its clock runs.
    pub(super) fn deadline_at(&self) -> Option<Time> {
        if self.spec.suspend {
            return None;
        }
        Some(self.start_time? + self.spec.active_deadline?)
    }

    /// Whether all wanted completions are there and no Pod is active.
    pub(super) fn completions_reached(&self) -> bool {
        if self.tally.active > 0 || !self.creations.is_empty() {
            return false;
        }
        match self.spec.completions {
            None => self.succeeded_total() > 0,
            Some(wanted) => self.succeeded_total() >= wanted,
        }
    }

    /// Failed Pods, counted by the server or not yet.
    pub(super) fn failed_total(&self) -> u32 {
        self.status.failed + self.ended_uncounted(End::Failure)
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
