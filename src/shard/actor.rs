//! One Job's actor: its machine, and the turn in which the machine hears and is heard.
//!
//! Between turns an actor is only memory: no task, no timer of its own. Its mailbox is the marks
//! in its Pods' table, which coalesce, and the outcomes of its writes, which are never more than it has
//! in flight.
//!
//! Must not: decide. If a machine panics, that actor alone starts anew from the store.

#[cfg(test)]
mod tests;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    decide::{Effect, JobMachine, Outcome, Report, Sums},
    metrics::{
        Metrics,
        held::{Held, JobState, Share},
        jobs::{Action, Sync},
        progress::Progress,
    },
    model::{
        CompletionMode, ConditionKind, Exponential, FailureAction, Job, JobId, JobStatus, Limits,
        Monotonic, Now, PodGroup, PodTable, Selector, Slot, StatusChange, Timeout,
    },
    ownership::{Standing, Unserved},
};

use super::{
    annotated::Annotated,
    correlate::Correlator,
    delays::Delays,
    gangs::Gangs,
    job_pods::JobPods,
    writes::{Op, WrittenPod},
};

/// How many statuses without an answer are remembered: each waits longer than the one before, so that older ones
/// have come by then, or never will.
const STATUSES_TRIED: usize = 4;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Actor {
    /// The Job's, also when the Job itself was never seen.
    pub(super) id: Arc<JobId>,
    /// What people were told of the Job.
    pub(super) told: Correlator,
    pub(super) job: Option<Job>,
    /// The bytes of the Job's Pod template.
    pub(super) template_bytes: usize,
    /// The bytes of its policies and its selector, as far as they are large.
    pub(super) policy_bytes: usize,
    /// An Event says that the template is too large to be kept.
    pub(super) has_told_of_template: bool,
    /// The Job is newer than what its machine has heard of.
    pub(super) job_is_fresh: bool,
    /// The selector of the Job's Pods, if it is not the label that the API server gives them.
    pub(super) selector: Option<Arc<Selector>>,
    /// The version of the Job with which a status came whose counts another controller had written; 0 for an own one.
    pub(super) status_since: u64,
    /// How many statuses another Job controller has written that the machine has not taken in.
    pub(super) foreign_statuses: u32,
    /// What was read of the Job's Pods because their watch lagged behind such a status.
    pub(super) job_pods: Option<Box<JobPods>>,
    /// Statuses that were asked for and may have come to the server without an answer.
    pub(super) tried: Vec<JobStatus>,
    /// The Job was deleted, as the watch has told or the server said.
    pub(super) gone: bool,
    /// What is done to find out whether a Job is there that was never seen.
    search: Search,
    /// Another controller manages the Job.
    pub(super) external: bool,
    unserved: Unserved,
    pub(super) pods: PodTable,
    /// How own writes ended; never more than are in flight.
    pub(super) outcomes: Vec<Outcome>,
    pub(super) in_flight: u32,
    /// In a box: it is large, and most Jobs of a cluster have ended or are another's.
    pub(super) machine: Option<Box<JobMachine>>,
    pub(super) delays: Delays,
    /// What the Job's annotations ask for; most ask for nothing.
    pub(super) annotated: Option<Box<Annotated>>,
    /// What it adds to the gauges.
    share: Share,
    #[cfg(test)]
    pub(super) panic_next_turn: bool,
}

/// What is done to find out whether a Job is there. Until it is seen or known to be gone, the server is asked
/// again and again, less and less often: what the watch cannot tell may be an object that nobody can read.
#[derive(Debug, Default)]
struct Search {
    /// A Pod makes it look as if the Job were gone.
    is_due: bool,
    is_under_way: bool,
    /// The Job is gone by the server's answer alone.
    is_answered: bool,
    /// How many times in a row it did not turn out to be gone.
    in_vain: u32,
    not_before: Monotonic,
}

