//! Models a CronJob and its Jobs for the decision code.
//!
//! Must not: hold the Job template (it travels as raw JSON beside the CronJob) or know of JSON.

use std::time::Duration;

use compact_str::CompactString;

use super::{ConditionKind, JobKey, Time, Uid, api_text::api_text};

/// A CronJob: metadata, spec and status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronJob {
    /// Its namespace and name.
    pub key: JobKey,
    /// Its UID.
    pub uid: Uid,
    /// The resourceVersion that this was read from.
    pub resource_version: u64,
    /// Set if the CronJob has a deletionTimestamp.
    pub deleting: bool,
    /// Its creationTimestamp.
    pub created: Time,
    /// The desired state.
    pub spec: CronJobSpec,
    /// The observed state.
    pub status: CronJobStatus,
}

/// The spec of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CronJobSpec {
    /// The schedule in cron notation.
    pub schedule: String,
    /// The time zone of the schedule.
    pub time_zone: Option<String>,
    /// The maximum delay of a run's start.
    pub starting_deadline: Option<Duration>,
    /// The policy for a run that is due while another one is active.
    pub concurrency: ConcurrencyPolicy,
    /// The CronJob is suspended: no run starts.
    pub suspend: bool,
    /// The number of successful Jobs to keep.
    pub successful_jobs: Option<u32>,
    /// The number of failed Jobs to keep.
    pub failed_jobs: Option<u32>,
    /// The `managedBy` of its Job template, if set.
    pub managed_by: Option<CompactString>,
}

/// The policy for a run that is due while another one is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConcurrencyPolicy {
    /// Run both.
    #[default]
    Allow,
    /// Skip the new run.
    Forbid,
    /// Replace the active run.
    Replace,
}

api_text!(ConcurrencyPolicy {
    Allow = "Allow",
    Forbid = "Forbid",
    Replace = "Replace",
} else Allow);

/// The status of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CronJobStatus {
    /// Active Jobs, in the order of their creation.
    pub active: Vec<ActiveJob>,
    /// The scheduled time of the latest run that was started.
    pub last_schedule: Option<Time>,
    /// When the latest successful run ended.
    pub last_successful: Option<Time>,
}

/// An active Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveJob {
    /// Its name.
    pub name: CompactString,
    /// Its UID.
    pub uid: Uid,
    /// Its resourceVersion at creation.
    pub resource_version: u64,
}

/// A Job that a CronJob owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildJob {
    /// Its name.
    pub name: CompactString,
    /// Its UID.
    pub uid: Uid,
    /// Its scheduled time, if annotated.
    pub scheduled: Option<Time>,
    /// The condition that it finished with, if it has: Complete or Failed.
    pub end: Option<ConditionKind>,
    /// The Job is Complete, however it is counted.
    pub complete: bool,
    /// When it started.
    pub start: Option<Time>,
    /// When it became Complete.
    pub completion: Option<Time>,
}
