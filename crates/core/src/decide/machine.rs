//! Implements the Job state machine: its public methods, and the pass over the rules in their order.
//!
//! Each part owns its state; values pass between the parts here. Jobs of an unknown completion mode have no file of
//! their own and are handled here, too.

#[cfg(test)]
mod tests;

use std::{collections::VecDeque, sync::Arc};

use crate::model::{
    CompactIndex, CompletionMode, GangFacts, Job, JobStatus, Limits, Monotonic, Now, PodGroup,
    PodRecord, PodSuffix, PodTable, Report, Slot, StatusChange, Timeout,
};

use super::{
    contest::{self, Contest},
    counting::Counting,
    creations::Creations,
    effect::{CreateError, CreationId, Effect, Outcome},
    ending::Ending,
    gang::{Fallback, Gang},
    job::{JobContext, KnownJob},
    manage_pods::{blocked_until, manage_pods, wants_pod},
    status::{StatusChanges, StatusWriter, compose_conditions},
    suspension::Suspension,
    write_latency::WriteLatency,
};

/// The decision state of one Job.
///
/// There are four kinds of method. `handle_*` take input: the Job, Pods by slot, results of own writes, and for a gang
/// ([`JobMachine::is_gang`]) Workloads and PodGroups. Call [`JobMachine::decide`] once after any number of `handle_*`,
/// when the Pod table has no dirty slots. Then drain [`JobMachine::poll_effect`] for actions.
/// [`JobMachine::poll_timeout`] returns when to decide again without new input.
///
/// A new machine needs every existing Pod before its first `decide`. Some changes cannot be applied to a running
/// machine: another client wrote the status, or `completions` changed. Then [`JobMachine::is_outdated`] is true, and
/// the machine's [`JobMachine::successor`] starts from the stored state, as after a restart.
#[derive(Clone, Debug)]
#[doc(alias = "syncJob")]
pub struct JobMachine {
    limits: Limits,
    job: KnownJob,
    suspension: Suspension,
    ending: Ending,
    counting: Counting,
    creations: Creations,
    /// Creations with a Pod in the table. Their places are freed once those Pods have been handled: this is cheaper
    /// than freeing a place and taking it again.
    arrived: Vec<CreationId>,
    status: StatusWriter,
    write_latency: WriteLatency,
    gang: Gang,
    contest: Contest,
    reported_left_alone: bool,
    effects: VecDeque<Effect>,
    timeout: Option<(Timeout, &'static str)>,
}

impl JobMachine {
    /// Creates a machine for a Job as stored on the API server.
    pub fn new(job: &Job, limits: Limits) -> Self {
        Self {
            limits,
            job: KnownJob::new(job),
            suspension: Suspension::new(&job.status),
            ending: Ending::default(),
            counting: Counting::new(job, &limits),
            creations: Creations::new(&limits),
            arrived: Vec::new(),
            status: StatusWriter::new(&limits),
            write_latency: WriteLatency::default(),
            gang: Gang::new(job, &limits),
            contest: Contest::default(),
            reported_left_alone: false,
            effects: VecDeque::new(),
            timeout: None,
        }
    }

    /// Creates the machine that replaces this one. It inherits the state that is not stored: consecutive failures, the
    /// FailJob verdict of a Pod that may be gone, and creations with an unknown result.
    #[must_use]
    pub fn successor(&self, job: &Job) -> Self {
        let mut next = Self::new(job, self.limits);
        next.ending.succeed_to(&self.ending);
        next.counting.succeed_to(&self.counting);
        next.status.succeed_to(&self.status);
        next.gang = self.gang.clone();
        next.contest = self.contest.clone();
        next.reported_left_alone = self.reported_left_alone;
        let has_index = |index| next.counting.has_index(index);
        for id in next.creations.succeed_to(&self.creations, has_index) {
            next.counting.keep_place(id);
        }
        next
    }

    /// Applies a newer version of the Job. Must not be called while a status write is in flight: the new version may be
    /// the result of that write.
    pub fn handle_job(&mut self, job: &Job) {
        let before = self.job.status.clone();
        if !self.job.take_in(job) {
            return;
        }
        self.status.try_at_once();
        if before != self.job.status {
            self.suspension.take_in(&before, &self.job.status);
            self.counting.begin_run(&self.job.status);
            self.status.set_stale();
        }
    }

    /// Handles a status write by another Job controller. Returns a report if this controller stops creating Pods from
    /// now on. The report is no effect, because a successor may replace this machine before its effects are polled.
    pub fn handle_foreign_status(&mut self, now: Monotonic) -> Option<Report> {
        let alone_after = self.limits.alone_after?;
        let begins = self.contest.foreign_status(now);
        begins.then(|| contest::report(alone_after))
    }

