//! What informers tell.

use std::sync::Arc;

use crate::{
    model::{DecodedPod, Monotonic, PodGroup, Uid, Workload},
    wire::{DecodedCronJob, DecodedGangObject, DecodedJob, ObjectIdentity},
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

/// Some of the kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// All of them.
    pub const ALL: Self = Self(u8::MAX);

    /// None of them.
    pub const NONE: Self = Self(0);

    /// All of these but one.
    #[must_use]
    pub const fn without(self, kind: Kind) -> Self {
        Self(self.0 & !(1 << kind as u8))
    }

    /// These and those.
    #[must_use]
    pub const fn or(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// What is among these and among those.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// Whether it is among them.
    pub const fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

/// What one list and watch covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

/// News of one object.
#[derive(Debug)]
pub struct News<'a> {
    /// What became of it.
    pub change: Change,
    /// The object.
    pub object: Observed<'a>,
}

impl News<'_> {
    /// The same, without what it was read from.
    pub fn into_owned(self) -> News<'static> {
        let object = match self.object {
            Observed::Job(read) => Observed::Job(read),
            Observed::Pod(pod) => Observed::Pod(pod.into_owned()),
            Observed::CronJob(read) => Observed::CronJob(read),
            Observed::Workload(read) => Observed::Workload(read),
            Observed::PodGroup(read) => Observed::PodGroup(read),
            Observed::TooLong(object) => Observed::TooLong(object),
        };
        News {
            change: self.change,
            object,
        }
    }
}

/// An object that was shown. It concerns one namespace.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are Pods, and most of them pass by without a copy"
)]
pub enum Observed<'a> {
    /// A Job.
    Job(Box<DecodedJob>),
    /// A Pod.
    Pod(DecodedPod<'a>),
    /// A CronJob.
    CronJob(Box<DecodedCronJob>),
    /// A Workload.
    Workload(Box<DecodedGangObject<Workload>>),
    /// A PodGroup.
    PodGroup(Box<DecodedGangObject<PodGroup>>),
    /// An object of any kind that is too long to be read.
    TooLong(Box<TooLongObject>),
}

/// An object that is longer than an answer may be. It is there, and nothing but its identity is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLongObject {
    /// Its kind.
    pub kind: Kind,
    /// Its name, UID and version.
    pub object: ObjectIdentity,
    /// The bytes that an answer may have.
    pub longest: usize,
}

impl Observed<'_> {
    /// Its namespace.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Job(read) => &read.job.key.namespace,
            Self::Pod(pod) => &pod.namespace,
            Self::CronJob(read) => &read.cron_job.key.namespace,
            Self::Workload(read) => &read.namespace,
            Self::PodGroup(read) => &read.namespace,
            Self::TooLong(read) => &read.object.key.namespace,
        }
    }

    /// Its kind, who it is, and its version.
    pub fn identity(&self) -> (Kind, Uid, u64) {
        match self {
            Self::Job(read) => (Kind::Job, read.job.uid, read.job.resource_version),
            Self::Pod(pod) => (Kind::Pod, pod.record.uid, pod.record.resource_version),
            Self::CronJob(read) => {
                let cron_job = &read.cron_job;
                (Kind::CronJob, cron_job.uid, cron_job.resource_version)
            }
            Self::Workload(read) => (Kind::Workload, read.uid, read.resource_version),
            Self::PodGroup(read) => (Kind::PodGroup, read.uid, read.resource_version),
            Self::TooLong(read) => (read.kind, read.object.uid, read.object.resource_version),
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
    /// Which history is told, and what is known of it that nobody doubts.
    History {
        /// Its number.
        number: u64,
        /// The kinds that are known in full, and those that nobody watches.
        known: Kinds,
        /// Whether the server was heard since each connection that broke: else it may have been set back, and
        /// what cannot be made good has to wait.
        is_heard: bool,
        /// How often it was asked that all be listed anew.
        round: u64,
        /// The kinds that were listed in full since that was asked last, and those that nobody watches.
        listed: Kinds,
    },
    /// Until when anything may be written, where that hangs on a Lease.
    Lead(Monotonic),
    /// What is written next is another's: what is under way is to be finished, and nothing begun. It is to be told, by
    /// this number, when that is so.
    Retire(u64),
}