/// What came of a turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Writes to be made.
    pub(super) writes: Vec<Op>,
    /// The server is to be asked whether the Job is there.
    pub(super) searches: bool,
    /// The server is to be asked for the Job's Pods.
    pub(super) lists_pods: bool,
    /// Something to tell people.
    pub(super) reports: Vec<Report>,
    /// What the podFailurePolicy said of failed Pods that are dealt with now.
    pub(super) handled_failures: Vec<FailureAction>,
    /// When the next turn is due though nothing happens.
    pub(super) wake_at: Option<Timeout>,
    /// What it was, if the actor had something to do.
    pub(super) sync: Option<Sync>,
    /// The actor had no machine before.
    pub(super) first: bool,
    /// For each status that another controller has written, whether it is only now that this one gives way.
    pub(super) foreign: Vec<bool>,
    /// The machine panicked.
    pub(super) panicked: bool,
}

/// What all turns go by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'a> {
    pub(super) limits: Limits,
    /// The gangs, if they are asked for.
    pub(super) gangs: Option<&'a Gangs>,
    /// Whether Jobs are run at all; else each is as if it were another's.
    pub(super) runs_jobs: bool,
    /// As of which version all Pods of the namespace are known.
    pub(super) pods_seen: u64,
}

impl Actor {
    pub(super) fn new(id: Arc<JobId>) -> Self {
        Self {
            id,
            told: Correlator::default(),
            job: None,
            template_bytes: 0,
            policy_bytes: 0,
            has_told_of_template: false,
            job_is_fresh: false,
            selector: None,
            status_since: 0,
            foreign_statuses: 0,
            job_pods: None,
            tried: Vec::new(),
            gone: false,
            search: Search::default(),
            external: false,
            unserved: Unserved::default(),
            pods: PodTable::default(),
            outcomes: Vec::new(),
            in_flight: 0,
            machine: None,
            delays: Delays::default(),
            annotated: None,
            share: Share::default(),
            #[cfg(test)]
            panic_next_turn: false,
        }
    }

    /// Whether a write that waits is still wanted: no Pod is made once the Job wants none any more.
    pub(super) fn wants(&self, op: &Op) -> bool {
        let machine = self.machine.as_ref();
        let is_creation = matches!(op, Op::Create { .. });
        !(is_creation && machine.is_some_and(|machine| machine.wants_no_pods()))
    }

    /// How the Job stands to us.
    pub(super) fn standing(&self) -> Standing {
        Standing::of(self.job.as_ref(), self.external, self.gone)
    }

    /// Whether nothing was done for the Job yet, and something is to be.
    pub(super) fn is_to_begin(&self) -> bool {
        let job = self.job.as_ref();
        let is_fresh = |job: &Job| job.status.start_time.is_none() && !job.spec.suspend;
        !self.external && job.is_some_and(is_fresh)
    }

    /// After a turn: what there is, for metrics.
    pub(super) fn note(&mut self, writes: &[Op], metrics: &Metrics, now: Monotonic) {
        let sums = self.machine.as_deref().map(Sums::of).unwrap_or_default();
        let names = writes.iter().any(names_pods);
        self.delays.after_turn(sums.to_be_named, names, now);
        let is_suspended = self.job.as_ref().is_some_and(|job| job.spec.suspend);
        let held = Held {
            job: match self.standing() {
                Standing::AtWork if is_suspended => JobState::Suspended,
                Standing::AtWork => JobState::AtWork,
                Standing::Finished => JobState::Finished,
                Standing::Gone => JobState::Gone,
                Standing::External => JobState::OtherManager,
                Standing::Unseen => JobState::NotSeen,
            },
            pods: [
                u32::try_from(self.pods.len()).unwrap_or(u32::MAX),
                sums.active,
                sums.ready,
                sums.terminating,
                sums.with_finalizer,
            ],
            indexes: [sums.completed, sums.failed, sums.in_backoff],
        };
        if let Some(annotated) = &mut self.annotated {
            let job = self.job.as_ref().filter(|_| !self.gone);
            annotated.note(job.map(|job| held.of_one(job)));
        }
        self.share.set(&metrics.held, held);
    }

