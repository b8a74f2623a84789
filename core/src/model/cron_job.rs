//! A CronJob as decisions see it, and what they need of the Jobs that it made.
//!
//! Must not: hold the Job template (it travels as raw JSON beside the CronJob) or know of JSON.

use std::time::Duration;

use compact_str::CompactString;

use super::{ConditionKind, JobKey, Time, Uid};

/// A CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronJob {
    /// Its namespace and name.
    pub key: JobKey,
    /// Who it is.
    pub uid: Uid,
    /// The version of the object that this was read from.
    pub resource_version: u64,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// When it was made.
    pub created: Time,
    /// What is wanted.
    pub spec: CronJobSpec,
    /// What is known to have happened.
    pub status: CronJobStatus,
}

/// What is wanted of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CronJobSpec {
    /// When it runs.
    pub schedule: String,
    /// By which clocks.
    pub time_zone: Option<String>,
    /// How late a run may start.
    pub starting_deadline: Option<Duration>,
    /// What to do when a run is due and another one is still under way.
    pub concurrency: ConcurrencyPolicy,
    /// Whether no run starts for now.
    pub suspend: bool,
    /// How many Jobs that ended well stay.
    pub successful_jobs: Option<u32>,
    /// How many Jobs that ended badly stay.
    pub failed_jobs: Option<u32>,
    /// The controller that its Jobs are for, if they say so.
    pub managed_by: Option<CompactString>,
}

/// What to do when a run is due and another one is still under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConcurrencyPolicy {
    /// Run beside it.
    #[default]
    Allow,
    /// Do not run.
    Forbid,
    /// Run instead of it.
    Replace,
}

/// What is known to have happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CronJobStatus {
    /// Jobs under way, in the order of their creation.
    pub active: Vec<ActiveJob>,
    /// For when the latest run was due that was started.
    pub last_schedule: Option<Time>,
    /// When the latest run ended that ended well.
    pub last_successful: Option<Time>,
}

/// A Job under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveJob {
    /// Its name.
    pub name: CompactString,
    /// Who it is.
    pub uid: Uid,
    /// Its version when it was made.
    pub resource_version: u64,
}

/// A Job of a CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildJob {
    /// Its name.
    pub name: CompactString,
    /// Who it is.
    pub uid: Uid,
    /// For when it was due, if it says so.
    pub scheduled: Option<Time>,
    /// How it ended, if it has: Complete or Failed.
    pub end: Option<ConditionKind>,
    /// Whether it is Complete, however it is counted.
    pub complete: bool,
    /// When it was started.
    pub start: Option<Time>,
    /// When it was Complete.
    pub completion: Option<Time>,
}
