//! How a Job ends.
//!
//! Source: docs/rules/jobs.md, 2.3 to 2.6 and 6.2. The first test that holds decides; failure is
//! tested before success. Upstream deletes the active Pods first and announces the verdict with the
//! status that names what led to it; here that status goes first, for deletions may take long and a
//! controller may end in between.
//!
//! Must not: write to a Pod for a verdict that the server does not have yet.

use crate::model::{ConditionKind, JobSpec, JobStatus, Report, RestartPolicy};

use super::{counting::Counting, job::Basis};

/// How a Job ends, and why.
#[doc(alias = "finishedCondition")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it ends Complete; else Failed.
    pub success: bool,
    /// One word.
    pub reason: String,
    /// A sentence.
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

    /// What people are told once the Job has ended.
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

    /// The condition that announces the verdict, while the Job's Pods are still there.
    pub(super) fn interim(&self) -> ConditionKind {
        if self.success {
            ConditionKind::SuccessCriteriaMet
        } else {
            ConditionKind::FailureTarget
        }
    }

    /// The condition that ends the Job.
    pub(super) fn terminal(&self) -> ConditionKind {
        if self.success {
            ConditionKind::Complete
        } else {
            ConditionKind::Failed
        }
    }
}

/// The Job's verdict, and how far it has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending {
    /// The verdict, going by what is known now. Nothing is done for it before the server has it.
    verdict: Option<Verdict>,
    /// Whether a status write has carried it: then it stands, also if what led to it (restarts of
    /// Pods that are gone by now) can no longer be seen.
    announced: bool,
    /// What the first Pod led to that fails the Job by the podFailurePolicy.
    fail_job: Option<Verdict>,
}

impl Ending {
    /// Takes over from the machine before what the server does not tell: what a Pod led to that failed the
    /// Job and may be gone.
    pub(super) fn succeed_to(&mut self, before: &Self) {
        self.fail_job.clone_from(&before.fail_job);
    }

    pub(super) fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// Whether the Job fails: its Pods are deleted with their finalizer on, and count.
    pub(super) fn fails(&self) -> bool {
        self.verdict
            .as_ref()
            .is_some_and(|verdict| !verdict.success)
    }

    /// A Pod fails the Job by the podFailurePolicy. The first that does keeps its message.
    pub(super) fn fail_job(&mut self, message: &str) {
        self.fail_job
            .get_or_insert_with(|| Verdict::failed("PodFailurePolicy", message));
    }

    /// Finds the verdict, going by all that is known.
    pub(super) fn judge(
        &mut self,
        basis: &Basis<'_>,
        counting: &Counting,
        creates: bool,
        is_overdue: bool,
    ) {
        let stored = |kind, success| {
            let found = basis.job.status.true_condition(kind);
            found.map(|found| Verdict::new(success, &found.reason, &found.message))
        };
        self.verdict = stored(ConditionKind::SuccessCriteriaMet, true)
            .or_else(|| stored(ConditionKind::FailureTarget, false))
            .or_else(|| self.verdict.take().filter(|_| self.announced))
            .or_else(|| self.fail_job.clone())
            .or_else(|| backoff_limit_verdict(basis, counting))
            .or_else(|| is_overdue.then(deadline_verdict))
            .or_else(|| failed_indexes_verdict(basis, counting))
            .or_else(|| success_policy_verdict(basis, counting))
            .or_else(|| completions_verdict(basis, counting, creates));
    }

    /// Whether the server has yet to hear of the verdict.
    pub(super) fn must_announce(&self, stored: &JobStatus) -> bool {
        let verdict = self.verdict.as_ref();
        verdict.is_some_and(|verdict| stored.true_condition(verdict.interim()).is_none())
    }

    /// The status that is about to be made carries the verdict, if there is one.
    pub(super) fn announce(&mut self) {
        self.announced |= self.verdict.is_some();
    }

    /// Whether a status write has carried the verdict.
    pub(super) fn is_announced(&self) -> bool {
        self.announced
    }
}

#[doc(alias = "exceedsBackoffLimit")]
#[doc(alias = "pastBackoffLimitOnFailure")]
fn backoff_limit_verdict(basis: &Basis<'_>, counting: &Counting) -> Option<Verdict> {
    let limit = basis.spec.backoff_limit;
    let restarts = counting.tally().restarts;
    let too_many_failures = counting.failed(basis) > limit;
    let too_many_restarts = basis.spec.restart_policy == RestartPolicy::OnFailure
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

fn failed_indexes_verdict(basis: &Basis<'_>, counting: &Counting) -> Option<Verdict> {
    let limit = basis.spec.per_index?;
    let (completed, failed) = counting.indexes_over();
    if limit.max_failed_indexes.is_some_and(|most| failed > most) {
        return Some(Verdict::failed(
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
        ));
    }
    let wanted = basis.spec.completions;
    let all_over = wanted.is_some_and(|wanted| failed + completed >= wanted);
    (failed > 0 && all_over).then(|| Verdict::failed("FailedIndexes", "Job has failed indexes"))
}

fn success_policy_verdict(basis: &Basis<'_>, counting: &Counting) -> Option<Verdict> {
    let rule = counting.success_rule(basis.spec.success.as_ref()?)?;
    Some(Verdict::succeeded(
        "SuccessPolicy",
        &format!("Matched rules at index {rule}"),
    ))
}

/// All wanted completions are there. Pods that are still active are too many then, but where no
/// number is wanted they may run to their end, and nobody stops those of a Job that is deleted.
fn completions_verdict(basis: &Basis<'_>, counting: &Counting, creates: bool) -> Option<Verdict> {
    let none_comes = counting.tally().active == 0 && !creates;
    let succeeded = counting.succeeded(basis);
    let reached = match basis.spec.completions {
        None => succeeded > 0 && none_comes,
        Some(wanted) => succeeded >= wanted && (none_comes || !basis.job.deleting),
    };
    reached.then(|| {
        Verdict::succeeded(
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        )
    })
}
