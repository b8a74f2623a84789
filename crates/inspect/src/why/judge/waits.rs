//! Judges backoffs after failures.

use crate::{
    one_job::{JobSight, Waits},
    words::{moment, short_list, span},
};

use super::super::reason::Reason;

/// Reports a backoff of the Job, or of indexes.
pub(super) fn judge(sight: &JobSight) -> Option<Reason> {
    // All wanted Pods exist: there is nothing else to wait for.
    if sight.job.status().active >= sight.job.wanted_at_once() {
        return None;
    }
    let now = sight.now;
    let waits = Waits::of(&sight.job, &sight.pods, now);
    let is_waiting = |index: Option<u32>| {
        waits.job.is_some() || index.is_some_and(|index| waits.indexes.contains_key(&index))
    };
    let failed = sight.pods.failed.iter();
    let last = failed
        .filter(|pod| is_waiting(pod.index))
        .max_by_key(|pod| pod.at)?;
    let cause = sight.pods.failed.cause_of(last);
    let remedy = format!(
        "Nothing has to be done; kubectl logs -n {} {} may say why it failed.",
        sight.job.job.key.namespace, last.name
    );
    if let Some((until, count)) = waits.job {
        let (when, wait) = (moment(until, now), span(until.since(now)));
        let failures = match count {
            1 => "a Pod failed".to_owned(),
            count => format!("{count} Pods failed in a row"),
        };
        return Some(Reason::new(
            "backoff",
            format!(
                "It waits until about {when} ({wait}) because {failures}, the last with {cause}."
            ),
            remedy,
        ));
    }
    let (first, _) = waits.ends()?;
    // Other indexes could run instead of the waiting ones, so those do not hold the Job.
    let others = sight.job.left()?.saturating_sub(waits.waiting().len());
    if sight.job.status().active < sight.job.job.spec.parallelism.min(others) {
        return None;
    }
    let (when, wait) = (moment(first, now), span(first.since(now)));
    let indexes = waits.waiting();
    let list = short_list(&indexes.to_string());
    let (which, whose) = match indexes.len() {
        1 => (format!("Index {list} waits"), "its Pod"),
        number => (
            format!("{number} indexes wait ({list}), the next"),
            "their Pods",
        ),
    };
    let others = match sight.job.status().active {
        0 => String::new(),
        active => format!("; all others that are left run ({active} active)"),
    };
    Some(Reason::new(
        "backoff-per-index",
        format!(
            "{which} until about {when} ({wait}) because {whose} failed, the last with {cause}{others}."
        ),
        remedy,
    ))
}
