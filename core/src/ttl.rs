//! TTL after finished: when a Job that has ended is to be deleted, step by step.
//!
//! A Job that is to go is looked at twice: as it is known here, and, once its time has come, as the
//! server has it now. [`Step::after_look`] and its like take what was learned and say what to do next.
//! Between two steps nothing is kept but the Job's place in the queue.
//!
//! Source: docs/rules/ttl-and-garbage.md, 1.2.
//!
//! Must not: read a clock, or know how anything is done.

use std::time::Duration;

use crate::model::{Condition, ConditionKind, Job, Time};

/// What to do next about a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a step that is dropped leaves a Job behind for ever"]
pub enum Step {
    /// Nothing, until there is news of it.
    Leave,
    /// Look at it again at this time.
    LookAt(Time),
    /// Ask the server for the Job as it is now.
    GetFresh,
    /// Delete this very object, its Pods first. Its time came at `expired`.
    Delete {
        /// When its time came.
        expired: Time,
    },
    /// Try again later, each time later than before.
    Retry,
}

/// The TTL of a Job and the end that it counts from; none if it has no TTL, has not finished, or is being deleted.
fn ttl_and_end(job: &Job) -> Option<(Duration, &Condition)> {
    let finished = job.status.conditions.iter().find(|condition| {
        let ends = condition.is(ConditionKind::Complete) || condition.is(ConditionKind::Failed);
        ends && condition.is_true()
    });
    let ttl = job.spec.ttl_after_finished.filter(|_| !job.deleting);
    ttl.zip(finished)
}

/// Whether there is anything to do about a Job, now or later.
#[doc(alias = "needsCleanup")]
pub fn concerns(job: &Job) -> bool {
    ttl_and_end(job).is_some()
}

impl Step {
    /// After a look at the Job as it is known here; none if it is gone.
    #[doc(alias = "processTTL")]
    pub fn after_look(known: Option<&Job>, now: Time) -> Self {
        Self::after(known, now, |_| Self::GetFresh)
    }

    /// After the server's answer: the Job, or that there is none. It may be another object under the
    /// same name; that one is judged by itself.
    pub fn after_answer(fresh: Option<&Job>, now: Time) -> Self {
        Self::after(fresh, now, |expired| Self::Delete { expired })
    }

    fn after(job: Option<&Job>, now: Time, expired: impl FnOnce(Time) -> Self) -> Self {
        let Some((ttl, end)) = job.and_then(ttl_and_end) else {
            return Self::Leave;
        };
        match end.last_transition.map(|at| at + ttl) {
            // It has finished, but its condition has no time.
            None => Self::Retry,
            Some(at) if at > now => Self::LookAt(at),
            Some(at) => expired(at),
        }
    }
}
