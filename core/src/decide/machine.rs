//! The Job machine: all that others may call, and the pass over the rules in their order.
//!
//! What has no file of its own is here, too: suspension, and completion modes that nobody knows.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use crate::model::{
    CompletionMode, GangFacts, Job, JobKey, JobSpec, JobStatus, Limits, Monotonic, Now,
    PerIndexLimit, PodGroup, PodRecord, PodTable, Slot, Time, Timeout,
};

use super::{
    Effect, Outcome, Report, Verdict,
    account::{EndedPods, UncountedList},
    alphabet::CreationId,
    backoff::{EndedBatch, Failures},
    errands::Errands,
    gang::{Fallback, Gang},
    gate::Gate,
    indexes::Indexes,
    lane::Lane,
    pod_names::PodNames,
    ramp::Ramp,
    retention::Retention,
    status::Writing,
    steer::{Creation, CreationState},
    success_policy::Successes,
    tracked::{Facts, Stage, Tally, Tracked},
};

/// The decision state of one Job.
///
/// Four kinds of method. `handle_*` take input: the Job, Pods by slot, outcomes of own writes, and of
/// a gang ([`JobMachine::is_gang`]) Workloads and PodGroups.
/// [`JobMachine::decide`] draws the conclusions, once after any number of `handle_*`, when no mark is
/// left in the table.
/// [`JobMachine::poll_effect`] then gives what to do until it is empty, and
/// [`JobMachine::poll_timeout`] when to decide again though nothing happened.
///
/// A new machine must hear of every Pod there is before its first `decide`. What it cannot take
/// in by change (somebody else wrote the status, `completions` changed) makes
/// [`JobMachine::is_outdated`] true; its [`JobMachine::successor`] then starts from the store, as
/// after a restart.
#[derive(Clone, Debug)]
pub struct JobMachine {
    pub(super) limits: Limits,
    pub(super) key: JobKey,
    pub(super) spec: JobSpec,
    pub(super) deleting: bool,
    gone: bool,
    outdated: bool,
    /// The status as the server has it.
    pub(super) status: JobStatus,
    pub(super) start_time: Option<Time>,
    /// Whether a Suspended condition exists, and which way it shall be.
    pub(super) suspended: Option<bool>,
    /// The verdict, going by what is known now. Nothing is done for it before the server has it.
    pub(super) ending: Option<Verdict>,
    /// Whether a status write has carried it: then it stands, also if what led to it (restarts of
    /// Pods that are gone by now) can no longer be seen.
    pub(super) announced: bool,
    /// What the first Pod led to that fails the Job by the podFailurePolicy.
    pub(super) fail_job: Option<Verdict>,

    pub(super) tracked: Vec<Tracked>,
    /// Pods to be looked at again in the next `decide`.
    pub(super) revisit: Vec<Slot>,
    pub(super) tally: Tally,
    pub(super) indexes: Indexes,
    pub(super) successes: Successes,
    pub(super) retention: Retention,
    pub(super) uncounted: UncountedList,
    pub(super) ended_pods: EndedPods,
    pub(super) batch: EndedBatch,
    pub(super) failures: Failures,
    /// The failures as of the last status write that succeeded.
    pub(super) failures_stored: Failures,

    pub(super) creations: BTreeMap<CreationId, Creation>,
    pub(super) doubtful: u32,
    pub(super) void: u32,
    /// Creations of unknown fate whose index is none at present: it may be one again.
    pub(super) beyond: Vec<(CreationId, Creation)>,
    /// Until when void and doubtful creations count.
    pub(super) lost_until: Option<Monotonic>,
    /// How many Pods were still missing after the last `decide`.
    pub(super) missing: u32,
    pub(super) ramp: Ramp,
    pub(super) create_gate: Gate,
    pub(super) removals: Lane,
    pub(super) deletions: Lane,
    pub(super) errands: Errands,
    pub(super) names: PodNames,

    pub(super) writing: Option<Writing>,
    /// When the last status write was sent.
    pub(super) written_at: Option<Monotonic>,
    pub(super) status_is_stale: bool,
    /// When that was first noticed.
    pub(super) stale_since: Option<Monotonic>,
    pub(super) status_gate: Gate,