    /// Compares a status with the stored one, as this machine knows it.
    pub fn change_to(&self, status: &JobStatus) -> StatusChange {
        self.job.status.change_to(status)
    }

    /// Handles the deletion of the Job: from now on the machine only releases its Pods.
    pub fn handle_job_gone(&mut self) {
        if !self.job.gone {
            self.job.gone = true;
            let (context, counting) = self.counting();
            counting.let_go_of_all(&context);
        }
    }

    /// Handles the current record of the Pod in a slot, or `None` if the Pod is gone.
    pub fn handle_pod(&mut self, slot: Slot, pod: Option<&PodRecord>) {
        if let Some(pod) = pod.filter(|_| !self.creations.is_empty())
            && let Some(suffix) = PodSuffix::of_name(pod.name.tail())
        {
            let index = pod.index.filter(|_| self.job.spec.is_indexed());
            let index = index.map(CompactIndex::get);
            let id = CreationId { index, suffix };
            if self.creations.forget(id) {
                self.arrived.push(id);
            }
        }
        let (context, counting) = self.counting();
        let heard = counting.handle_pod(&context, slot, pod);
        if let Some(message) = heard.fails_job {
            self.ending.fail_job(&message);
        }
        if let Some(action) = heard.applied {
            self.effects.push_back(Effect::PolicyApplied(action));
        }
    }

    /// Returns true if the machine needs Workloads and PodGroups before each [`JobMachine::decide`].
    pub fn is_gang(&self) -> bool {
        self.job.spec.is_gang()
    }

    /// Applies the current Workloads and PodGroups.
    pub fn handle_gang(&mut self, facts: GangFacts) {
        self.gang.hear(facts);
    }

    /// Returns true if the Job ends, is suspended, or wants no new Pods for another reason. Creations that are still
    /// queued need not be sent.
    pub fn wants_no_pods(&self) -> bool {
        let ends = self.ending.verdict().is_some();
        ends || self.job.spec.suspend || self.job.deleting || self.job.gone || self.contest.is_on()
    }

    /// Returns the PodGroup for new Pods.
    pub fn pod_group(&self) -> Option<&Arc<PodGroup>> {
        self.gang.group()
    }

    /// Returns why the Job's Pods are scheduled one by one, once per change of the reason.
    pub fn new_fallback(&mut self) -> Option<Fallback> {
        self.gang.take_news()
    }

    /// Handles the result of one of this machine's writes. Changes of Pods arrive through [`JobMachine::handle_pod`].
    pub fn handle_outcome(&mut self, outcome: Outcome, now: Monotonic) {
        if outcome.is_of_pod() {
            self.write_latency.answer(now);
        }
        let context = JobContext::new(&self.job, &self.limits, self.ending.fails());
        let counting = &mut self.counting;
        match outcome {
            Outcome::PodCreated(id) => {
                if self.creations.created(id, now) {
                    self.arrived.push(id);
                }
            }
            Outcome::PodNotCreated(id, error) => {
                if error == CreateError::NameTaken {
                    counting.avoid_name(id);
                }
                let (is_over, report) = self.creations.not_created(id, error, now);
                if is_over {
                    counting.give_up_place(id);
                }
                self.effects.extend(report.map(Effect::Report));
            }
            Outcome::PodDeleted(slot) => counting.deletion_answered(&context, slot, true, now),
            Outcome::PodNotDeleted(slot) => counting.deletion_answered(&context, slot, false, now),
            Outcome::FinalizerRemoved(_) => counting.finalizer_removed(now),
            Outcome::FinalizerNotRemoved(slot) => {
                counting.finalizer_not_removed(&context, slot, true, now);
            }
            Outcome::PodChanged(slot) => counting.finalizer_not_removed(&context, slot, false, now),
            Outcome::StatusWritten => self.status_written(now),
            Outcome::StatusNotWritten => {
                counting.status_not_written(&context);
                self.status.not_written(now);
            }
            Outcome::GangObjectMade => {
                let report = self.gang.made(&self.job.key.name, now);
                self.effects.extend(report.map(Effect::Report));
            }
            Outcome::GangObjectNotMade(error) => self.gang.not_made(error, now),
        }
    }