    /// Gives the actor its turn.
    pub(super) fn turn(&mut self, rules: Rules<'_>, now: Now) -> Turn {
        let mut turn = Turn::default();
        let finished = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(test)]
            assert!(
                !std::mem::take(&mut self.panic_next_turn),
                "a panic on purpose"
            );
            self.run(rules, now, &mut turn);
        }));
        if finished.is_err() {
            // What it asked for in this turn is lost with it, and so is what it had heard: the next one
            // hears it and asks again.
            self.machine = None;
            self.pods.mark_all();
            turn = Turn {
                panicked: true,
                sync: self.job.as_ref().map(|job| Sync {
                    mode: job.spec.mode,
                    failed: true,
                    action: Action::Reconciling,
                }),
                ..Turn::default()
            };
        }
        if let Some(annotated) = &mut self.annotated {
            let told = annotated.take_reports(self.job.as_ref(), self.gone, now);
            turn.reports.extend(told);
            let due = annotated.poll_timeout().filter(|_| !self.gone);
            if let Some(due) = due {
                let wake_at = turn.wake_at.unwrap_or_default();
                turn.wake_at = Some(wake_at.or(due.into()));
            }
        }
        let sent = turn.writes.len();
        self.in_flight += u32::try_from(sent).expect("a turn's writes are limited");
        turn
    }

    fn run(&mut self, rules: Rules<'_>, now: Now, turn: &mut Turn) {
        match self.standing() {
            Standing::External => return self.look_unserved(rules, now.monotonic, turn),
            Standing::Unseen => return self.search(now.monotonic, turn),
            Standing::AtWork | Standing::Finished | Standing::Gone => {}
        }
        let mut is_new = false;
        if self.machine.is_none() {
            // In this order: the second takes the marks.
            if self.in_flight > 0 || !self.needs_machine() {
                return;
            }
            if self.is_ahead_of_pods(rules.pods_seen) {
                // The Pod that needs it is still to be heard of.
                self.pods.mark_all();
                self.wait_for_pods(now.monotonic, turn);
                return;
            }
            // They are of a machine that is no more.
            self.outcomes.clear();
            let machine = JobMachine::new(&self.job_or_orphanage(), rules.limits);
            self.machine = Some(Box::new(machine));
            is_new = true;
            turn.first = true;
        }
        let Some(machine) = &mut self.machine else {
            return;
        };
        let failed = self.outcomes.iter().any(is_failure);
        for outcome in self.outcomes.drain(..) {
            machine.handle_outcome(outcome, now.monotonic);
        }
        if let Some(job) = &self.job
            && self.job_is_fresh
            && !machine.is_writing_status()
        {
            let recounts = machine.change_to(&job.status) == StatusChange::Counts;
            for _ in 0..std::mem::take(&mut self.foreign_statuses) {
                let report = machine.handle_foreign_status(now.monotonic);
                turn.foreign.push(report.is_some());
                turn.reports.extend(report);
            }
            machine.handle_job(job);
            self.job_is_fresh = false;
            if machine.is_outdated() && !self.gone {
                if self.in_flight > 0 {
                    self.job_is_fresh = true;
                    return;
                }
                if recounts && self.is_ahead_of_pods(rules.pods_seen) {
                    self.job_is_fresh = true;
                    self.wait_for_pods(now.monotonic, turn);
                    return;
                }
                let (Some(machine), Some(job)) = (&mut self.machine, &self.job) else {
                    return;
                };
                **machine = machine.successor(job);
                is_new = true;
            }
        }
        if let Some(job_pods) = &mut self.job_pods {
            job_pods.stop_waiting();
        }
        let Some(machine) = &mut self.machine else {
            return;
        };
        if self.gone {
            machine.handle_job_gone();
        }
        if is_new {
            self.pods.mark_all();
        }
        // All of them, before it decides: else an index would have a second Pod whose first is not heard of.
        while let Some((slot, pod)) = self.pods.take_dirty() {
            machine.handle_pod(slot, pod);
        }
        self.decide(rules.gangs, now, failed, turn);
    }

    fn decide(&mut self, gangs: Option<&Gangs>, now: Now, failed: bool, turn: &mut Turn) {
        let Some(machine) = &mut self.machine else {
            return;
        };
        let key = &self.id.key;
        if let Some(gangs) = gangs.filter(|_| machine.is_gang()) {
            machine.handle_gang(gangs.facts(key));
        }
        machine.decide(&self.pods, now);
        if let Some(why) = machine.new_fallback() {
            tracing::info!(job = %key, %why, "Pods are scheduled one by one");
        }
        let job = self.job.as_ref();
        while let Some(effect) = machine.poll_effect() {
            if let Effect::WriteStatus(status) = &effect {
                if self.tried.len() == STATUSES_TRIED {
                    self.tried.remove(0);
                }
                self.tried.push((**status).clone());
            }
            if let Some(outcome) = moot(&effect, &self.pods) {
                machine.handle_outcome(outcome, now.monotonic);
                continue;
            }
            let group = machine.pod_group();
            let op = carry_out(&self.id, &self.pods, job, group, effect, turn);
            turn.writes.extend(op);
        }
        turn.wake_at = machine.poll_timeout().map(|(at, _)| at);
        turn.sync = self.job.as_ref().map(|job| Sync {
            mode: job.spec.mode,
            failed,
            action: action(job, &turn.writes),
        });
        let finished = self
            .job
            .as_ref()
            .is_some_and(|job| job.status.is_finished());
        let over = self.gone || finished;
        let idle = turn.writes.is_empty() && turn.wake_at.is_none();
        if over && self.in_flight == 0 && idle {
            // Nothing is left to do, nor to be tried again: the machine goes, its Job's facts stay as long
            // as the Job does.
            self.machine = None;
            turn.wake_at = None;
        }
    }

    /// Tells people when nobody seems to run a Job that names another controller.
    fn look_unserved(&mut self, rules: Rules<'_>, now: Monotonic, turn: &mut Turn) {
        let job = self.job.as_ref().filter(|_| rules.runs_jobs);
        let Some(job) = job else { return };
        let (report, again) = self.unserved.look(job, now);
        turn.reports.extend(report);
        turn.wake_at = again.map(Into::into);
    }

    /// Whether there is anything to do for a Job that has no machine.
    fn needs_machine(&mut self) -> bool {
        let standing = self.standing();
        if standing == Standing::AtWork {
            return true;
        }
        let mut needed = false;
        while let Some((_, pod)) = self.pods.take_dirty() {
            needed |= pod.is_some_and(|pod| standing.frees(pod));
        }
        needed
    }

    /// Asks the server for a Job that was never seen, if a Pod makes it look as if it were gone: once for all such
    /// Pods.
    fn search(&mut self, now: Monotonic, turn: &mut Turn) {
        let standing = self.standing();
        while let Some((_, pod)) = self.pods.take_dirty() {
            self.search.is_due |= pod.is_some_and(|pod| standing.is_doubted_by(pod));
        }
        if !self.search.is_due || self.search.is_under_way {
            return;
        }
        if now < self.search.not_before {
            turn.wake_at = Some(self.search.not_before.into());
            return;
        }
        // They may be gone by now.
        let mut pods = self.pods.iter();
        self.search.is_due = pods.any(|(_, pod)| standing.is_doubted_by(pod));
        self.search.is_under_way = self.search.is_due;
        turn.searches = self.search.is_due;
    }

    /// The watch tells of the Job for the first time. If the server has said that it is gone, news of that are to
    /// come; or the answer was of data that are no more.
    pub(super) fn seen(&mut self) {
        if std::mem::take(&mut self.search.is_answered) {
            self.gone = false;
            self.machine = None;
        }
        // They were looked at while the Job was not known.
        self.pods.mark_all();
    }

    /// The server was asked for the Job, and said that it is gone, or did not. What the watch has told meanwhile
    /// holds.
    pub(super) fn searched(&mut self, is_gone: bool, retry: Exponential, now: Monotonic) {
        self.search.is_under_way = false;
        if self.job.is_some() {
            return;
        }
        if is_gone {
            self.gone = true;
            self.search.is_answered = true;
            self.pods.mark_all();
        } else {
            self.search.in_vain = self.search.in_vain.saturating_add(1);
            self.search.not_before = now + retry.delay(self.search.in_vain);
        }
    }

    /// The Job, or for Pods whose Job is no more one that says nothing.
    fn job_or_orphanage(&self) -> Job {
        self.job.clone().unwrap_or_else(|| Job {
            key: self.id.key.clone(),
            uid: self.id.uid,
            deleting: true,
            ..Job::default()
        })
    }
}