    pub(super) gang: Gang,

    reported_left_alone: bool,
    pub(super) effects: VecDeque<Effect>,
    timeout: Option<(Timeout, &'static str)>,
}

impl JobMachine {
    /// A machine for a Job, as the server has it.
    pub fn new(job: &Job, limits: Limits) -> Self {
        let completions = job
            .spec
            .completions
            .filter(|_| job.spec.is_indexed())
            .unwrap_or(0);
        let suspended = job
            .status
            .conditions
            .iter()
            .find(|condition| condition.is(crate::model::ConditionKind::Suspended));
        let indexes = Indexes::new(completions, &job.status, job.spec.per_index.is_some());
        Self {
            limits,
            key: job.key.clone(),
            spec: job.spec.clone(),
            deleting: job.deleting,
            gone: false,
            outdated: false,
            start_time: job.status.start_time,
            suspended: suspended.map(|condition| condition.is_true()),
            ending: None,
            announced: false,
            fail_job: None,
            tracked: Vec::new(),
            revisit: Vec::new(),
            tally: Tally::default(),
            successes: Successes::new(job.spec.success.as_ref(), indexes.completed()),
            indexes,
            retention: Retention::default(),
            uncounted: UncountedList::new(job.status.uncounted.as_ref()),
            ended_pods: EndedPods::default(),
            batch: EndedBatch::default(),
            failures: Failures::default(),
            failures_stored: Failures::default(),
            creations: BTreeMap::new(),
            doubtful: 0,
            void: 0,
            beyond: Vec::new(),
            lost_until: None,
            missing: 0,
            ramp: Ramp::new(limits.max_pod_writes),
            create_gate: Gate::new(limits.retry_backoff),
            removals: Lane::new(&limits),
            deletions: Lane::new(&limits),
            errands: Errands::default(),
            names: PodNames::new(job.uid),
            writing: None,
            written_at: None,
            status_is_stale: true,
            stale_since: None,
            status_gate: Gate::new(limits.retry_backoff),
            status: job.status.clone(),
            gang: Gang::new(job, &limits),
            reported_left_alone: false,
            effects: VecDeque::new(),
            timeout: None,
        }
    }

    /// The machine that takes over after this one, with what cannot be read from the store: the
    /// failures in a row, what a Pod led to that failed the Job and may be gone, and creations of
    /// which nobody knows whether they happened.
    #[must_use]
    pub fn successor(&self, job: &Job) -> Self {
        let mut next = Self::new(job, self.limits);
        next.fail_job.clone_from(&self.fail_job);
        next.failures = self.failures_stored;
        next.failures_stored = self.failures_stored;
        next.status_gate = self.status_gate.clone();
        next.create_gate = self.create_gate.clone();
        next.gang = self.gang.clone();
        next.reported_left_alone = self.reported_left_alone;
        next.lost_until = self.lost_until;
        let doubtful = self.creations.iter().map(|(id, creation)| (*id, *creation));
        let doubtful = doubtful.filter(|(_, creation)| creation.state == CreationState::Doubtful);
        for (id, creation) in doubtful.chain(self.beyond.iter().copied()) {
            if let Some(index) = creation.index {
                if !next.indexes.is_valid(index) {
                    next.beyond.push((id, creation));
                    continue;
                }
                next.indexes.take(index);
            }
            next.doubtful += 1;
            next.names.take(id);
            next.creations.insert(id, creation);
        }
        next
    }

    /// Takes in a newer version of the Job. Not to be called while a status write is under way:
    /// what it brings may be that very write.
    pub fn handle_job(&mut self, job: &Job) {
        self.outdated |= !has_same_rules(&self.spec, &job.spec) || job.status != self.status;
        if self.outdated {
            return;
        }
        self.spec = job.spec.clone();
        self.deleting = job.deleting;
        self.status_gate.open();
    }

    /// The Job is no more; what is left of it is to let its Pods go.
    pub fn handle_job_gone(&mut self) {
        if !self.gone {
            self.gone = true;
            self.let_go_of_all();
        }
    }

