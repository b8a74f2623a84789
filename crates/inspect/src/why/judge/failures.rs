//! Describes failures of Pods in half a sentence, for the other judges.

use crate::{one_job::JobSight, words::count};

/// Describes the most frequent failure; empty without failed Pods.
pub(super) fn of_most(sight: &JobSight) -> String {
    let groups = sight.pods.failed.by_cause();
    let Some(first) = groups.first() else {
        return String::new();
    };
    let (all, pods, cause) = (sight.pods.failed.count(), first.pods, first.cause);
    match groups.len() {
        1 => format!("; {}: {cause}", count(all, "Pod")),
        _ => format!("; {pods} of {}: {cause}", count(all, "Pod")),
    }
}

/// Names the log of the Pod that failed last.
pub(super) fn look_at_last(sight: &JobSight) -> String {
    let last = sight.pods.failed.iter().max_by_key(|pod| pod.at);
    let namespace = &sight.job.job.key.namespace;
    match last {
        Some(pod) => format!("See why with kubectl logs -n {namespace} {}", pod.name),
        None if sight.pods_unseen.is_empty() => {
            "The Pods that failed are gone: only what collects their logs may say why".to_owned()
        }
        None => "Their logs say why".to_owned(),
    }
}
