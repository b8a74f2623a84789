//! TTL after finished: when a Job that has ended is to be deleted, step by step.
//!
//! A Job that is to go is looked at twice: as it is known here, and, once its time has come, as the
//! server has it now. [`Step::after_look`] and its like take what was learned and say what to do next.
//! Between two steps nothing is kept but the Job's place in the queue.
//!
//! Source: docs/rules/ttl-and-garbage.md, 1.2.
//!
//! Must not: read a clock, or know how anything is done.

use crate::model::{ConditionKind, Job, Time};

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

/// When a Job expires.
enum Expiry {
    /// Never: it has no TTL, has not finished, or is being deleted.
    Unconcerned,
    /// At this time.
    Expires(Time),
    /// It has finished, but its condition has no time.
    NoFinishTime,
}

impl Expiry {
    fn of(job: &Job) -> Self {
        let finished = job.status.conditions.iter().find(|condition| {
            let ends = condition.is(ConditionKind::Complete) || condition.is(ConditionKind::Failed);
            ends && condition.is_true()
        });
        match (job.spec.ttl_after_finished, finished) {
            (Some(ttl), Some(finished)) if !job.deleting => match finished.last_transition {
                Some(at) => Self::Expires(at + ttl),
                None => Self::NoFinishTime,
            },
            _ => Self::Unconcerned,
        }
    }
}

/// Whether there is anything to do about a Job, now or later.
#[doc(alias = "needsCleanup")]
pub fn concerns(job: &Job) -> bool {
    !matches!(Expiry::of(job), Expiry::Unconcerned)
}

impl Step {
    /// After a look at the Job as it is known here; none if it is gone.
    #[doc(alias = "processTTL")]
    pub fn after_look(known: Option<&Job>, now: Time) -> Self {
        match known.map(Expiry::of) {
            None | Some(Expiry::Unconcerned) => Self::Leave,
            Some(Expiry::Expires(at)) if at > now => Self::LookAt(at),
            Some(Expiry::Expires(_)) => Self::GetFresh,
            Some(Expiry::NoFinishTime) => Self::Retry,
        }
    }

    /// After the server's answer: the Job, or that there is none. It may be another object under the
    /// same name; that one is judged by itself.
    pub fn after_answer(fresh: Option<&Job>, now: Time) -> Self {
        match fresh.map(Expiry::of) {
            None | Some(Expiry::Unconcerned) => Self::Leave,
            Some(Expiry::Expires(at)) if at > now => Self::LookAt(at),
            Some(Expiry::Expires(expired)) => Self::Delete { expired },
            Some(Expiry::NoFinishTime) => Self::Retry,
        }
    }
}