    /// Lets every Pod go that has its finalizer, uncounted.
    pub(super) fn let_go_of_all(&mut self) {
        self.retention.clear();
        let slots = 0..u32::try_from(self.tracked.len()).unwrap_or(u32::MAX);
        for slot in slots.map(Slot) {
            if self.tracked[slot.at()].has(Facts::FINALIZER) {
                self.restage(slot, |_| Stage::Waived);
            }
        }
    }

    /// Takes in what is known of the Pod in a slot: its record, or that it is gone.
    pub fn handle_pod(&mut self, slot: Slot, pod: Option<&PodRecord>) {
        self.hear_pod(slot, pod);
    }

    /// Whether it is to be told of Workloads and PodGroups before each [`JobMachine::decide`].
    pub fn is_gang(&self) -> bool {
        self.spec.is_gang()
    }

    /// Takes in which Workloads and PodGroups there are.
    pub fn handle_gang(&mut self, facts: GangFacts) {
        self.gang.hear(facts);
    }

    /// Whether the Job wants no new Pods, whatever it asked for before: it ends, or is suspended. A creation
    /// that waits to be sent need not be.
    pub fn wants_no_pods(&self) -> bool {
        self.ending.is_some() || self.spec.suspend || self.deleting || self.gone
    }

    /// The PodGroup that new Pods are put into.
    pub fn pod_group(&self) -> Option<&Arc<PodGroup>> {
        self.gang.group()
    }

    /// Why the Job's Pods are scheduled one by one, once each time that it is news.
    pub fn new_fallback(&mut self) -> Option<Fallback> {
        self.gang.take_news()
    }

    /// Takes in how one of this machine's writes ended. What it changed in the Pods comes through
    /// [`JobMachine::handle_pod`].
    pub fn handle_outcome(&mut self, outcome: Outcome, now: Monotonic) {
        if outcome.is_of_pod() {
            self.errands.answer(now);
        }
        match outcome {
            Outcome::PodCreated(id) => {
                self.create_gate.succeed(now);
                self.forget_creation(id);
            }
            Outcome::PodNotCreated(id, error) => self.not_created(id, error, now),
            Outcome::PodDeleted(_) => self.deletions.done(true, now),
            Outcome::PodNotDeleted(slot) => {
                self.deletions.done(false, now);
                self.change_facts(slot, |facts| {
                    facts.set(Facts::CONDEMNED, false);
                    facts.set(Facts::DELETION, false);
                });
            }
            Outcome::FinalizerRemoved(_) => self.removals.done(true, now),
            Outcome::FinalizerNotRemoved(slot) => {
                self.removals.done(false, now);
                self.finalizer_not_removed(slot);
            }
            Outcome::PodChanged(slot) => {
                self.removals.done(true, now);
                self.finalizer_not_removed(slot);
            }
            Outcome::StatusWritten => self.status_written(now),
            Outcome::StatusNotWritten => self.status_not_written(now),
            Outcome::GangObjectMade => self.gang_object_made(now),
            Outcome::GangObjectNotMade(error) => self.gang_object_not_made(error, now),
        }
    }

    /// Draws the conclusions from all that was heard.
    ///
    /// One that is outdated decides nothing: its successor will. Nor does one that has yet to hear of
    /// Pods: those that it believes to be missing, or to be there, may be just these.
    pub fn decide(&mut self, pods: &PodTable, now: Now) {
        self.timeout = None;
        if self.is_outdated() || pods.is_dirty() {
            return;
        }
        if self.is_left_alone() {
            if !self.deleting {
                return;
            }
            // Its Pods would else keep it from going.
            self.handle_job_gone();
        }
        for slot in std::mem::take(&mut self.revisit) {
            self.hear_pod(slot, pods.get(slot));
        }
        self.failures.fold(&mut self.batch);
        if !self.lets_go_of_everything() && self.settle_gang(pods, now.monotonic) {
            self.conduct(pods, now);
            if self.status_is_stale {
                self.stale_since.get_or_insert(now.monotonic);
            }
            self.write_status_if_due(pods, now);
        }
        self.send_pod_writes(now.monotonic);
        self.set_timeout(now);
    }