    /// Applies the rules to all input so far.
    ///
    /// An outdated machine decides nothing and leaves that to its successor. Neither does a machine with unhandled
    /// Pods: its view of missing and existing Pods may be wrong.
    pub fn decide(&mut self, pods: &PodTable, now: Now) {
        self.timeout = None;
        if self.is_outdated() || pods.is_dirty() {
            return;
        }
        for id in self.arrived.drain(..) {
            self.counting.give_up_place(id);
        }
        if self.is_left_alone() {
            if !self.job.deleting {
                return;
            }
            // Otherwise the finalizers of its Pods would block its deletion.
            self.handle_job_gone();
        }
        for slot in self.counting.take_revisits() {
            let (context, counting) = self.counting();
            counting.end_refused_write(&context, slot);
            self.handle_pod(slot, pods.get(slot));
        }
        self.counting.end_batch();
        if !self.job.is_over() && self.settle_gang(pods, now.monotonic) {
            self.conduct(pods, now);
            self.note_changes();
            self.status.note_time(now.monotonic);
            self.write_status_if_due(pods, now);
        }
        self.send_pod_writes(now.monotonic);
        self.note_changes();
        self.set_timeout(now);
    }

    /// Returns the next action.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Returns when to call [`JobMachine::decide`] again, and the reason of the earliest wait by the current clocks.
    pub fn poll_timeout(&self) -> Option<(Timeout, &'static str)> {
        self.timeout
    }

    /// Returns true if the machine must be replaced by its [`JobMachine::successor`].
    pub fn is_outdated(&self) -> bool {
        self.job.is_outdated()
    }

    /// Returns true if a status write is in flight.
    pub fn is_writing_status(&self) -> bool {
        self.status.is_writing()
    }

    /// Panics if a sum, a set or a list differs from one computed anew from all Pods. Every Pod must have been handled;
    /// visits all of them.
    #[doc(hidden)]
    pub fn debug_check(&self, pods: &PodTable) {
        let context = JobContext::new(&self.job, &self.limits, self.ending.fails());
        self.counting.check(&context, pods, self.creations.check());
    }

    fn counting(&mut self) -> (JobContext<'_>, &mut Counting) {
        let context = JobContext::new(&self.job, &self.limits, self.ending.fails());
        (context, &mut self.counting)
    }

    /// Applies the rules once, in their order.
    fn conduct(&mut self, pods: &PodTable, now: Now) {
        let KnownJob { spec, status, .. } = &self.job;
        let report = self.suspension.begin_turn(spec, status, now.wall);
        self.effects.extend(report.map(Effect::Report));
        self.judge(now);
        let wants_pods = !self.job.deleting && !self.job.spec.suspend;
        let repeats = self.ending.verdict().is_none() && wants_pods;
        let lost = self.creations.forget_lost(repeats, now.monotonic);
        for id in &lost {
            self.counting.give_up_place(*id);
        }
        if !lost.is_empty() {
            // The verdict may have waited for these creations alone.
            self.judge(now);
        }
        let (context, counting) = self.counting();
        if context.job.deleting {
            counting.release_all_delayed(&context);
            if !context.fails {
                counting.stop_live(&context);
            }
        }
        self.creations.set_missing(0);
        if self.ending.verdict().is_some() {
            self.follow_verdict(pods);
        } else if !self.job.deleting {
            self.manage_pods(pods, now);
        }
    }

    fn judge(&mut self, now: Now) {
        let due = self.suspension.deadline(&self.job.spec);
        let is_overdue = due.is_some_and(|due| now.wall >= due);
        let creates = !self.creations.is_empty();
        let context = JobContext::new(&self.job, &self.limits, self.ending.fails());
        self.ending
            .judge(&context, &self.counting, creates, is_overdue);
    }

    fn manage_pods(&mut self, pods: &PodTable, now: Now) {
        let report = self.suspension.flip(&self.job.spec, now.wall);
        if report.is_some() {
            self.status.set_stale();
        }
        self.effects.extend(report.map(Effect::Report));
        let context = JobContext::new(&self.job, &self.limits, self.ending.fails());
        let (counting, creations) = (&mut self.counting, &mut self.creations);
        let is_contested = self.limits.alone_after.is_some_and(|alone_after| {
            let wants = wants_pod(&context, counting, creations, now);
            self.contest.goes_on(wants, alone_after, now.monotonic)
        });
        // Every controller must see the run before it names Pods after it.
        let may_create = !is_contested && !self.suspension.begins_run(&self.job.status);
        for pod in manage_pods(&context, counting, creations, pods, (may_create, now)) {
            self.write_latency.ask(now.monotonic);
            self.effects.push_back(Effect::CreatePod(pod));
        }
    }

