//! Decides when a finished Job is deleted (TTL after finished), step by step.
//!
//! A Job is checked twice: in the cache, and, once its TTL has expired, as the server returns it. [`Step::after_look`]
//! and [`Step::after_answer`] take the result and return the next step. Between two steps the only state is the Job's
//! entry in the queue.
//!
//! Source: docs/rules/ttl-and-garbage.md, 1.2.
//!
//! Must not: read a clock, or know how a step is carried out.

use std::time::Duration;

use crate::model::{Condition, ConditionKind, Job, Time};

/// The next step for a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a step that is dropped leaves a Job behind for ever"]
pub enum Step {
    /// Do nothing until the next event of the Job.
    Leave,
    /// Check it again at this time.
    LookAt(Time),
    /// Get the Job from the server.
    GetFresh,
    /// Delete exactly this object, with its Pods first.
    Delete {
        /// When its TTL expired.
        expired: Time,
    },
    /// Retry with backoff.
    Retry,
}

/// The TTL of a Job and the condition that it counts from. None if the Job has no TTL, has not finished, or is being
/// deleted.
fn ttl_and_end(job: &Job) -> Option<(Duration, &Condition)> {
    let finished = job.status.conditions.iter().find(|condition| {
        let ends = condition.is(ConditionKind::Complete) || condition.is(ConditionKind::Failed);
        ends && condition.is_true()
    });
    let ttl = job.spec.ttl_after_finished.filter(|_| !job.deleting);
    ttl.zip(finished)
}

/// Returns true if the Job needs a cleanup, now or later.
#[doc(alias = "needsCleanup")]
pub fn concerns(job: &Job) -> bool {
    ttl_and_end(job).is_some()
}

impl Step {
    /// The step after a look at the cached Job; `known` is none if it is gone.
    #[doc(alias = "processTTL")]
    pub fn after_look(known: Option<&Job>, now: Time) -> Self {
        Self::after(known, now, |_| Self::GetFresh)
    }

    /// The step after the server's response to a get; `fresh` is none if the Job is gone. It may be another object
    /// under the same name, which is judged by its own status.
    pub fn after_answer(fresh: Option<&Job>, now: Time) -> Self {
        Self::after(fresh, now, |expired| Self::Delete { expired })
    }

    fn after(job: Option<&Job>, now: Time, expired: impl FnOnce(Time) -> Self) -> Self {
        let Some((ttl, end)) = job.and_then(ttl_and_end) else {
            return Self::Leave;
        };
        match end.last_transition.map(|at| at + ttl) {
            // The Job has finished, but its condition has no time.
            None => Self::Retry,
            Some(at) if at > now => Self::LookAt(at),
            Some(at) => expired(at),
        }
    }
}