    /// Gives the next thing to do.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Gives when to [`JobMachine::decide`] again, and why: for what comes first, if nobody sets a clock.
    pub fn poll_timeout(&self) -> Option<(Timeout, &'static str)> {
        self.timeout
    }

    /// Whether the machine must give way to its [`JobMachine::successor`].
    pub fn is_outdated(&self) -> bool {
        self.outdated && !self.gone
    }

    /// Whether a status write is under way.
    pub fn is_writing_status(&self) -> bool {
        self.writing.is_some()
    }

    /// One pass over the rules, in their order.
    fn conduct(&mut self, pods: &PodTable, now: Now) {
        self.take_back_suspension(now.wall);
        if self.start_time.is_none() && !self.spec.suspend {
            self.start_time = Some(now.wall.whole_secs());
        }
        self.ending = self.verdict(now.wall);
        let repeats = self.ending.is_none() && !self.deleting && !self.spec.suspend;
        if self.forget_lost_creations(repeats, now.monotonic) {
            // They may have been all that was waited for.
            self.ending = self.verdict(now.wall);
        }
        if self.deleting {
            self.release_all_retained();
            if !self.ends_badly() {
                self.waive_live();
            }
        }
        let steers = self.ending.is_none() && !self.deleting;
        self.missing = 0;
        if steers {
            self.steer(pods, now);
            self.note_suspension(now.wall);
        } else if self.ending.is_some() {
            self.follow_verdict(pods);
        }
    }

    /// Keeps track of suspension: it stops the Job's clock, resuming starts it anew.
    fn note_suspension(&mut self, now: Time) {
        let was = self.suspended == Some(true);
        if self.spec.suspend == was {
            return;
        }
        self.status_is_stale = true;
        self.suspended = Some(self.spec.suspend);
        self.start_time = (!self.spec.suspend).then(|| now.whole_secs());
        self.report_suspension(self.spec.suspend);
    }

    /// Takes back a flip that the server never heard of once the spec has flipped back: it refuses
    /// to move the start of a Job that it does not know as suspended.
    fn take_back_suspension(&mut self, now: Time) {
        let stored = self.stored_suspension();
        let heard = self.suspended == stored;
        if heard || (stored == Some(true)) != self.spec.suspend {
            return;
        }
        self.suspended = stored;
        self.start_time = self.status.start_time;
        if !self.spec.suspend {
            self.start_time.get_or_insert(now.whole_secs());
        }
        self.report_suspension(self.spec.suspend);
    }

    fn report_suspension(&mut self, suspended: bool) {
        self.report(match suspended {
            true => Report::normal("Suspended", "Job suspended"),
            false => Report::normal("Resumed", "Job resumed"),
        });
    }

    /// Whether the Job is one that lakh must not touch.
    fn is_left_alone(&mut self) -> bool {
        if self.lets_go_of_everything() {
            return false;
        }
        if self.spec.mode != CompletionMode::Unrecognized {
            return false;
        }
        let report = Report::warning(
            "UnknownCompletionMode",
            "Skipped Job sync because completion mode is unknown",
        );
        if !std::mem::replace(&mut self.reported_left_alone, true) {
            self.report(report);
        }
        true
    }

    /// Whether all that is left is to let the Pods go: the Job has ended or is no more.
    pub(super) fn lets_go_of_everything(&self) -> bool {
        self.gone || self.status.is_finished()
    }

    /// Whether the Job fails: its Pods are deleted with their finalizer on, and count.
    pub(super) fn ends_badly(&self) -> bool {
        self.ending.as_ref().is_some_and(|verdict| !verdict.success)
    }

    pub(super) fn report(&mut self, report: Report) {
        self.effects.push_back(Effect::Report(report));
    }

    /// Changes what is under way for a Pod, if it is still there.
    pub(super) fn change_facts(&mut self, slot: Slot, change: impl FnOnce(&mut Facts)) {
        if slot.at() < self.tracked.len() {
            self.restage_with(slot, |_, tracked| change(&mut tracked.facts));
        }
    }