/// Whether a write is a status that names Pods that have ended.
fn names_pods(op: &Op) -> bool {
    let Op::Status {
        status, progress, ..
    } = op
    else {
        return false;
    };
    // Those of an Indexed Job that succeeded are named by their indexes.
    let by_index = progress.mode == CompletionMode::Indexed && progress.succeeded > 0;
    let by_uid = status.uncounted.as_ref();
    by_index || by_uid.is_some_and(|list| !(list.succeeded.is_empty() && list.failed.is_empty()))
}

/// What a turn did, as metrics tell it.
fn action(job: &Job, writes: &[Op]) -> Action {
    let any = |kind: fn(&Op) -> bool| writes.iter().any(kind);
    let ends = job.deleting || job.status.is_finished() || any(is_end);
    if ends {
        Action::Reconciling
    } else if any(|op| matches!(op, Op::Create { .. })) {
        Action::PodsCreated
    } else if job.spec.suspend || any(|op| matches!(op, Op::Delete { .. })) {
        Action::PodsDeleted
    } else {
        Action::Tracking
    }
}

/// Whether a write announces a Job's end, or is it.
fn is_end(op: &Op) -> bool {
    let announced = |status: &JobStatus| {
        let ends = [
            ConditionKind::SuccessCriteriaMet,
            ConditionKind::FailureTarget,
        ];
        ends.iter()
            .any(|kind| status.true_condition(*kind).is_some())
    };
    matches!(op, Op::Status { status, .. } if announced(status))
}

