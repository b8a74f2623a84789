//! What informers tell.

use std::sync::Arc;

use crate::{
    model::{DecodedPod, PodGroup, Workload},
    wire::{DecodedCronJob, DecodedGangObject, DecodedJob},
};

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Jobs.
    Job,
    /// Pods.
    Pod,
    /// CronJobs.
    CronJob,
    /// Workloads, where gangs are asked for.
    Workload,
    /// PodGroups, likewise.
    PodGroup,
}

impl Kind {
    /// What it is called in a path.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Job => "jobs",
            Self::Pod => "pods",
            Self::CronJob => "cronjobs",
            Self::Workload => "workloads",
            Self::PodGroup => "podgroups",
        }
    }
}

/// What one list and watch covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The kind.
    pub kind: Kind,
    /// The namespace; none for all.
    pub namespace: Option<Arc<str>>,
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A watch shows it, new or changed.
    Applied,
    /// A list of this version shows it.
    Listed(u64),
    /// It is gone; this was its last version.
    Deleted,
}

/// News of one object. They concern one namespace.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are of Pods, and most of them pass by without a copy"
)]
pub enum News<'a> {
    /// Of a Job.
    Job(Change, Box<DecodedJob>),
    /// Of a Pod.
    Pod(Change, DecodedPod<'a>),
    /// Of a CronJob.
    CronJob(Change, Box<DecodedCronJob>),
    /// Of a Workload.
    Workload(Change, Box<DecodedGangObject<Workload>>),
    /// Of a PodGroup.
    PodGroup(Change, Box<DecodedGangObject<PodGroup>>),
}

impl News<'_> {
    /// The object's namespace.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Job(_, job) => &job.job.key.namespace,
            Self::Pod(_, pod) => &pod.namespace,
            Self::CronJob(_, cron_job) => &cron_job.cron_job.key.namespace,
            Self::Workload(_, workload) => &workload.namespace,
            Self::PodGroup(_, group) => &group.namespace,
        }
    }

    /// The same, without what it was read from.
    pub fn into_owned(self) -> News<'static> {
        match self {
            Self::Job(change, job) => News::Job(change, job),
            Self::Pod(change, pod) => News::Pod(change, pod.into_owned()),
            Self::CronJob(change, cron_job) => News::CronJob(change, cron_job),
            Self::Workload(change, workload) => News::Workload(change, workload),
            Self::PodGroup(change, group) => News::PodGroup(change, group),
        }
    }
}

/// What concerns everything that is known of a kind, or all kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A list is complete: there are the objects that were listed, and no others as of this version.
    Complete(Extent, u64),
    /// A watch has come as far as this version.
    Seen(Extent, u64),
    /// What was told of these belongs to another history: all is to be forgotten.
    Forget(Extent),
    /// Which history is told, and whether all of it is known and nobody doubts it.
    History {
        /// Its number.
        number: u64,
        /// Whether Jobs may have turns.
        is_whole: bool,
    },
}