    fn send_pod_writes(&mut self, now: Monotonic) {
        if self.must_announce() && !self.lets_go_of_everything() {
            // What led to the verdict stays until the server has it.
            return;
        }
        let width = self.limits.max_pod_writes;
        let counts_success =
            self.ending.is_none() && !self.deleting && !self.lets_go_of_everything();
        while let Some(slot) = self.deletions.next(width, now) {
            if self.tracked[slot.at()].has(Facts::DELETION) {
                self.deletions.sent();
                self.errands.ask(now);
                self.effects.push_back(Effect::DeletePod(slot));
            }
        }
        while let Some(slot) = self.removals.next(width, now) {
            let tracked = &mut self.tracked[slot.at()];
            if tracked.has(Facts::REMOVAL) && !tracked.has(Facts::REMOVAL_SENT) {
                tracked.facts.set(Facts::REMOVAL_SENT, true);
                self.removals.sent();
                self.errands.ask(now);
                let is_shed = tracked.stage == Stage::Shed;
                self.effects.push_back(match is_shed && counts_success {
                    true => Effect::RemoveFinalizerIfUnchanged(slot),
                    false => Effect::RemoveFinalizer(slot),
                });
            }
        }
    }

    fn set_timeout(&mut self, now: Now) {
        let waits = self.gang.waits() && !self.lets_go_of_everything();
        let runs = !self.lets_go_of_everything() && self.ending.is_none() && !waits;
        let creates = runs && !self.deleting && !self.spec.suspend;
        let Now { wall, monotonic } = now;
        let timeouts: [(Timeout, &'static str); 9] = [
            (
                self.create_blocked_until(now)
                    .filter(|_| creates && self.missing > 0)
                    .unwrap_or_default(),
                "pod creation backoff",
            ),
            (
                self.retention
                    .next_due()
                    .filter(|_| creates && self.missing > 0)
                    .into(),
                "index backoff",
            ),
            (
                self.create_gate
                    .opens_at(monotonic)
                    .filter(|_| creates && self.doubtful > 0)
                    .into(),
                "pod creation retry",
            ),
            (
                self.deletions.opens_at(monotonic).into(),
                "pod deletion retry",
            ),
            (
                self.removals.opens_at(monotonic).into(),
                "finalizer removal retry",
            ),
            (
                self.deadline_at().filter(|due| runs && *due > wall).into(),
                "active deadline",
            ),
            (
                self.status_due_at(monotonic).filter(|_| !waits).into(),
                "status write",
            ),
            (self.gang.due_at(monotonic).filter(|_| waits).into(), "gang"),
            (self.lost_creations_end(monotonic).into(), "lost creations"),
        ];
        let first = timeouts
            .iter()
            .filter_map(|(at, why)| Some((at.left(now)?, *why)))
            .min_by_key(|(left, _)| *left);
        self.timeout = first.map(|(_, why)| {
            let all = timeouts.iter().map(|(at, _)| *at);
            (all.fold(Timeout::default(), Timeout::or), why)
        });
    }
}

/// Whether two specs of a Job are alike in what a machine is built on.
///
/// Each field is named, so that nobody adds one to a Job without a thought of where it belongs.
fn has_same_rules(one: &JobSpec, other: &JobSpec) -> bool {
    let JobSpec {
        completions,
        mode,
        pod_replacement,
        pod_failure,
        success,
        per_index,
        // Read anew in each turn.
        parallelism: _,
        backoff_limit: _,
        active_deadline: _,
        suspend: _,
        restart_policy: _,
        own_scheduling_group: _,
        // Read by others than the machine.
        ttl_after_finished: _,
        managed_by: _,
    } = one;
    let by_index = |limit: &Option<PerIndexLimit>| limit.map(|limit| limit.backoff_limit);
    *completions == other.completions
        && *mode == other.mode
        && *pod_replacement == other.pod_replacement
        && *pod_failure == other.pod_failure
        && *success == other.success
        && by_index(per_index) == by_index(&other.per_index)
}