fn is_failure(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::PodNotCreated(..)
        | Outcome::PodNotDeleted(_)
        | Outcome::FinalizerNotRemoved(_)
        | Outcome::PodChanged(_)
        | Outcome::StatusNotWritten
        | Outcome::GangObjectNotMade(_) => true,
        Outcome::PodCreated(_)
        | Outcome::PodDeleted(_)
        | Outcome::FinalizerRemoved(_)
        | Outcome::StatusWritten
        | Outcome::GangObjectMade => false,
    }
}

/// How a write to a Pod ends that is no longer known: there is nothing left to write to.
fn moot(effect: &Effect, pods: &PodTable) -> Option<Outcome> {
    match *effect {
        Effect::DeletePod(slot) if pods.get(slot).is_none() => Some(Outcome::PodDeleted(slot)),
        Effect::RemoveFinalizer(slot) | Effect::RemoveFinalizerIfUnchanged(slot)
            if pods.get(slot).is_none() =>
        {
            Some(Outcome::FinalizerRemoved(slot))
        }
        _ => None,
    }
}

/// The write that an effect asks for, if it does and what is written to is known; anything else is told at once.
fn carry_out(
    id: &JobId,
    pods: &PodTable,
    job: Option<&Job>,
    group: Option<&Arc<PodGroup>>,
    effect: Effect,
    turn: &mut Turn,
) -> Option<Op> {
    let pod = |slot: Slot| {
        let pod = pods.get(slot)?;
        Some(WrittenPod {
            slot,
            uid: pod.uid,
            name: pod.name.full(&id.key.name),
        })
    };
    Some(match effect {
        Effect::CreatePod(pod) => Op::Create {
            pod,
            group: group.map(Arc::clone),
        },
        Effect::DeletePod(slot) => Op::Delete(pod(slot)?),
        Effect::RemoveFinalizer(slot) => Op::RemoveFinalizer(pod(slot)?, None),
        Effect::RemoveFinalizerIfUnchanged(slot) => {
            let version = pods.get(slot)?.resource_version;
            Op::RemoveFinalizer(pod(slot)?, Some(version))
        }
        Effect::WriteStatus(status) => {
            let job = job?;
            Op::Status {
                progress: Progress::between(job, &status),
                status,
                version: job.resource_version,
            }
        }
        Effect::MakeGangObject(object) => Op::Gang(object),
        Effect::Report(report) => {
            turn.reports.push(report);
            return None;
        }
        Effect::PolicyApplied(action) => {
            turn.handled_failures.push(action);
            return None;
        }
    })
}
