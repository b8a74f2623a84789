//! Judges the effects of a Job machine with a tally of its own, which is simpler than the machine's. It records the
//! real end of each Pod and the statuses on the server.

use std::collections::{BTreeMap, BTreeSet};

use lakh::{
    decide::{NewPod, Report},
    model::{
        ConditionKind, FailureAction, FailureCounts, IndexSet, Job, JobSpec, JobStatus, PodFlags,
        PodPhase, PodRecord, PodReplacement, RestartPolicy, Uid, Uncounted,
    },
};

use super::{
    server::{Pod, Server},
    verdict_law::{carries_verdict, meets_success_policy, unannounced},
};

/// The real history of a Pod.
#[derive(Clone, Debug, Default)]
struct Truth {
    phase: Option<PodPhase>,
    /// It had its finalizer when it ended.
    guarded: bool,
    deleted: bool,
    ghost: bool,
    index: Option<u32>,
    /// The failures of its index that it was created with.
    told: FailureCounts,
    /// It failed, and the policy of the random Jobs ignores that.
    ignored: bool,
    /// It failed, and that policy fails its index.
    fails_index: bool,
    /// It failed, and that policy fails the Job.
    fails_job: bool,
}

/// A tally of a Job's history, independent of the machine. The world reports events and effects to it; the methods
/// assert that they follow the rules.
#[derive(Default)]
pub(crate) struct Judge {
    truths: BTreeMap<Uid, Truth>,
    succeeded_indexes: BTreeSet<u32>,
    /// Indexes that some status has listed as completed.
    written_indexes: BTreeSet<u32>,
    /// UIDs that some status has listed as uncounted, and those that are counted by now.
    listed: BTreeSet<Uid>,
    counted: BTreeSet<Uid>,
    most_parallel: u32,
    /// No spec change, crash or adoption: there are never more creations than wanted.
    calm: bool,
    /// No Pod was adopted, or disappeared before the machine could count it.
    whole: bool,
    deleted_by_somebody: bool,
    /// The response to some write was lost, so the machine does not know its outcome.
    answers_lost: bool,
    /// The decisions of the policy's rules, as reported by the machine.
    by_policy: Vec<FailureAction>,
    /// The version of the Job in which the server first had a verdict.
    verdict_since: Option<u64>,
    /// The last report of this machine on suspension.
    told_suspended: Option<bool>,
    /// The end of the Job was reported.
    told_end: bool,
}

impl Judge {
    pub(crate) fn new(job: &Job) -> Self {
        Self {
            most_parallel: job.spec.parallelism,
            calm: true,
            whole: true,
            ..Self::default()
        }
    }

    pub(crate) fn spec_changed(&mut self, job: &Job) {
        self.calm = false;
        self.most_parallel = self.most_parallel.max(job.spec.parallelism);
    }

    pub(crate) fn crashed(&mut self) {
        self.calm = false;
    }

    pub(crate) fn vanished(&mut self) {
        self.whole = false;
    }

    /// Records a Pod that the machine did not create.
    pub(crate) fn adopted(&mut self, uid: Uid, index: Option<u32>) {
        self.calm = false;
        self.whole = false;
        self.truths.entry(uid).or_default().index = index;
    }

    pub(crate) fn deleted_by_somebody(&mut self, uid: Uid) {
        self.deleted_by_somebody = true;
        self.deleted(uid);
    }

    /// Checks that the machine may delete a Pod. Without disturbance there is no surplus, so the server must have a
    /// verdict.
    pub(crate) fn stopped(&mut self, server: &Server, uid: Uid) {
        assert!(
            !self.is_undisturbed() || carries_verdict(&server.job.status),
            "{uid} is stopped before the server knows why"
        );
        self.deleted(uid);
    }

    fn deleted(&mut self, uid: Uid) {
        self.truths.entry(uid).or_default().deleted = true;
    }

    /// Records that a new machine has started, which does not know earlier reports.
    pub(crate) fn machine_made(&mut self) {
        self.told_suspended = None;
    }

    /// Checks a report. Suspension is reported when it changes. The end of the Job is reported once, as the server has
    /// it.
    pub(crate) fn report(&mut self, job: &Job, report: &Report) {
        let suspended = match report.reason.as_str() {
            "Suspended" => true,
            "Resumed" => false,
            _ => return self.end_reported(job, report),
        };
        let before = self.told_suspended.replace(suspended);
        assert_ne!(before, Some(suspended), "{report:?} is told again");
    }

