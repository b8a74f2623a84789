//! Whether this controller acts for the Job that owns a Pod, and what happens to the finalizers of its Pods when
//! no machine decides.
//!
//! Source: docs/rules/jobs.md, 1.1, 1.6 and 2.1.

use crate::model::{Job, PodFlags, PodRecord};

/// The state of a Job that Pods name as their controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// This controller manages it, and it has not ended: its machine decides.
    AtWork,
    /// It has ended.
    Finished,
    /// It was deleted, whoever managed it: nobody else removes the finalizer from its Pods.
    Gone,
    /// It has not been seen: it may be new, or have been deleted before the first list. Only the server knows.
    Unseen,
    /// Another controller manages it: it is left alone.
    External,
}

impl Standing {
    /// The standing of a Job, by what is known of it.
    pub fn of(job: Option<&Job>, external: bool, gone: bool) -> Self {
        match job {
            _ if gone => Self::Gone,
            _ if external => Self::External,
            None => Self::Unseen,
            Some(job) if job.status.is_finished() => Self::Finished,
            Some(_) => Self::AtWork,
        }
    }

    /// Whether the finalizer comes off a Pod for this reason alone.
    pub fn frees(self, pod: &PodRecord) -> bool {
        let over = match self {
            Self::AtWork | Self::External | Self::Unseen => false,
            Self::Finished | Self::Gone => true,
        };
        over && pod.has(PodFlags::FINALIZER)
    }

    /// Whether a Pod makes it look as if a Job that has not been seen were gone: the garbage collector may be
    /// deleting what was the Job's. The server is to be asked.
    pub fn is_doubted_by(self, pod: &PodRecord) -> bool {
        self == Self::Unseen && pod.has(PodFlags::DELETING) && pod.has(PodFlags::FINALIZER)
    }
}
