//! Decides whether a Job ends, and how.
//!
//! Source: docs/rules/jobs.md, 2.3 to 2.6 and 6.2. The first test that holds decides; failure is tested before success.
//! Upstream deletes the active Pods first and announces the verdict in the status that records its cause. Here that
//! status comes first, because deletions may take long and the controller may exit in between.
//!
//! Must not: write to a Pod for a verdict that is not stored yet.

use crate::model::{ConditionKind, JobSpec, JobStatus, Report, RestartPolicy};

use super::{counting::Counting, job::JobContext};

/// The result of a Job, and its reason.
#[doc(alias = "finishedCondition")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// True for Complete, false for Failed.
    pub success: bool,
    /// The condition's reason, one word.
    pub reason: String,
    /// The condition's message, a sentence.
    pub message: String,
}

impl Verdict {
    fn new(success: bool, reason: &str, message: &str) -> Self {
        Self {
            success,
            reason: reason.into(),
            message: message.into(),
        }
    }

    fn failed(reason: &str, message: &str) -> Self {
        Self::new(false, reason, message)
    }

    fn succeeded(reason: &str, message: &str) -> Self {
        Self::new(true, reason, message)
    }

    /// Returns the Events for a Job that has ended with this verdict.
    #[doc(alias = "recordJobFinished")]
    pub(super) fn reports(&self, spec: &JobSpec, status: &JobStatus) -> Vec<Report> {
        if !self.success {
            return vec![Report::warning(&self.reason, &self.message)];
        }
        let too_many = spec
            .completions
            .is_some_and(|wanted| status.succeeded > wanted);
        let too_many = too_many.then(|| {
            Report::warning(
                "TooManySucceededPods",
                "Too many succeeded pods running after completion count reached",
            )
        });
        let completed = Report::normal("Completed", "Job completed");
        too_many.into_iter().chain([completed]).collect()
    }

    /// Returns the condition that announces the verdict while the Job's Pods still exist.
    pub(super) fn interim(&self) -> ConditionKind {
        if self.success {
            ConditionKind::SuccessCriteriaMet
        } else {
            ConditionKind::FailureTarget
        }
    }

    /// Returns the condition that ends the Job.
    pub(super) fn terminal(&self) -> ConditionKind {
        if self.success {
            ConditionKind::Complete
        } else {
            ConditionKind::Failed
        }
    }
}

/// The Job's verdict, and its progress from decided to stored.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending {
    /// The verdict, by the current state. No Pod is written to for it before it is stored.
    verdict: Option<Verdict>,
    /// A status write has carried the verdict. It then stands, even if its cause (restarts of Pods that are gone) is no
    /// longer visible.
    announced: bool,
    /// The verdict of the first Pod that fails the Job by the podFailurePolicy.
    fail_job: Option<Verdict>,
}

impl Ending {
    /// Inherits the state that is not stored: the FailJob verdict of a Pod that may be gone.
    pub(super) fn succeed_to(&mut self, before: &Self) {
        self.fail_job.clone_from(&before.fail_job);
    }

    pub(super) fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// Returns true if the Job fails: its Pods are deleted with their finalizer on, and count.
    pub(super) fn fails(&self) -> bool {
        self.verdict
            .as_ref()
            .is_some_and(|verdict| !verdict.success)
    }

    /// Fails the Job by the podFailurePolicy. The first Pod that does keeps its message.
    pub(super) fn fail_job(&mut self, message: &str) {
        self.fail_job
            .get_or_insert_with(|| Verdict::failed("PodFailurePolicy", message));
    }

    /// Finds the verdict for the current state.
    pub(super) fn judge(
        &mut self,
        context: &JobContext<'_>,
        counting: &Counting,
        creates: bool,
        is_overdue: bool,
    ) {
        let stored = |kind, success| {
            let found = context.job.status.true_condition(kind);
            found.map(|found| Verdict::new(success, &found.reason, &found.message))
        };
        self.verdict = stored(ConditionKind::SuccessCriteriaMet, true)
            .or_else(|| stored(ConditionKind::FailureTarget, false))
            .or_else(|| self.verdict.take().filter(|_| self.announced))
            .or_else(|| self.fail_job.clone())
            .or_else(|| backoff_limit_verdict(context, counting))
            .or_else(|| is_overdue.then(deadline_verdict))
            .or_else(|| failed_indexes_verdict(context, counting))
            .or_else(|| success_policy_verdict(context, counting))
            .or_else(|| completions_verdict(context, counting, creates));
    }

    /// Returns true if there is a verdict that is not stored yet.
    pub(super) fn must_announce(&self, stored: &JobStatus) -> bool {
        let verdict = self.verdict.as_ref();
        verdict.is_some_and(|verdict| stored.true_condition(verdict.interim()).is_none())
    }

    /// Marks the verdict, if any, as carried by the status that is composed next.
    pub(super) fn announce(&mut self) {
        self.announced |= self.verdict.is_some();
    }

    /// Returns true if a status write has carried the verdict.
    pub(super) fn is_announced(&self) -> bool {
        self.announced
    }
}

#[doc(alias = "exceedsBackoffLimit")]
#[doc(alias = "pastBackoffLimitOnFailure")]
fn backoff_limit_verdict(context: &JobContext<'_>, counting: &Counting) -> Option<Verdict> {
    let limit = context.spec.backoff_limit;
    let restarts = counting.tally().restarts;
    let too_many_failures = counting.failed(context) > limit;
    let too_many_restarts = context.spec.restart_policy == RestartPolicy::OnFailure
        && restarts > 0
        && restarts >= u64::from(limit);
    (too_many_failures || too_many_restarts).then(|| {
        Verdict::failed(
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        )
    })
}

#[doc(alias = "pastActiveDeadline")]
fn deadline_verdict() -> Verdict {
    Verdict::failed(
        "DeadlineExceeded",
        "Job was active longer than specified deadline",
    )
}

fn failed_indexes_verdict(context: &JobContext<'_>, counting: &Counting) -> Option<Verdict> {
    let limit = context.spec.per_index?;
    let (completed, failed) = counting.indexes_over();
    if limit.max_failed_indexes.is_some_and(|most| failed > most) {
        return Some(Verdict::failed(
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
        ));
    }
    let wanted = context.spec.completions;
    let all_over = wanted.is_some_and(|wanted| failed + completed >= wanted);
    (failed > 0 && all_over).then(|| Verdict::failed("FailedIndexes", "Job has failed indexes"))
}

fn success_policy_verdict(context: &JobContext<'_>, counting: &Counting) -> Option<Verdict> {
    let rule = counting.success_rule(context.spec.success.as_ref()?)?;
    Some(Verdict::succeeded(
        "SuccessPolicy",
        &format!("Matched rules at index {rule}"),
    ))
}

/// Returns success once the wanted completions are reached. Pods that are still active are then surplus. They are
/// awaited if `completions` is unset, or if the Job is being deleted, because then nothing stops them.
fn completions_verdict(
    context: &JobContext<'_>,
    counting: &Counting,
    creates: bool,
) -> Option<Verdict> {
    let none_comes = counting.tally().active == 0 && !creates;
    let succeeded = counting.succeeded(context);
    let reached = match context.spec.completions {
        None => succeeded > 0 && none_comes,
        Some(wanted) => succeeded >= wanted && (none_comes || !context.job.deleting),
    };
    reached.then(|| {
        Verdict::succeeded(
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        )
    })
}
