//! Selects the finished Jobs that exceed the history limits (docs/rules/cronjobs.md, 10).

use crate::model::{ChildJob, ConditionKind, CronJobSpec};

/// The Jobs to be deleted: the oldest of each outcome.
#[doc(alias = "cleanupFinishedJobs")]
pub(super) fn surplus(spec: &CronJobSpec, jobs: &[ChildJob]) -> Vec<ChildJob> {
    let kinds = [
        (ConditionKind::Complete, spec.successful_jobs),
        (ConditionKind::Failed, spec.failed_jobs),
    ];
    let mut surplus = Vec::new();
    for (kind, limit) in kinds {
        let Some(limit) = limit else { continue };
        let mut ended: Vec<&ChildJob> = jobs.iter().filter(|job| job.end == Some(kind)).collect();
        // Jobs without a start time come last.
        ended.sort_by_key(|job| (job.start.is_none(), job.start, &job.name));
        let count = ended.len().saturating_sub(limit as usize);
        surplus.extend(ended[..count].iter().copied().cloned());
    }
    surplus
}
