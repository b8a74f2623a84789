//! Judges Jobs with a spec that allows no Pods.

use crate::{one_job::JobSight, words::moment};

use super::super::reason::Reason;

/// Reports `spec.suspend`.
pub(super) fn judge(sight: &JobSight) -> Option<Reason> {
    let job = &sight.job;
    if !job.job.spec.suspend {
        return None;
    }
    let by = job.suspender.as_ref().map_or_else(String::new, |writer| {
        let at = writer
            .at
            .map_or_else(String::new, |at| format!(", at {}", moment(at, sight.now)));
        format!(", as {} wrote it{at}", writer.manager)
    });
    let key = &job.job.key;
    if let Some(queue) = &job.queue {
        return Some(Reason::new(
            "queued",
            format!("It is suspended (spec.suspend{by}) and waits in queue {queue} of Kueue."),
            format!(
                "kubectl get workloads -n {} says what it waits for; Kueue lets it run when the queue has room.",
                key.namespace
            ),
        ));
    }
    Some(Reason::new(
        "suspended",
        format!("It is suspended (spec.suspend{by})."),
        format!(
            "kubectl patch job -n {} {} --type=merge -p '{{\"spec\":{{\"suspend\":false}}}}' lets it run.",
            key.namespace, key.name
        ),
    ))
}

/// Reports a `spec.parallelism` of 0.
pub(super) fn parallelism(sight: &JobSight) -> Option<Reason> {
    let key = &sight.job.job.key;
    (sight.job.job.spec.parallelism == 0).then(|| {
        Reason::new(
            "parallelism-zero",
            "No Pod may run: its spec.parallelism is 0.",
            format!(
                "kubectl patch job -n {} {} --type=merge -p '{{\"spec\":{{\"parallelism\":1}}}}' lets one run.",
                key.namespace, key.name
            ),
        )
    })
}