    fn end_reported(&mut self, job: &Job, report: &Report) {
        let Job { spec, status, .. } = job;
        let complete = status.true_condition(ConditionKind::Complete).is_some();
        let is_true = match report.reason.as_str() {
            "Completed" => complete,
            "TooManySucceededPods" => {
                let most = spec.completions.unwrap_or(u32::MAX);
                assert!(complete && status.succeeded > most, "{status:?}");
                return;
            }
            reason => {
                let failed = status.true_condition(ConditionKind::Failed);
                failed.is_some_and(|end| end.reason == reason && end.message == report.message)
            }
        };
        assert!(is_true, "{report:?} of {status:?}");
        assert!(!self.told_end, "{report:?} is told again");
        self.told_end = true;
    }

    /// Records a decision of a policy rule on a failed Pod. There are never more decisions than Pods.
    pub(crate) fn policy_applied(&mut self, action: FailureAction) {
        self.by_policy.push(action);
        assert!(self.by_policy.len() <= self.truths.len(), "{action:?}");
    }

    /// Returns true if there was no spec change, crash, adoption, lost Pod, or deletion by a user.
    fn is_undisturbed(&self) -> bool {
        self.calm && self.whole && !self.deleted_by_somebody
    }

    pub(crate) fn answer_lost(&mut self) {
        self.answers_lost = true;
    }

    pub(crate) fn ended(&mut self, spec: &JobSpec, pod: &Pod, phase: PodPhase) {
        let record = &pod.record;
        let guarded = record.has(PodFlags::FINALIZER);
        let policy = spec.pod_failure.as_ref();
        let has_rules = policy.is_some_and(|policy| !policy.rules.is_empty());
        let code = pod.facts.containers.first().map(|one| one.exit_code);
        let disrupted = !pod.facts.conditions.is_empty();
        let judged = has_rules && phase == PodPhase::Failed;
        let truth = self.truths.entry(record.uid).or_default();
        truth.phase = Some(phase);
        truth.guarded = guarded;
        truth.ignored = judged && (disrupted || code == Some(2));
        truth.fails_index = judged && !disrupted && code == Some(3);
        truth.fails_job = judged && !disrupted && code == Some(4);
        if let (PodPhase::Succeeded, true, Some(index)) = (phase, guarded, record.index) {
            self.succeeded_indexes.insert(index.get());
        }
    }

    /// Checks the failure counts in a new Pod. The counted failures are within the limit. In total there are at most as
    /// many as earlier Pods of the index, and without disturbance exactly as many.
    fn told(&mut self, spec: &JobSpec, new: &NewPod, uid: Uid) {
        assert_eq!(new.failures.is_some(), spec.per_index.is_some());
        let (Some(told), Some(limit)) = (new.failures, spec.per_index) else {
            return;
        };
        assert!(told.counted <= limit.backoff_limit, "{new:?}");
        let before = |(known, truth): &(&Uid, &Truth)| **known != uid && truth.index == new.index;
        let before = self.truths.iter().filter(before).count() as u32;
        assert!(told.total() <= before, "{new:?} after {before} Pods");
        let undisturbed = self.is_undisturbed();
        assert!(
            !undisturbed || told.total() == before,
            "{new:?} after {before} Pods"
        );
        let truth = self.truths.entry(uid).or_default();
        truth.index = new.index;
        truth.told = told;
    }

    /// Returns true if some Pod justifies the index in a status's list of failed ones.
    fn failed_rightly(&self, spec: &JobSpec, index: u32) -> bool {
        let Some(limit) = spec.per_index else {
            return false;
        };
        self.truths.values().any(|truth| {
            let failed = match truth.phase {
                Some(PodPhase::Failed) => true,
                _ => truth.deleted && spec.pod_replacement != PodReplacement::Failed,
            };
            let used_up = !truth.ignored && truth.told.counted >= limit.backoff_limit;
            truth.index == Some(index) && failed && (truth.fails_index || used_up)
        })
    }

    /// Checks that the machine requests a Pod only if it did not know of a verdict. `base` is the version that it knew.
    pub(crate) fn asked_for_pod(&self, base: u64) {
        let late = self.verdict_since.is_some_and(|since| base >= since);
        assert!(!late, "a Pod of a Job that has its verdict");
    }

