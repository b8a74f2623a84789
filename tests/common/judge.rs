//! Judges what a machine does to the world, by a tally of its own that is simpler than the
//! machine's: what each Pod really did, and what the server's statuses said of it.

use std::collections::{BTreeMap, BTreeSet};

use lakh::{
    decide::Report,
    model::{
        ConditionKind, IndexSet, Job, JobSpec, JobStatus, PodPhase, PodRecord, PodReplacement, Uid,
        Uncounted,
    },
};

use super::server::Server;

/// What really happened to a Pod.
#[derive(Clone, Debug, Default)]
struct Truth {
    phase: Option<PodPhase>,
    /// It had its finalizer when it ended.
    guarded: bool,
    deleted: bool,
    ghost: bool,
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

    pub(crate) fn deleted_by_somebody(&mut self, uid: Uid) {
        self.deleted_by_somebody = true;
        self.deleted(uid);
    }

    pub(crate) fn deleted(&mut self, uid: Uid) {
        self.truths.entry(uid).or_default().deleted = true;
    }

    pub(crate) fn report(&mut self, _report: &Report) {}

    pub(crate) fn ended(&mut self, record: &PodRecord, phase: PodPhase, guarded: bool) {
        let truth = self.truths.entry(record.uid).or_default();
        truth.phase = Some(phase);
        truth.guarded = guarded;
        if let (PodPhase::Succeeded, true, Some(index)) = (phase, guarded, record.index) {
            self.succeeded_indexes.insert(index.get());
        }
    }

    /// A Pod was created: never more than wanted, never two of an index. Those that a dead
    /// controller had asked for are not held against the living.
    pub(crate) fn created(&mut self, server: &Server, uid: Uid, ghost: bool) {
        self.truths.entry(uid).or_default().ghost |= ghost;
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
        let undisturbed = self.calm && self.whole && !self.deleted_by_somebody;
        if let Some(index) = index.filter(|_| undisturbed) {
            let done = self.succeeded_indexes.contains(&index.get());
            assert!(!done, "{index:?} was done");
        }
    }

    /// A finalizer goes: its Pod must be named in the server's status, unless the rules waive it.
    pub(crate) fn released(&self, server: &Server, spec: &JobSpec, view: &PodRecord) {
        let status = &server.job.status;
        let uid = view.uid;
        if status.is_finished() || self.is_named(view) {
            return;
        }
        let valid = !spec.is_indexed()
            || view
                .index
                .is_some_and(|index| Some(index.get()) < spec.completions);
        // A Pod that was to go anyway does not count because somebody deletes it meanwhile.
        let undisturbed = self.calm && self.whole && !self.deleted_by_somebody;
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
            !valid || !undisturbed || success || ended,
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

    /// The server has taken a status.
    pub(crate) fn status(&mut self, server: &Server, old: &JobStatus) {
        let Job { spec, status, .. } = &server.job;
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
            }
            for uid in before.iter().filter(|uid| !after.contains(uid)) {
                assert!(self.counted.insert(*uid), "{uid} is counted a second time");
                let held = server
                    .pods
                    .get(uid)
                    .is_some_and(|pod| pod.record.has(lakh::model::PodFlags::FINALIZER));
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
        } else {
            assert_eq!(status.succeeded - old.succeeded, counted[1], "succeeded");
        }
    }

    /// The Job is Complete: every end that the machine could see was counted.
    pub(crate) fn completed(&self, job: &Job) {
        if !self.calm || !self.whole || job.deleting {
            return;
        }
        let ended = |wanted| {
            let truths = self.truths.values();
            truths
                .filter(|truth| truth.phase == Some(wanted) && truth.guarded)
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
    }
}
