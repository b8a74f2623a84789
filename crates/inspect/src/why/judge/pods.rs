//! Judges Pods that have ended or are being deleted, and still delay the Job.

use std::time::Duration;

use lakh_model::PodReplacement;

use crate::{
    one_job::{JobSight, Waits},
    words::{count, moment},
};

use super::{super::reason::Reason, ends, writes};

/// A controller counts Pods within seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reports kept, uncounted or terminating Pods of a Job with fewer active Pods than it wants.
pub(super) fn judge(sight: &JobSight) -> Option<Reason> {
    let status = sight.job.status();
    if status.active >= sight.job.wanted_at_once() {
        return None;
    }
    if let Some(kept) = ends::kept(sight) {
        let what = format!("Pods do not go: {}.", kept.what);
        return Some(Reason { what, ..kept });
    }
    let uncounted = &sight.pods.uncounted;
    let since = uncounted
        .since
        .filter(|at| sight.now.since(*at) >= PATIENCE);
    // A failed Pod is kept on purpose until its index is tried again.
    let is_kept_for_index = !Waits::of(&sight.job, &sight.pods, sight.now)
        .indexes
        .is_empty();
    // A refused write is a better reason, and another judge reports it.
    let is_refused = writes::half(sight).is_some();
    let is_uncounted = status.active == 0 && !is_kept_for_index && !is_refused;
    if let Some(since) = since.filter(|_| is_uncounted) {
        let writer = sight.job.status_writer.as_ref();
        let writer = writer.map_or_else(String::new, |it| {
            let at = it
                .at
                .map_or_else(String::new, |at| format!(" at {}", moment(at, sight.now)));
            format!("; {} last wrote its status{at}", it.manager)
        });
        return Some(Reason::new(
            "uncounted",
            format!(
                "{} ended and not been counted, the first since {}{writer}.",
                match uncounted.count {
                    1 => "1 Pod has".to_owned(),
                    number => format!("{number} Pods have"),
                },
                moment(since, sight.now)
            ),
            "The controller does not run, does not lead, or is far behind: see its log, or lakh doctor.",
        ));
    }
    let terminating = status.terminating.unwrap_or(0);
    let waits = sight.job.job.spec.pod_replacement == PodReplacement::Failed;
    (waits && terminating > 0).then(|| {
        Reason::new(
            "pods-terminating",
            format!(
                "New Pods wait until {} that are being deleted have ended (spec.podReplacementPolicy: Failed).",
                count(terminating as usize, "Pod")
            ),
            "Wait for the Pods' grace periods; where a node does not answer, delete the node.",
        )
    })
}
