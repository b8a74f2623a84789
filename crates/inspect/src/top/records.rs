//! Keeps the needed part of a Job and of an Event: a few hundred bytes.
//!
//! Must not: send requests, or judge.

use compact_str::CompactString;
use k8s_openapi::api::core::v1::Event;

use lakh_model::{JobKey, Time, Uid};

use crate::{objects::event_time, one_job::JobDetails, status::JobStanding};

use super::feed::Fed;

/// A Job of the table.
#[derive(Clone, Debug)]
pub(super) struct JobRow {
    pub(super) key: JobKey,
    pub(super) uid: Uid,
    pub(super) version: u64,
    pub(super) standing: JobStanding,
    pub(super) completions: Option<u32>,
    pub(super) succeeded: u32,
    pub(super) failed: u32,
    pub(super) active: u32,
    pub(super) created: Option<Time>,
}

impl JobRow {
    pub(super) fn of(details: &JobDetails) -> Self {
        let (job, status) = (&details.job, details.status());
        Self {
            key: job.key.clone(),
            uid: job.uid,
            version: job.resource_version,
            standing: JobStanding::of(details),
            completions: job.spec.completions,
            succeeded: status.succeeded,
            failed: status.failed,
            active: status.active,
            created: details.created,
        }
    }

    /// Returns the number of Pods that have ended and were counted.
    pub(super) fn ended(&self) -> u64 {
        u64::from(self.succeeded) + u64::from(self.failed)
    }

    /// Returns the completed share in percent, rounded down: 100 is all of it. None if `completions` is not set.
    pub(super) fn percent(&self) -> Option<u32> {
        let all = u64::from(self.completions?.max(1));
        let percent = u64::from(self.succeeded) * 100 / all;
        Some(u32::try_from(percent.min(100)).unwrap_or(100))
    }
}

impl Fed for JobDetails {
    type Row = JobRow;

    fn read(json: &str) -> Result<Self, serde_json::Error> {
        Self::read(json)
    }

    fn version(&self) -> String {
        self.job.resource_version.to_string()
    }

    fn row(&self) -> JobRow {
        JobRow::of(self)
    }
}

/// An Event about the Job.
#[derive(Clone, Debug)]
pub(super) struct EventRow {
    pub(super) uid: CompactString,
    pub(super) version: CompactString,
    pub(super) at: Time,
    pub(super) is_warning: bool,
    pub(super) reason: CompactString,
    pub(super) message: Box<str>,
    /// Number of occurrences.
    pub(super) count: u32,
}

/// Maximum length of a kept message in characters: two lines of a wide terminal.
const SHOWN: usize = 400;

impl Fed for EventRow {
    type Row = Self;

    fn read(json: &str) -> Result<Self, serde_json::Error> {
        let event: Event = serde_json::from_str(json)?;
        let series = event.series.as_ref().and_then(|series| series.count);
        let count = event.count.into_iter().chain(series).max().unwrap_or(1);
        let message = event.message.as_deref().unwrap_or_default();
        Ok(Self {
            uid: event.metadata.uid.as_deref().unwrap_or_default().into(),
            version: event
                .metadata
                .resource_version
                .as_deref()
                .unwrap_or_default()
                .into(),
            at: event_time(&event),
            is_warning: event.type_.as_deref() == Some("Warning"),
            reason: event.reason.as_deref().unwrap_or_default().into(),
            message: message.chars().take(SHOWN).collect::<String>().into(),
            count: u32::try_from(count).unwrap_or(1),
        })
    }

    fn version(&self) -> String {
        self.version.to_string()
    }

    fn row(&self) -> Self {
        self.clone()
    }
}
