//! Checks the law of verdicts: a status that names or counts the cause of a verdict carries the verdict.
//!
//! It looks at one status alone, as a new controller must. It implements the rules of a Job's end a second time,
//! independent of the machine.

use lakh::model::{ConditionKind, IndexSet, Job, JobStatus, SuccessRule, Uid, Uncounted};

/// Returns true if a status says that its Job has ended or is about to.
pub(crate) fn carries_verdict(status: &JobStatus) -> bool {
    let interim = [
        ConditionKind::FailureTarget,
        ConditionKind::SuccessCriteriaMet,
    ];
    let announced = |kind| status.true_condition(kind).is_some();
    status.is_finished() || interim.into_iter().any(announced)
}

/// The verdict that a Job's status implies and does not carry. `fails_job` returns true for Pods that by their
/// failure alone fail their Job.
pub(crate) fn unannounced(job: &Job, fails_job: impl Fn(Uid) -> bool) -> Option<&'static str> {
    let status = &job.status;
    if carries_verdict(status) {
        return None;
    }
    let nothing = Uncounted::default();
    let listed = status.uncounted.as_ref().unwrap_or(&nothing);
    let limit_is_passed = || {
        let uncounted = u32::try_from(listed.failed.len()).expect("few") + listed.strange_failed;
        status.failed + uncounted > job.spec.backoff_limit
    };
    let tests: [(&'static str, &dyn Fn() -> bool); 5] = [
        ("PodFailurePolicy", &|| {
            listed.failed.iter().any(|uid| fails_job(*uid))
        }),
        ("BackoffLimitExceeded", &limit_is_passed),
        ("FailedIndexes", &|| has_failed_by_index(job)),
        ("SuccessPolicy", &|| meets_success_policy(job)),
        ("CompletionsReached", &|| has_all_completions(job, listed)),
    ];
    let found = tests.iter().find(|(_, holds)| holds());
    found.map(|(verdict, _)| *verdict)
}

fn has_failed_by_index(job: &Job) -> bool {
    let (Some(limit), Some(completions)) = (job.spec.per_index, job.spec.completions) else {
        return false;
    };
    let text = job.status.failed_indexes.as_deref().unwrap_or("");
    let failed = IndexSet::parse(text, completions).len();
    let over = failed + done(job).len();
    limit.max_failed_indexes.is_some_and(|most| failed > most)
        || (failed > 0 && over >= completions)
}

/// Returns true if a rule of the Job's successPolicy is met.
pub(crate) fn meets_success_policy(job: &Job) -> bool {
    let done = done(job);
    let Some(policy) = job.spec.success.as_ref().filter(|_| !done.is_empty()) else {
        return false;
    };
    policy.rules.iter().any(|rule| match rule {
        SuccessRule::Among { indexes, enough } => {
            indexes.iter().filter(|index| done.contains(*index)).count() >= *enough as usize
        }
        SuccessRule::Any(enough) => done.len() >= *enough,
        SuccessRule::Never => false,
    })
}

/// Returns true if a Job has all the completions that it wants. It must want a number and not be deleted.
fn has_all_completions(job: &Job, listed: &Uncounted) -> bool {
    let Some(wanted) = job.spec.completions.filter(|_| !job.deleting) else {
        return false;
    };
    let succeeded = match job.spec.is_indexed() {
        true => done(job).len(),
        false => {
            let uncounted = u32::try_from(listed.succeeded.len()).expect("few");
            job.status.succeeded + uncounted + listed.strange_succeeded
        }
    };
    succeeded >= wanted
}

fn done(job: &Job) -> IndexSet {
    let completions = job.spec.completions.unwrap_or(0);
    IndexSet::parse(&job.status.completed_indexes, completions)
}
