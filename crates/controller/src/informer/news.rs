//! Defines the events of objects ([`News`]) and the notices about whole kinds ([`Notice`]) that informers send to
//! shards.

use std::sync::Arc;

use lakh_model::{DecodedPod, Monotonic, PodGroup, Uid, Workload};
use lakh_wire::{DecodedCronJob, DecodedGangObject, DecodedJob, ObjectIdentity};

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Jobs.
    Job,
    /// Pods.
    Pod,
    /// CronJobs.
    CronJob,
    /// Workloads, if gangs are enabled.
    Workload,
    /// PodGroups, if gangs are enabled.
    PodGroup,
}

impl Kind {
    /// Returns its name in a path.
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

/// A set of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// All kinds.
    pub const ALL: Self = Self(u8::MAX);

    /// No kind.
    pub const NONE: Self = Self(0);

    /// Returns the set without one kind.
    #[must_use]
    pub const fn without(self, kind: Kind) -> Self {
        Self(self.0 & !(1 << kind as u8))
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn or(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// Returns true if the set has the kind.
    pub const fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

/// Kind and namespace that one list and watch cover.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The kind.
    pub kind: Kind,
    /// The namespace; none for all.
    pub namespace: Option<Arc<str>>,
}

/// Change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A watch shows it, added or modified.
    Applied,
    /// A list of this version shows it.
    Listed(u64),
    /// It is deleted; this is its last version.
    Deleted,
}

/// Event of one object.
#[derive(Debug)]
pub struct News<'a> {
    /// The change.
    pub change: Change,
    /// The object.
    pub object: Observed<'a>,
}

impl News<'_> {
    /// Returns the event without borrows from the answer it was decoded from.
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

/// A decoded object. It concerns one namespace.
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
    /// An object of any kind that is too long to be decoded.
    TooLong(Box<TooLongObject>),
}

/// An object that is longer than an answer may be. It exists, and only its identity is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLongObject {
    /// Its kind.
    pub kind: Kind,
    /// Its name, UID and version.
    pub object: ObjectIdentity,
    /// The longest answer in bytes.
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

    /// Returns its kind, UID and version.
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

/// Notice about all objects of a kind, or about all kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A list is complete: as of this version, there are the listed objects and no others.
    Complete(Extent, u64),
    /// A watch has reached this version.
    Seen(Extent, u64),
    /// The objects of this extent belong to another history and must be forgotten.
    Forget(Extent),
    /// State of the history, and the kinds with a cache in sync with it.
    History {
        /// Number of the history.
        number: u64,
        /// Kinds that are listed in full, and those that are not watched.
        known: Kinds,
        /// Each broken connection was followed by a comparison with the server. Otherwise the server may have been
        /// restored, and irreversible writes have to wait.
        is_heard: bool,
        /// Round of the last request to list everything anew.
        round: u64,
        /// Kinds that were listed in full in this round, and those that are not watched.
        listed: Kinds,
    },
    /// Write deadline derived from the Lease, where an election is used.
    Lead(Monotonic),
    /// The next writes belong to another replica: finish the calls in flight and start none. The shard acknowledges
    /// with this number once it is done.
    Retire(u64),
}
