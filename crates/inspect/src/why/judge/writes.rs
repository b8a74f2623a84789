//! Judges refused writes of a controller that works on the Job: its status, its Pods' finalizers, and deletions of
//! Pods. Refused creations are in `refused`.

use std::time::Duration;

use lakh_model::Time;

use crate::{
    objects::{Refusal, RefusedWrite, Refuser, event_time},
    one_job::JobSight,
};

use super::{
    super::reason::Reason,
    refused::{of_server, whole},
};

/// A continuing refusal is reported at least this often: after a Job's first Events, once in five minutes.
const RECENT: Duration = Duration::from_secs(10 * 60);

/// Reports the newest refusal that still holds the Job.
pub(super) fn judge(sight: &JobSight) -> Option<Reason> {
    let half = half(sight)?;
    Some(Reason {
        what: whole(&half.what),
        ..half
    })
}

/// Reports the same in half a sentence, for use in another one.
pub(super) fn half(sight: &JobSight) -> Option<Reason> {
    let events = sight.events.found.iter();
    let refused = events.filter_map(|event| Some((RefusedWrite::of(event)?, event)));
    let open = refused.filter(|(write, event)| is_open(sight, *write, event_time(event)));
    let (write, last) = open.max_by_key(|(_, event)| event_time(event))?;
    let refusal = Refusal::of(last.message.as_deref().unwrap_or_default());
    let cause = match (refusal.refuser, write) {
        (Refuser::StoreFull | Refuser::Busy | Refuser::NoAnswer, _) => of_server(refusal.refuser),
        (_, RefusedWrite::StatusUpdate) => "status-refused",
        (_, RefusedWrite::FinalizerRemoval) => "finalizer-refused",
        (_, RefusedWrite::PodDeletion | RefusedWrite::PodCreation) => "deletion-refused",
    };
    Some(Reason::new(
        cause,
        refusal.sentence(write.of_one_job()),
        whole(refusal.remedy()),
    ))
}

/// Returns true if a refusal still holds the Job: no status was written since, or its effect is still visible.
fn is_open(sight: &JobSight, write: RefusedWrite, at: Time) -> bool {
    let job = &sight.job;
    if sight.now.since(at) > RECENT {
        return false;
    }
    let written = job.status_writer.as_ref().and_then(|writer| writer.at);
    let is_last = written.is_none_or(|written| at > written);
    let is_ending = job.verdict().is_some() || job.job.deleting;
    let active = job.status().active;
    match write {
        RefusedWrite::PodCreation => false,
        RefusedWrite::StatusUpdate => is_last,
        RefusedWrite::FinalizerRemoval => {
            let is_seen = sight.pods.uncounted.count > 0 && (is_ending || active == 0);
            is_last || is_seen
        }
        RefusedWrite::PodDeletion => {
            let has_surplus = active > job.wanted_at_once()
                || (active > 0 && (is_ending || job.job.spec.suspend));
            is_last || has_surplus
        }
    }
}