    /// Acts on a verdict, as far as the stored status permits.
    fn follow_verdict(&mut self, pods: &PodTable) {
        let must_announce = self.ending.must_announce(&self.job.status);
        if must_announce || self.may_end() {
            self.status.set_stale();
        }
        if self.ending.is_announced() || !must_announce {
            self.settle_all(pods);
        }
        let (context, counting) = self.counting();
        if !must_announce && counting.tally().active > counting.tally().to_delete {
            counting.delete_active(&context);
        }
    }

    /// Keeps no failed Pod for its index any more and, if no Pod is active, waits for none.
    fn settle_all(&mut self, pods: &PodTable) {
        let creates = !self.creations.is_empty();
        let (context, counting) = self.counting();
        counting.release_all_delayed(&context);
        if counting.tally().active == 0 && !creates {
            counting.settle_live(&context, pods);
        }
    }

    /// Returns true if nothing keeps an announced verdict from becoming the Job's end.
    fn may_end(&self) -> bool {
        self.counting.is_settled() && self.creations.is_empty()
    }

    /// Ensures that new Pods have their PodGroup. Returns true if all other work may go on.
    fn settle_gang(&mut self, pods: &PodTable, now: Monotonic) -> bool {
        let no_pods = pods.is_empty() && self.creations.is_empty();
        match self.gang.settle(&self.job, no_pods, now) {
            Ok(()) => true,
            Err(missing) => {
                self.effects.extend(missing.map(Effect::MakeGangObject));
                false
            }
        }
    }

    /// Sends a status write if one is due. The first write after a verdict carries the verdict.
    fn write_status_if_due(&mut self, pods: &PodTable, now: Now) {
        let due = self.status_due_at(now.monotonic);
        if due.is_none_or(|due| due > now.monotonic) {
            return;
        }
        self.status.begin();
        self.ending.announce();
        if self.ending.verdict().is_some() {
            self.settle_all(pods);
        }
        let next = self.compose(pods, now);
        let only_start_time = JobStatus {
            start_time: self.job.status.start_time,
            ..next.clone()
        };
        if only_start_time == self.job.status {
            self.counting.forget_write();
            return;
        }
        let effect = Effect::WriteStatus(Box::new(next.clone()));
        self.effects.push_back(effect);
        let is_first = self.suspension.begins_run(&self.job.status);
        self.status.sent(next, is_first, now.monotonic);
    }

    fn compose(&mut self, pods: &PodTable, now: Now) -> JobStatus {
        let mut next = self.job.status.clone();
        let (context, counting) = self.counting();
        counting.write_into(&context, pods, &mut next);
        next.active += self.creations.void();
        next.start_time = self.suspension.start_time();
        let verdict = self
            .ending
            .verdict()
            .map(|verdict| (verdict, self.may_end()));
        let suspended = self.suspension.condition();
        let now = now.wall.whole_secs();
        compose_conditions(&mut next, &self.job.spec, suspended, verdict, now);
        next
    }

    /// Returns when the next status write is due, if there is anything to write.
    fn status_due_at(&self, now: Monotonic) -> Option<Monotonic> {
        if self.status.has_nothing_to_write() || self.job.is_over() {
            return None;
        }
        let KnownJob { spec, status, .. } = &self.job;
        let tally = self.counting.tally();
        let ends = self.ending.verdict().is_some();
        let none_comes = tally.active == 0 && self.creations.is_empty();
        let most = self.limits.max_uncounted_pods;
        let changes = StatusChanges {
            is_urgent: self.ending.must_announce(status)
                || (self.suspension.begins_run(status) && !self.job.deleting)
                || (ends && self.may_end())
                || self.counting.has_backlog(most, ends && none_comes),
            flips_suspension: self.suspension.flips(status),
            is_moving: tally.to_delete > 0 || self.creations.under_way() > 0,
            ends: self.job.deleting || ends,
            scale: super::status::scale(spec, status, tally.active),
            progress: self
                .counting
                .waiting_to_be_named()
                .max(tally.active.abs_diff(status.active)),
            latency: self.write_latency.take(now),
        };
        Some(
            self.status
                .due_at(&changes, self.limits.sync_batch_period, now),
        )
    }

    /// Handles a stored status: counts the Pods that it records, and reports how the Job ended.
    fn status_written(&mut self, now: Monotonic) {
        let Some(written) = self.status.written(now) else {
            return;
        };
        self.job.status = written;
        self.counting.begin_run(&self.job.status);
        let (context, counting) = self.counting();
        let applied = counting.status_written(&context);
        if context.job.status.is_finished() && counting.tally().with_finalizer > 0 {
            // They came while the write of the Job's end was in flight.
            counting.let_go_of_all(&context);
        }
        self.effects
            .extend(applied.into_iter().map(Effect::PolicyApplied));
        if let Some(verdict) = self.ending.verdict() {
            self.status.set_stale();
            if self.job.status.is_finished() {
                let reports = verdict.reports(&self.job.spec, &self.job.status);
                self.effects.extend(reports.into_iter().map(Effect::Report));
            }
        }
    }

