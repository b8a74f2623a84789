//! Judges what a machine does to the world, by a tally of its own that is simpler than the
//! machine's: what each Pod really did, and what the server's statuses said of it.

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

/// What really happened to a Pod.
#[derive(Clone, Debug, Default)]
struct Truth {
    phase: Option<PodPhase>,
    /// It had its finalizer when it ended.
    guarded: bool,
    deleted: bool,
    ghost: bool,
    index: Option<u32>,
    /// What it was told of its index's failures.
    told: FailureCounts,
    /// It failed, and the policy of the random Jobs ignores that.
    ignored: bool,
    /// It failed, and that policy has its index fail for it.
    fails_index: bool,
    /// It failed, and that policy has the Job fail for it.
    fails_job: bool,
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct Judge {
    truths: BTreeMap<Uid, Truth>,
    succeeded_indexes: BTreeSet<u32>,
    /// Indexes that some status has named as completed.
    written_indexes: BTreeSet<u32>,
    /// UIDs that some status has listed, and that are counted by now.
    listed: BTreeSet<Uid>,
    counted: BTreeSet<Uid>,
    most_parallel: u32,
    /// Nobody changed the spec, nothing crashed: what is created is never too much.
    calm: bool,
    /// No Pod was taken from the machine before it could count it.
    whole: bool,
    deleted_by_somebody: bool,
    /// Some write happened or did not, and the machine was not told which.
    answers_lost: bool,
    /// What rules of the policy decided, as the machine said.
    by_policy: Vec<FailureAction>,
    /// The version of the Job in which the server first had a verdict.
    verdict_since: Option<u64>,
    /// The last that this machine told people of suspension.
    told_suspended: Option<bool>,
    /// People were told how the Job ended.
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

    /// A Pod came that the machine has not asked for.
    pub(crate) fn adopted(&mut self, uid: Uid, index: Option<u32>) {
        self.calm = false;
        self.whole = false;
        self.truths.entry(uid).or_default().index = index;
    }

    pub(crate) fn deleted_by_somebody(&mut self, uid: Uid) {
        self.deleted_by_somebody = true;
        self.deleted(uid);
    }

    /// The machine has a Pod deleted. Where nobody meddles none is too many, so that only a verdict
    /// that the server has can be why.
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

    /// A machine was made that remembers nothing of what another told.
    pub(crate) fn machine_made(&mut self) {
        self.told_suspended = None;
    }

    /// The machine tells people something: of suspension when it changes, and how the Job ended once, when
    /// the server has just that.
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

    /// The machine says that a rule of the policy decided on a failed Pod: of no Pod twice.
    pub(crate) fn policy_applied(&mut self, action: FailureAction) {
        self.by_policy.push(action);
        assert!(self.by_policy.len() <= self.truths.len(), "{action:?}");
    }

    /// Nobody changed the spec, took Pods or deleted any, and nothing crashed.
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

    /// A new Pod is told how often its index failed: of as many Pods as it had, never more than
    /// are borne; of all of them, if nobody meddled.
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

    /// An index that a status names as failed: some Pod failed it.
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

    /// A machine that knew this version of the Job has asked for a Pod: there was no verdict yet.
    pub(crate) fn asked_for_pod(&self, base: u64) {
        let late = self.verdict_since.is_some_and(|since| base >= since);
        assert!(!late, "a Pod of a Job that has its verdict");
    }

    /// A Pod was created: never more than wanted, never two of an index. Those that a dead
    /// controller had asked for are not held against the living.
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
        // A Pod that somebody took away before the watch had told of it may seem to be another.
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

    /// A finalizer goes: its Pod must be named in the server's status, unless the rules waive it.
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
        // A success that came too late: its index had failed.
        let index = truth.index.filter(|_| view.phase == PodPhase::Succeeded);
        if index.is_some_and(|index| self.failed_rightly(spec, index)) {
            return;
        }
        let valid = !spec.is_indexed()
            || view
                .index
                .is_some_and(|index| Some(index.get()) < spec.completions);
        // A Pod that was to go anyway does not count because somebody deletes it meanwhile.
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
        // After a crash or a change of the spec Pods may be too many; those that ended never are.
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

    /// The server has taken a status from a machine that went by `known`.
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

    /// The Job has ended for a reason: it is one, going by what the last status says. Whoever changes
    /// the spec, or hides or deletes Pods, may make a good reason look like none.
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

    /// The Job is Complete: every end that the machine could see was counted.
    pub(crate) fn completed(&self, job: &Job) {
        // A success policy stops Pods that then may end in any way.
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
