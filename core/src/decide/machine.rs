//! The Job machine: all that others may call, and the pass over the rules in their order.
//!
//! Its parts have their state each to themselves; values pass between them here. What has no file of its own
//! is here, too: Jobs of a completion mode that nobody knows.

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
    errands::Errands,
    gang::{Fallback, Gang},
    job::{Basis, KnownJob},
    manage_pods::{blocked_until, manage_pods, wants_pod},
    status::{News, StatusWriter, compose_conditions},
    suspension::Suspension,
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
#[doc(alias = "syncJob")]
pub struct JobMachine {
    limits: Limits,
    job: KnownJob,
    suspension: Suspension,
    ending: Ending,
    counting: Counting,
    creations: Creations,
    /// Creations whose Pods are here: their places are given up once these have been heard of, which costs
    /// less than to free and to take them.
    arrived: Vec<CreationId>,
    status: StatusWriter,
    errands: Errands,
    gang: Gang,
    contest: Contest,
    reported_left_alone: bool,
    effects: VecDeque<Effect>,
    timeout: Option<(Timeout, &'static str)>,
}

impl JobMachine {
    /// A machine for a Job, as the server has it.
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
            errands: Errands::default(),
            gang: Gang::new(job, &limits),
            contest: Contest::default(),
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

    /// Takes in a newer version of the Job. Not to be called while a status write is under way:
    /// what it brings may be that very write.
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

    /// Another Job controller has written the Job's status. Returns the report if this one gives way from now on: no
    /// effect, as a successor may come before it is asked for.
    pub fn handle_foreign_status(&mut self, now: Monotonic) -> Option<Report> {
        let alone_after = self.limits.alone_after?;
        let begins = self.contest.foreign_status(now);
        begins.then(|| contest::report(alone_after))
    }

    /// Compares a status with the one that the machine knows to be stored.
    pub fn change_to(&self, status: &JobStatus) -> StatusChange {
        self.job.status.change_to(status)
    }

    /// The Job is no more; what is left of it is to let its Pods go.
    pub fn handle_job_gone(&mut self) {
        if !self.job.gone {
            self.job.gone = true;
            let (basis, counting) = self.counting();
            counting.let_go_of_all(&basis);
        }
    }

    /// Takes in what is known of the Pod in a slot: its record, or that it is gone.
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
        let (basis, counting) = self.counting();
        let heard = counting.handle_pod(&basis, slot, pod);
        if let Some(message) = heard.fails_job {
            self.ending.fail_job(&message);
        }
        if let Some(action) = heard.applied {
            self.effects.push_back(Effect::PolicyApplied(action));
        }
    }

    /// Whether it is to be told of Workloads and PodGroups before each [`JobMachine::decide`].
    pub fn is_gang(&self) -> bool {
        self.job.spec.is_gang()
    }

    /// Takes in which Workloads and PodGroups there are.
    pub fn handle_gang(&mut self, facts: GangFacts) {
        self.gang.hear(facts);
    }

