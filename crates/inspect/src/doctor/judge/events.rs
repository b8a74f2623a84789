//! Selects Warning Events about Jobs: recent ones of unfinished Jobs, and the newest of given Jobs.
//!
//! Must not: judge.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::core::v1::Event;

use lakh_model::{Time, Uid};

use crate::{
    doctor::facts::{Facts, jobs::JobFacts},
    objects::event_time,
};

/// An Event about a Job.
#[derive(Debug)]
pub(super) struct JobEvent<'a> {
    /// Namespace and name of the Job.
    pub(super) job: String,
    /// None if the Jobs could not be listed.
    pub(super) facts: Option<&'a JobFacts>,
    pub(super) event: &'a Event,
    pub(super) at: Time,
}

impl JobEvent<'_> {
    pub(super) fn message(&self) -> &str {
        self.event.message.as_deref().unwrap_or_default()
    }

    /// True if the Job's status has been written since.
    pub(super) fn is_before_status(&self) -> bool {
        let writers = self.facts.into_iter().flat_map(|job| &job.writers);
        writers.map(|(_, at)| *at).max() >= Some(self.at)
    }
}

/// Returns Events that are at most this old, of Jobs that are not known to be finished or gone.
pub(super) fn recent(facts: &Facts, within: Duration) -> impl Iterator<Item = JobEvent<'_>> {
    // The state of Jobs that could not be listed is unknown.
    let all_seen = facts.jobs.unseen.is_empty();
    let at_work = facts.jobs.found.iter().filter(|job| job.is_at_work());
    let at_work: BTreeMap<String, &JobFacts> =
        at_work.map(|job| (job.id.uid.to_string(), job)).collect();
    let events = facts.events.found.iter();
    events.filter_map(move |event| {
        let object = &event.involved_object;
        let job = at_work.get(object.uid.as_deref().unwrap_or_default());
        let at = event_time(event);
        let is_told = (job.is_some() || !all_seen) && facts.now.since(at) <= within;
        is_told.then(|| JobEvent {
            job: format!(
                "{}/{}",
                object.namespace.as_deref().unwrap_or_default(),
                object.name.as_deref().unwrap_or_default()
            ),
            facts: job.copied(),
            event,
            at,
        })
    })
}

/// Returns the newest Event about one of these Jobs for which `matches` returns true, however old.
pub(super) fn newest(
    facts: &Facts,
    jobs: impl Iterator<Item = Uid>,
    matches: impl Fn(&Event) -> bool,
) -> Option<&Event> {
    let uids: BTreeSet<String> = jobs.map(|uid| uid.to_string()).collect();
    let events = facts.events.found.iter();
    let about = events.filter(|event| {
        let uid = event.involved_object.uid.as_deref();
        uid.is_some_and(|uid| uids.contains(uid))
    });
    about
        .filter(|event| matches(event))
        .max_by_key(|event| event_time(event))
}
