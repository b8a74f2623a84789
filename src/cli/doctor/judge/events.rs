//! Events on Jobs that are not yet over: what happened of late.
//!
//! Must not: judge.

use std::{collections::BTreeSet, time::Duration};

use crate::cli::{doctor::facts::Facts, objects::event_time};

/// An Event on a Job.
#[derive(Debug)]
pub(super) struct JobEvent<'a> {
    /// Namespace and name of the Job.
    pub(super) job: String,
    pub(super) message: &'a str,
}

/// Events of a reason that are not older than this, on Jobs that are not known to be over or gone.
pub(super) fn recent<'a>(
    facts: &'a Facts,
    reason: &str,
    within: Duration,
) -> impl Iterator<Item = JobEvent<'a>> {
    // Of Jobs that could not be listed nothing is known.
    let all_seen = facts.jobs.unseen.is_empty();
    let at_work = facts.jobs.found.iter().filter(|job| job.is_at_work());
    let at_work: BTreeSet<String> = at_work.map(|job| job.id.uid.to_string()).collect();
    let events = facts.events.found.iter();
    let events = events.filter(move |event| {
        let uid = event.involved_object.uid.as_deref().unwrap_or_default();
        let is_at_work = !all_seen || at_work.contains(uid);
        let is_recent = facts.now.since(event_time(event)) <= within;
        event.reason.as_deref() == Some(reason) && is_at_work && is_recent
    });
    events.map(|event| {
        let object = &event.involved_object;
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let name = object.name.as_deref().unwrap_or_default();
        JobEvent {
            job: format!("{namespace}/{name}"),
            message: event.message.as_deref().unwrap_or_default(),
        }
    })
}