    /// Whether the Job wants no new Pods, whatever it asked for before: it ends, or is suspended. A creation
    /// that waits to be sent need not be.
    pub fn wants_no_pods(&self) -> bool {
        let ends = self.ending.verdict().is_some();
        ends || self.job.spec.suspend || self.job.deleting || self.job.gone || self.contest.is_on()
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
        let basis = Basis::new(&self.job, &self.limits, self.ending.fails());
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
            Outcome::PodDeleted(slot) => counting.deletion_answered(&basis, slot, true, now),
            Outcome::PodNotDeleted(slot) => counting.deletion_answered(&basis, slot, false, now),
            Outcome::FinalizerRemoved(_) => counting.finalizer_removed(now),
            Outcome::FinalizerNotRemoved(slot) => {
                counting.finalizer_not_removed(&basis, slot, true, now);
            }
            Outcome::PodChanged(slot) => counting.finalizer_not_removed(&basis, slot, false, now),
            Outcome::StatusWritten => self.status_written(now),
            Outcome::StatusNotWritten => {
                counting.status_not_written(&basis);
                self.status.not_written(now);
            }
            Outcome::GangObjectMade => {
                let report = self.gang.made(&self.job.key.name, now);
                self.effects.extend(report.map(Effect::Report));
            }
            Outcome::GangObjectNotMade(error) => self.gang.not_made(error, now),
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
        for id in self.arrived.drain(..) {
            self.counting.give_up_place(id);
        }
        if self.is_left_alone() {
            if !self.job.deleting {
                return;
            }
            // Its Pods would else keep it from going.
            self.handle_job_gone();
        }
        for slot in self.counting.take_revisits() {
            let (basis, counting) = self.counting();
            counting.end_refused_write(&basis, slot);
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
        self.job.is_outdated()
    }

    /// Whether a status write is under way.
    pub fn is_writing_status(&self) -> bool {
        self.status.is_writing()
    }

    /// Panics if a sum, a set or a list is not what it would be if it were made anew from the
    /// Pods. To be called when the machine has heard of every Pod; costs a look at all of them.
    #[doc(hidden)]
    pub fn debug_check(&self, pods: &PodTable) {
        let basis = Basis::new(&self.job, &self.limits, self.ending.fails());
        self.counting.check(&basis, pods, self.creations.check());
    }

    fn counting(&mut self) -> (Basis<'_>, &mut Counting) {
        let basis = Basis::new(&self.job, &self.limits, self.ending.fails());
        (basis, &mut self.counting)
    }

    /// One pass over the rules, in their order.
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
            // They may have been all that was waited for.
            self.judge(now);
        }
        let (basis, counting) = self.counting();
        if basis.job.deleting {
            counting.release_all_delayed(&basis);
            if !basis.fails {
                counting.stop_live(&basis);
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
        let basis = Basis::new(&self.job, &self.limits, self.ending.fails());
        self.ending
            .judge(&basis, &self.counting, creates, is_overdue);
    }

    fn manage_pods(&mut self, pods: &PodTable, now: Now) {
        let report = self.suspension.flip(&self.job.spec, now.wall);
        if report.is_some() {
            self.status.set_stale();
        }
        self.effects.extend(report.map(Effect::Report));
        let basis = Basis::new(&self.job, &self.limits, self.ending.fails());
        let (counting, creations) = (&mut self.counting, &mut self.creations);
        let is_contested = self.limits.alone_after.is_some_and(|alone_after| {
            let wants = wants_pod(&basis, counting, creations, now);
            self.contest.goes_on(wants, alone_after, now.monotonic)
        });
        // Every controller must see the run before its Pods are named after it.
        let may_create = !is_contested && !self.suspension.begins_run(&self.job.status);
        for pod in manage_pods(&basis, counting, creations, pods, (may_create, now)) {
            self.errands.ask(now.monotonic);
            self.effects.push_back(Effect::CreatePod(pod));
        }
    }

    /// Does what follows from a verdict, as far as it may be done by now.
    fn follow_verdict(&mut self, pods: &PodTable) {
        let must_announce = self.ending.must_announce(&self.job.status);
        if must_announce || self.may_end() {
            self.status.set_stale();
        }
        if self.ending.is_announced() || !must_announce {
            self.settle_all(pods);
        }
        let (basis, counting) = self.counting();
        if !must_announce && counting.tally().active > counting.tally().to_delete {
            counting.delete_active(&basis);
        }
    }

    /// No Pod is kept for its index any more and, once none is active, none is waited for.
    fn settle_all(&mut self, pods: &PodTable) {
        let creates = !self.creations.is_empty();
        let (basis, counting) = self.counting();
        counting.release_all_delayed(&basis);
        if counting.tally().active == 0 && !creates {
            counting.settle_live(&basis, pods);
        }
    }

    /// Whether nothing keeps an announced verdict from being the Job's end.
    fn may_end(&self) -> bool {
        self.counting.is_settled() && self.creations.is_empty()
    }

    /// Sees to it that new Pods have their PodGroup; whether everything else may go on.
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

    /// Sends a status write if one is due. The first after a verdict carries it.
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
        let (basis, counting) = self.counting();
        counting.write_into(&basis, pods, &mut next);
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

    /// When the next status write is due, if there is something to write.
    fn status_due_at(&self, now: Monotonic) -> Option<Monotonic> {
        if self.status.has_nothing_to_write() || self.job.is_over() {
            return None;
        }
        let KnownJob { spec, status, .. } = &self.job;
        let tally = self.counting.tally();
        let ends = self.ending.verdict().is_some();
        let none_comes = tally.active == 0 && self.creations.is_empty();
        let most = self.limits.max_uncounted_pods;
        let news = News {
            is_urgent: self.ending.must_announce(status)
                || (self.suspension.begins_run(status) && !self.job.deleting)
                || (ends && self.may_end())
                || self.counting.has_backlog(most, ends && none_comes),
            flips_suspension: self.suspension.flips(status),
            is_moving: tally.to_delete > 0 || self.creations.under_way() > 0,
            ends: self.job.deleting || ends,
            crowd: super::status::crowd(spec, status, tally.active),
            progress: self
                .counting
                .waiting_to_be_named()
                .max(tally.active.abs_diff(status.active)),
            latency: self.errands.take(now),
        };
        Some(
            self.status
                .due_at(&news, self.limits.sync_batch_period, now),
        )
    }

    /// The server has the status: what it names is counted, and people are told how the Job ended.
    fn status_written(&mut self, now: Monotonic) {
        let Some(written) = self.status.written(now) else {
            return;
        };
        self.job.status = written;
        self.counting.begin_run(&self.job.status);
        let (basis, counting) = self.counting();
        let applied = counting.status_written(&basis);
        if basis.job.status.is_finished() && counting.tally().with_finalizer > 0 {
            // They came while the Job's end was under way.
            counting.let_go_of_all(&basis);
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

    /// A status tells what has changed.
    fn note_changes(&mut self) {
        let (pods, creations) = (self.counting.take_changed(), self.creations.take_changed());
        if pods || creations {
            self.status.set_stale();
        }
    }

    /// Whether the Job is one that lakh must not touch.
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
            // What led to the verdict stays until the server has it.
            return;
        }
        let counts_success = self.ending.verdict().is_none() && !self.job.deleting && !is_over;
        while let Some(slot) = self.counting.next_deletion(&self.limits, now) {
            self.errands.ask(now);
            self.effects.push_back(Effect::DeletePod(slot));
        }
        while let Some((slot, was_stopped)) = self.counting.next_removal(&self.limits, now) {
            self.errands.ask(now);
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

    /// All that it waits for, and why; what it does not wait for never comes.
    pub(super) fn waits(&self, now: Now) -> [(Timeout, &'static str); 10] {
        let is_over = self.job.is_over();
        let waits = self.gang.waits() && !is_over;
        let runs = !is_over && self.ending.verdict().is_none() && !waits;
        let creates = runs && !self.job.deleting && !self.job.spec.suspend;
        let misses = creates && self.creations.missing() > 0;
        let Now { wall, monotonic } = now;
        let basis = Basis::new(&self.job, &self.limits, self.ending.fails());
        let (counting, creations) = (&self.counting, &self.creations);
        let blocked = blocked_until(&basis, counting, creations, now).filter(|_| misses);
        // Waits of indexes end where Pods are made.
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

    /// What people are told of.
    pub(super) fn parts(&self) -> (Basis<'_>, &Counting, &Creations, &Ending, &Contest) {
        let basis = Basis::new(&self.job, &self.limits, self.ending.fails());
        let (counting, creations) = (&self.counting, &self.creations);
        (basis, counting, creations, &self.ending, &self.contest)
    }
}