    /// Marks the stored status as stale if Pods or creations have changed.
    fn note_changes(&mut self) {
        let (pods, creations) = (self.counting.take_changed(), self.creations.take_changed());
        if pods || creations {
            self.status.set_stale();
        }
    }

    /// Returns true if lakh must not touch the Job.
    fn is_left_alone(&mut self) -> bool {
        if self.job.is_over() || self.job.spec.mode != CompletionMode::Unrecognized {
            return false;
        }
        if !std::mem::replace(&mut self.reported_left_alone, true) {
            self.effects.push_back(Effect::Report(Report::warning(
                "UnknownCompletionMode",
                "Skipped Job sync because completion mode is unknown",
            )));
        }
        true
    }

    fn send_pod_writes(&mut self, now: Monotonic) {
        let is_over = self.job.is_over();
        if self.ending.must_announce(&self.job.status) && !is_over {
            // Pods that led to the verdict stay until the verdict is stored.
            return;
        }
        let counts_success = self.ending.verdict().is_none() && !self.job.deleting && !is_over;
        while let Some(slot) = self.counting.next_deletion(&self.limits, now) {
            self.write_latency.ask(now);
            self.effects.push_back(Effect::DeletePod(slot));
        }
        while let Some((slot, was_stopped)) = self.counting.next_removal(&self.limits, now) {
            self.write_latency.ask(now);
            self.effects.push_back(match was_stopped && counts_success {
                true => Effect::RemoveFinalizerIfUnchanged(slot),
                false => Effect::RemoveFinalizer(slot),
            });
        }
    }

    fn set_timeout(&mut self, now: Now) {
        let waits = self.waits(now);
        let first = waits
            .iter()
            .filter_map(|(at, why)| Some((at.left(now)?, *why)))
            .min_by_key(|(left, _)| *left);
        self.timeout = first.map(|(_, why)| {
            let all = waits.iter().map(|(at, _)| *at);
            (all.fold(Timeout::default(), Timeout::or), why)
        });
    }

    /// Returns every possible wait and its reason. A timeout that is not awaited is unset.
    pub(super) fn waits(&self, now: Now) -> [(Timeout, &'static str); 10] {
        let is_over = self.job.is_over();
        let waits = self.gang.waits() && !is_over;
        let runs = !is_over && self.ending.verdict().is_none() && !waits;
        let creates = runs && !self.job.deleting && !self.job.spec.suspend;
        let misses = creates && self.creations.missing() > 0;
        let Now { wall, monotonic } = now;
        let context = JobContext::new(&self.job, &self.limits, self.ending.fails());
        let (counting, creations) = (&self.counting, &self.creations);
        let blocked = blocked_until(&context, counting, creations, now).filter(|_| misses);
        // Index backoffs expire only where Pods are created.
        let is_alone = !self.contest.is_on();
        let index_due = counting.next_index_due().filter(|_| misses && is_alone);
        let repeat = creations.opens_at(monotonic);
        let repeat = repeat.filter(|_| creates && is_alone && creations.has_unconfirmed());
        let [deletions, removals] = counting.writes_open_at(monotonic);
        let deadline = self.suspension.deadline(&self.job.spec);
        let deadline = deadline.filter(|due| runs && *due > wall);
        let status = self.status_due_at(monotonic).filter(|_| !waits);
        let gang = self.gang.due_at(monotonic).filter(|_| waits);
        let contest = self.limits.alone_after;
        let contest = contest.and_then(|after| self.contest.ends_at(after));
        [
            (blocked.unwrap_or_default(), "pod creation backoff"),
            (index_due.into(), "index backoff"),
            (repeat.into(), "pod creation retry"),
            (deletions.into(), "pod deletion retry"),
            (removals.into(), "finalizer removal retry"),
            (deadline.into(), "active deadline"),
            (status.into(), "status write"),
            (gang.into(), "gang"),
            (contest.filter(|_| runs).into(), "another controller"),
            (creations.lost_end(monotonic).into(), "lost creations"),
        ]
    }

    /// Returns the parts that an overview reads.
    pub(super) fn parts(&self) -> (JobContext<'_>, &Counting, &Creations, &Ending, &Contest) {
        let context = JobContext::new(&self.job, &self.limits, self.ending.fails());
        let (counting, creations) = (&self.counting, &self.creations);
        (context, counting, creations, &self.ending, &self.contest)
    }
}