    /// Checks a created Pod: never more than wanted, never two of an index. Pods that a crashed controller had
    /// requested do not count.
    pub(crate) fn created(&mut self, server: &Server, new: &NewPod, uid: Uid, ghost: bool) {
        self.truths.entry(uid).or_default().ghost |= ghost;
        self.told(&server.job.spec, new, uid);
        let is_known = |pod: &PodRecord| !self.truths.get(&pod.uid).is_some_and(|one| one.ghost);
        let mine: Vec<&PodRecord> = server
            .pods
            .values()
            .map(|pod| &pod.record)
            .filter(|pod| is_known(pod))
            .collect();
        let holds_place = |pod: &&&PodRecord| {
            pod.is_active()
                || (server.job.spec.pod_replacement == PodReplacement::Failed
                    && pod.is_terminating())
        };
        let held = mine.iter().filter(holds_place).count();
        // A Pod that disappeared before its first event may be taken for another one.
        assert!(
            held <= self.most_parallel as usize || !self.whole,
            "{held} Pods hold a place"
        );
        let index = server.pods[&uid].record.index;
        let same = mine
            .iter()
            .filter(|pod| pod.is_active() && pod.index == index)
            .count();
        assert!(
            index.is_none() || same <= 1 || !self.whole,
            "two Pods of {index:?}"
        );
        let undisturbed = self.is_undisturbed();
        if let Some(index) = index.filter(|_| undisturbed) {
            let done = self.succeeded_indexes.contains(&index.get());
            assert!(!done, "{index:?} was done");
        }
    }

    /// Checks a removed finalizer: the server's status must name the Pod, unless the rules waive it.
    pub(crate) fn released(&self, server: &Server, spec: &JobSpec, view: &PodRecord) {
        let status = &server.job.status;
        let uid = view.uid;
        let truth = self.truths.get(&uid).cloned().unwrap_or_default();
        let led_to_verdict = truth.fails_job && view.phase == PodPhase::Failed;
        assert!(
            !led_to_verdict || carries_verdict(status),
            "{uid} fails the Job and is let go before the server knows"
        );
        let ignored = truth.ignored && view.phase == PodPhase::Failed;
        if status.is_finished() || self.is_named(view) || ignored {
            return;
        }
        // The success came too late: its index had failed.
        let index = truth.index.filter(|_| view.phase == PodPhase::Succeeded);
        if index.is_some_and(|index| self.failed_rightly(spec, index)) {
            return;
        }
        let valid = !spec.is_indexed()
            || view
                .index
                .is_some_and(|index| Some(index.get()) < spec.completions);
        // A surplus Pod does not count just because a user deletes it meanwhile.
        let undisturbed = self.is_undisturbed();
        let replaced_at_once = spec.pod_replacement != PodReplacement::Failed;
        let ended = view.phase.is_terminal() || (view.is_terminating() && replaced_at_once);
        let must_be_named = match view.phase.is_terminal() {
            true => self.calm && valid,
            false => undisturbed && ended && valid,
        };
        assert!(
            !must_be_named,
            "{uid} loses its finalizer before it is named"
        );
        let success = status
            .true_condition(ConditionKind::SuccessCriteriaMet)
            .is_some();
        assert!(
            !valid || !undisturbed || success || ended || spec.success.is_some(),
            "{uid} is let go though it is wanted"
        );
        // After a crash or a change of the spec there may be surplus Pods, but Pods that ended are never surplus.
        let really_ended = view.phase == PodPhase::Succeeded && valid;
        assert!(
            !really_ended,
            "{uid} loses its finalizer before it is named: {view:?}"
        );
    }

    fn is_named(&self, pod: &PodRecord) -> bool {
        let by_index = pod.phase == PodPhase::Succeeded
            && pod
                .index
                .is_some_and(|index| self.written_indexes.contains(&index.get()));
        self.listed.contains(&pod.uid) || by_index
    }

    /// Checks a status that the server has accepted from a machine that knew the spec `known`.
    pub(crate) fn status(&mut self, server: &Server, known: &JobSpec, old: &JobStatus) {
        let Job { spec, status, .. } = &server.job;
        let seen = Job {
            spec: known.clone(),
            ..server.job.clone()
        };
        let fails_job = |uid| self.truths.get(&uid).is_some_and(|truth| truth.fails_job);
        assert_eq!(unannounced(&seen, fails_job), None, "a verdict may be lost");
        if carries_verdict(status) {
            let version = server.job.resource_version;
            self.verdict_since.get_or_insert(version);
        }
        let nothing = Uncounted::default();
        let before = old.uncounted.as_ref().unwrap_or(&nothing);
        let after = status.uncounted.as_ref().unwrap_or(&nothing);
        let failing = status
            .true_condition(ConditionKind::FailureTarget)
            .is_some();
        let lists = [
            (&before.succeeded, &after.succeeded, true),
            (&before.failed, &after.failed, false),
        ];
        let mut counted = [0, 0];
        for (before, after, success) in lists {
            for uid in after.iter().filter(|uid| !before.contains(uid)) {
                assert!(self.listed.insert(*uid), "{uid} is listed a second time");
                let truth = self.truths.get(uid).cloned().unwrap_or_default();
                let is_true = match (success, truth.phase) {
                    (true, phase) => phase == Some(PodPhase::Succeeded),
                    (false, Some(PodPhase::Failed)) => true,
                    (false, _) => truth.deleted || failing,
                };
                assert!(is_true, "{uid} is listed, success {success}, was {truth:?}");
                assert!(!truth.ignored || failing, "{uid} is ignored and counts");
            }
            for uid in before.iter().filter(|uid| !after.contains(uid)) {
                assert!(self.counted.insert(*uid), "{uid} is counted a second time");
                let held = server
                    .pods
                    .get(uid)
                    .is_some_and(|pod| pod.record.has(PodFlags::FINALIZER));
                assert!(!held, "{uid} is counted with its finalizer on");
                counted[usize::from(success)] += 1;
            }
        }
        assert_eq!(status.failed - old.failed, counted[0], "failed");
        if spec.is_indexed() {
            let done = IndexSet::parse(&status.completed_indexes, u32::MAX);
            for index in done.iter() {
                let really = self.succeeded_indexes.contains(&index);
                assert!(really, "index {index} never succeeded");
                self.written_indexes.insert(index);
            }
            let failed = status.failed_indexes.as_deref().unwrap_or("");
            for index in IndexSet::parse(failed, u32::MAX).iter() {
                assert!(self.failed_rightly(spec, index), "index {index} had no end");
            }
        } else {
            assert_eq!(status.succeeded - old.succeeded, counted[1], "succeeded");
        }
    }

