//! Decides whether this controller acts for the Job that owns a Pod, and whether its Pods lose their finalizers when no
//! machine decides.
//!
//! Source: docs/rules/jobs.md, 1.1, 1.6 and 2.1.

use crate::model::{Job, PodFlags, PodRecord};

/// The ownership state of a Job that Pods name as their controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// This controller manages it, and it has not ended. Its machine decides.
    AtWork,
    /// It has ended.
    Finished,
    /// It was deleted, whichever controller managed it. No other controller removes the finalizer from its Pods.
    Gone,
    /// It is not in the cache. It may be new, or deleted before the first list. Only the server knows.
    Unseen,
    /// Another controller manages it. lakh leaves it alone.
    External,
}

impl Standing {
    /// Derives the state of a Job from the cache.
    pub fn of(job: Option<&Job>, external: bool, gone: bool) -> Self {
        match job {
            _ if gone => Self::Gone,
            _ if external => Self::External,
            None => Self::Unseen,
            Some(job) if job.status.is_finished() => Self::Finished,
            Some(_) => Self::AtWork,
        }
    }

    /// Returns true if this state alone is a reason to remove the Pod's finalizer.
    pub fn frees(self, pod: &PodRecord) -> bool {
        let over = match self {
            Self::AtWork | Self::External | Self::Unseen => false,
            Self::Finished | Self::Gone => true,
        };
        over && pod.has(PodFlags::FINALIZER)
    }

    /// Returns true if the Pod suggests that its unseen Job is gone: the garbage collector may be deleting the Job's
    /// dependents. The caller must ask the server.
    pub fn is_doubted_by(self, pod: &PodRecord) -> bool {
        self == Self::Unseen && pod.has(PodFlags::DELETING) && pod.has(PodFlags::FINALIZER)
    }
}
