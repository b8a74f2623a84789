//! How a Job that Pods name as their controller stands to us, and what becomes of such Pods while
//! no machine looks after them.
//!
//! Source: docs/rules/jobs.md, 1.1, 1.6 and 2.1.

use crate::model::{Job, PodFlags, PodRecord};

/// See the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is ours and has not ended: its machine decides.
    AtWork,
    /// It has ended.
    Finished,
    /// It was deleted, whoever managed it: its Pods that carry our finalizer are nobody else's.
    Gone,
    /// Nobody has told of it: it may be new, or be no more since before we looked.
    Unseen,
    /// Another controller manages it: nothing of it is touched.
    External,
}

impl Standing {
    /// The standing of a Job, as far as it is known.
    pub fn of(job: Option<&Job>, external: bool, gone: bool) -> Self {
        match job {
            _ if gone => Self::Gone,
            _ if external => Self::External,
            None => Self::Unseen,
            Some(job) if job.status.is_finished() => Self::Finished,
            Some(_) => Self::AtWork,
        }
    }

    /// Whether our finalizer is to come off a Pod of such a Job for that alone. A Job that nobody
    /// has seen is no more once its Pods are being deleted: that is what the garbage collector does
    /// to them.
    pub fn frees(self, pod: &PodRecord) -> bool {
        let over = match self {
            Self::AtWork | Self::External => false,
            Self::Finished | Self::Gone => true,
            Self::Unseen => pod.has(PodFlags::DELETING),
        };
        over && pod.has(PodFlags::FINALIZER)
    }
}