    /// Checks that the last status supports the reason for the Job's end. Skips disturbed histories, in which a good
    /// reason may look false.
    pub(crate) fn reason(&self, job: &Job) {
        let end = |kind| job.status.true_condition(kind);
        let end = end(ConditionKind::Complete).or_else(|| end(ConditionKind::Failed));
        let undisturbed = self.is_undisturbed();
        let Some(end) = end.filter(|_| undisturbed) else {
            return;
        };
        assert!(self.told_end || self.answers_lost, "nobody was told");
        let Job { spec, status, .. } = job;
        let completions = spec.completions.unwrap_or(0);
        let done = IndexSet::parse(&status.completed_indexes, completions);
        let failed = status.failed_indexes.as_deref().unwrap_or("");
        let failed = IndexSet::parse(failed, completions);
        let most = spec.per_index.and_then(|limit| limit.max_failed_indexes);
        let good = match end.reason.as_str() {
            "FailedIndexes" => !failed.is_empty() && done.len() + failed.len() >= completions,
            "MaxFailedIndexesExceeded" => most.is_some_and(|most| failed.len() > most),
            "SuccessPolicy" => meets_success_policy(job),
            "PodFailurePolicy" => self.truths.values().any(|truth| truth.fails_job),
            "BackoffLimitExceeded" if spec.restart_policy == RestartPolicy::Never => {
                status.failed > spec.backoff_limit
            }
            "CompletionsReached" if spec.is_indexed() => done.len() == completions,
            _ => true,
        };
        assert!(good, "{} {}", end.kind, end.reason);
        let fails_job = self.truths.values().any(|truth| truth.fails_job);
        let complete = end.is(ConditionKind::Complete) && end.reason == "CompletionsReached";
        assert!(
            !(complete && fails_job && !spec.is_indexed()),
            "a FailJob was missed"
        );
    }

    /// Checks a Complete Job: every end that the machine could see was counted.
    pub(crate) fn completed(&self, job: &Job) {
        // A success policy stops Pods, which may then end in any way.
        if !self.calm || !self.whole || job.deleting || job.spec.success.is_some() {
            return;
        }
        let ended = |wanted| {
            let truths = self.truths.values();
            truths
                .filter(|truth| truth.phase == Some(wanted) && truth.guarded && !truth.ignored)
                .count()
        };
        if job.spec.is_indexed() {
            let done: IndexSet = self.succeeded_indexes.iter().copied().collect();
            assert_eq!(done.to_string(), *job.status.completed_indexes);
        } else if !self.deleted_by_somebody {
            assert_eq!(ended(PodPhase::Succeeded), job.status.succeeded as usize);
        }
        if !self.deleted_by_somebody {
            assert_eq!(ended(PodPhase::Failed), job.status.failed as usize);
        }
        let undisturbed = !self.deleted_by_somebody && !self.answers_lost;
        for (action, applies) in [
            (
                FailureAction::Ignore,
                (|one| one.ignored) as fn(&Truth) -> bool,
            ),
            (FailureAction::FailIndex, |one| one.fails_index),
        ] {
            let told = self.by_policy.iter().filter(|told| **told == action);
            let truths = self.truths.values();
            let really = truths.filter(|truth| truth.guarded && applies(truth));
            assert!(
                !undisturbed || told.count() == really.count(),
                "{action:?} was told of too often, or not of all"
            );
        }
    }
}
