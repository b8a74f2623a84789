//! Computes the difference between two statuses of a Job, for metrics.

use lakh_model::{CompletionMode, ConditionKind, IndexSet, Job, JobStatus};

/// The increase of a status over the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) mode: CompletionMode,
    pub(crate) succeeded: u32,
    pub(crate) failed: u32,
    /// For an Indexed Job: outcome of its indexes, its kind of backoff limit, and their number.
    pub(crate) indexes: [Option<(&'static str, &'static str, u32)>; 2],
    /// Outcome of the Job and reason, if it ended with this status.
    pub(crate) end: Option<(&'static str, String)>,
}

impl Progress {
    /// Compares a Job's status with the next one.
    pub(crate) fn between(job: &Job, next: &JobStatus) -> Self {
        let before = &job.status;
        let completions = job.spec.completions.unwrap_or(u32::MAX);
        let more = |before: Option<&str>, next: Option<&str>| match before == next {
            true => 0,
            false => {
                count_below(completions, next).saturating_sub(count_below(completions, before))
            }
        };
        let indexed = job.spec.mode == CompletionMode::Indexed;
        let succeeded = match indexed {
            true => more(
                Some(&before.completed_indexes),
                Some(&next.completed_indexes),
            ),
            false => next.succeeded.saturating_sub(before.succeeded),
        };
        let failed_indexes = next.failed_indexes.as_deref();
        let per_index = match failed_indexes {
            Some(_) => "perIndex",
            None => "global",
        };
        let failed = failed_indexes.map(|next| more(before.failed_indexes.as_deref(), Some(next)));
        Self {
            mode: job.spec.mode,
            succeeded,
            failed: next.failed.saturating_sub(before.failed),
            indexes: match indexed {
                true => [
                    Some(("succeeded", per_index, succeeded)),
                    failed.map(|more| ("failed", per_index, more)),
                ],
                false => [None, None],
            },
            end: end_of(next).filter(|_| !before.is_finished()),
        }
    }
}

/// Counts the indexes below `completions`. An elastic Job that shrinks loses the others: a difference of the sums would
/// take an index that is completed in the same status for one that was lost (upstream's `recordJobPodFinished`).
fn count_below(completions: u32, indexes: Option<&str>) -> u32 {
    IndexSet::parse(indexes.unwrap_or(""), completions).len()
}

fn end_of(status: &JobStatus) -> Option<(&'static str, String)> {
    let ends = [
        (ConditionKind::Complete, "succeeded"),
        (ConditionKind::Failed, "failed"),
    ];
    ends.into_iter().find_map(|(kind, result)| {
        let condition = status.true_condition(kind)?;
        Some((result, condition.reason.to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lakh_model::{Condition, JobSpec, Time};

    fn indexed() -> Job {
        Job {
            spec: JobSpec {
                mode: CompletionMode::Indexed,
                completions: Some(9),
                ..JobSpec::default()
            },
            status: JobStatus {
                succeeded: 2,
                completed_indexes: "3,4".into(),
                failed: 1,
                failed_indexes: Some("7".into()),
                ..JobStatus::default()
            },
            ..Job::default()
        }
    }

    #[test]
    fn only_increments_are_counted() {
        let job = indexed();
        let mut next = JobStatus {
            succeeded: 5,
            completed_indexes: "0,2-5".into(),
            failed: 4,
            failed_indexes: Some("1,6,7".into()),
            ..JobStatus::default()
        };
        let end = Condition::new_true(
            ConditionKind::Failed,
            "FailedIndexes",
            "",
            Time::from_secs(1),
        );
        next.conditions.push(end);
        let progress = Progress::between(&job, &next);
        assert_eq!((progress.succeeded, progress.failed), (3, 3));
        assert_eq!(
            progress.indexes,
            [
                Some(("succeeded", "perIndex", 3)),
                Some(("failed", "perIndex", 2))
            ]
        );
        assert_eq!(progress.end, Some(("failed", "FailedIndexes".to_owned())));
        let after = Job {
            status: next.clone(),
            ..job
        };
        assert_eq!(Progress::between(&after, &next).end, None, "it ends once");
    }
    #[test]
    fn an_index_that_completes_while_others_are_scaled_away_counts() {
        let mut job = indexed();
        job.spec.completions = Some(3);
        let next = JobStatus {
            succeeded: 1,
            completed_indexes: "0".into(),
            failed_indexes: Some("2".into()),
            ..JobStatus::default()
        };
        let progress = Progress::between(&job, &next);
        assert_eq!(progress.succeeded, 1);
        assert_eq!(
            progress.indexes,
            [
                Some(("succeeded", "perIndex", 1)),
                Some(("failed", "perIndex", 1))
            ]
        );
    }
}
