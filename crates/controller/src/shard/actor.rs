//! Runs one Job's state machine: applies pending changes and write results, then turns its effects into writes.
//!
//! Between syncs an actor is only memory: it has no task and no timer. Its inbox is the dirty marks in its Pod table
//! and the outcomes of its writes. Marks coalesce, and there are at most as many outcomes as writes in flight.
//!
//! Must not: decide. If a machine panics, only that actor restarts from the store.

#[cfg(test)]
mod tests;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use lakh_core::decide::{Effect, JobMachine, Outcome, Report, Sums};
use lakh_core::ownership::{Standing, Unserved};
use lakh_model::{
    CompletionMode, ConditionKind, Exponential, FailureAction, Job, JobId, JobStatus, Limits,
    Monotonic, Now, PodGroup, PodTable, Selector, Slot, StatusChange, Timeout,
};

use crate::metrics::{
    Metrics,
    held::{Held, JobState, Share},
    jobs::{Action, Sync},
    progress::Progress,
};

use super::{
    annotated::Annotated,
    correlate::Correlator,
    delays::Delays,
    gangs::Gangs,
    job_pods::JobPods,
    writes::{Op, WrittenPod},
};

/// The number of status writes without a response that are remembered. Each retry waits longer than the one before, so
/// older ones have reached the server by then or never will.
const STATUSES_TRIED: usize = 4;

/// One Job in the cache: the Job, its Pods, the outcomes of its writes, and its machine while there is work to do.
///
/// [`Store`](super::store::Store) applies events to it, and [`Actor::turn`] runs one sync. It exists without a Job
/// while Pods name a Job that is not in the cache.
#[derive(Debug)]
pub(super) struct Actor {
    /// The identity of the Job, even if the Job was never in the cache.
    pub(super) id: Arc<JobId>,
    /// The Events recorded for the Job.
    pub(super) told: Correlator,
    pub(super) job: Option<Job>,
    /// Size of the Job's Pod template in bytes.
    pub(super) template_bytes: usize,
    /// Size of the policies and the selector in bytes, if they are large.
    pub(super) policy_bytes: usize,
    /// An Event has reported that the template is too large to be kept.
    pub(super) has_told_of_template: bool,
    /// The machine has not seen this version of the Job yet.
    pub(super) job_is_fresh: bool,
    /// The selector of the Job's Pods, unless it is the label that the API server generates.
    pub(super) selector: Option<Arc<Selector>>,
    /// The Job's version that brought a status with counts of another controller; 0 if the counts are ours.
    pub(super) status_since: u64,
    /// Status writes of another Job controller that the machine has not handled yet.
    pub(super) foreign_statuses: u32,
    /// Result of listing the Job's Pods, because their watch lagged behind such a status.
    pub(super) job_pods: Option<Box<JobPods>>,
    /// Our status writes without a response; each may have been applied.
    pub(super) tried: Vec<JobStatus>,
    /// Since when status updates and finalizer removals have had no response; none while there are responses.
    pub(super) unanswered_since: Option<Monotonic>,
    /// The Job was deleted, according to the watch or a response.
    pub(super) gone: bool,
    /// State of the search for a Job that is not in the cache.
    search: Search,
    /// Another controller manages the Job.
    pub(super) external: bool,
    unserved: Unserved,
    pub(super) pods: PodTable,
    /// Outcomes of our writes; at most as many as are in flight.
    pub(super) outcomes: Vec<Outcome>,
    pub(super) in_flight: u32,
    /// Boxed because it is large, and most Jobs of a cluster have ended or belong to another controller.
    pub(super) machine: Option<Box<JobMachine>>,
    pub(super) delays: Delays,
    /// State for the Job's annotations; most Jobs have none.
    pub(super) annotated: Option<Box<Annotated>>,
    /// Contribution to the gauges.
    share: Share,
    #[cfg(test)]
    pub(super) panic_next_turn: bool,
}

/// The search for a Job that is not in the cache. The server is asked with backoff until the Job is in the cache or
/// known to be gone. The watch may never show it, because an object that cannot be decoded is not in the cache.
#[derive(Debug, Default)]
struct Search {
    /// A Pod suggests that the Job is gone.
    is_due: bool,
    is_under_way: bool,
    /// The Job is gone according to a response only.
    is_answered: bool,
    /// Consecutive searches that did not find the Job to be gone.
    in_vain: u32,
    not_before: Monotonic,
}

/// The result of a sync.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Writes to queue.
    pub(super) writes: Vec<Op>,
    /// The Job must be read from the server.
    pub(super) searches: bool,
    /// The Job's Pods must be listed.
    pub(super) lists_pods: bool,
    /// Events to record.
    pub(super) reports: Vec<Report>,
    /// The podFailurePolicy actions of the failed Pods that are handled now.
    pub(super) handled_failures: Vec<FailureAction>,
    /// When the next sync is due without any event.
    pub(super) wake_at: Option<Timeout>,
    /// The sync as reported by metrics, if there was work.
    pub(super) sync: Option<Sync>,
    /// The actor had no machine before.
    pub(super) first: bool,
    /// One entry for each status write of another controller; true if the machine yields to it from now on.
    pub(super) foreign: Vec<bool>,
    /// The machine panicked.
    pub(super) panicked: bool,
}

/// Context shared by all syncs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'a> {
    pub(super) limits: Limits,
    /// The gangs, if they are enabled.
    pub(super) gangs: Option<&'a Gangs>,
    /// The Job controller is enabled. Otherwise all Jobs are treated as another controller's.
    pub(super) runs_jobs: bool,
    /// The resourceVersion as of which all Pods of the namespace are cached.
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
            unanswered_since: None,
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

    /// Returns true if a queued write is still wanted. A creation is not once the Job wants no Pods.
    pub(super) fn wants(&self, op: &Op) -> bool {
        let machine = self.machine.as_ref();
        let is_creation = matches!(op, Op::Create { .. });
        !(is_creation && machine.is_some_and(|machine| machine.wants_no_pods()))
    }

    /// Returns the ownership state of the Job.
    pub(super) fn standing(&self) -> Standing {
        Standing::of(self.job.as_ref(), self.external, self.gone)
    }

    /// Returns true if the Job is ours to start and has no start time yet.
    pub(super) fn is_to_begin(&self) -> bool {
        let job = self.job.as_ref();
        let is_fresh = |job: &Job| job.status.start_time.is_none() && !job.spec.suspend;
        !self.external && job.is_some_and(is_fresh)
    }

    /// Updates metrics after a sync.
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

    /// Runs one sync. A panic of the machine discards the machine and its changes.
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
            // The effects of this sync and the machine's state are lost. The next sync replays all Pods and repeats the
            // writes.
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
            // The order matters: `needs_machine` takes the dirty marks.
            if self.in_flight > 0 || !self.needs_machine() {
                return;
            }
            if self.is_ahead_of_pods(rules.pods_seen) {
                // The Pod that needs the machine must be handled again.
                self.pods.mark_all();
                self.wait_for_pods(now.monotonic, turn);
                return;
            }
            // These outcomes belong to a machine that no longer exists.
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
        // Handle all Pods before deciding. Otherwise an index with an unhandled Pod would get a second one.
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
            tracing::info!(job = %key, %why, "the Job is not gang-scheduled; its Pods are scheduled one by one");
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
            // No work and no retry is left: drop the machine. The Job's cached state stays as long as the Job.
            self.machine = None;
            turn.wake_at = None;
        }
    }

    /// Reports a Job whose `managedBy` names a controller that does not seem to run.
    fn look_unserved(&mut self, rules: Rules<'_>, now: Monotonic, turn: &mut Turn) {
        let job = self.job.as_ref().filter(|_| rules.runs_jobs);
        let Some(job) = job else { return };
        let (report, again) = self.unserved.look(job, now);
        turn.reports.extend(report);
        turn.wake_at = again.map(Into::into);
    }

    /// Returns true if a Job without a machine has work.
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

    /// Asks the server for a Job that is not in the cache, if a Pod suggests that the Job is gone. One request covers
    /// all such Pods.
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
        // These Pods may be gone by now.
        let mut pods = self.pods.iter();
        self.search.is_due = pods.any(|(_, pod)| standing.is_doubted_by(pod));
        self.search.is_under_way = self.search.is_due;
        turn.searches = self.search.is_due;
    }

    /// Handles the first version of the Job. A response may have said that the Job is gone. Then a deletion event
    /// follows, or that response came from data that was replaced since.
    pub(super) fn seen(&mut self) {
        if std::mem::take(&mut self.search.is_answered) {
            self.gone = false;
            self.machine = None;
        }
        // Pods were last handled without the Job.
        self.pods.mark_all();
    }

    /// Handles the result of the search. A Job that the watch has shown meanwhile takes precedence.
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

    /// Returns the Job. If it is gone, returns an empty one that is being deleted.
    fn job_or_orphanage(&self) -> Job {
        self.job.clone().unwrap_or_else(|| Job {
            key: self.id.key.clone(),
            uid: self.id.uid,
            deleting: true,
            ..Job::default()
        })
    }
}

/// Returns true if the write is a status that records finished Pods.
fn names_pods(op: &Op) -> bool {
    let Op::Status {
        status, progress, ..
    } = op
    else {
        return false;
    };
    // Succeeded Pods of an Indexed Job are recorded by their indexes.
    let by_index = progress.mode == CompletionMode::Indexed && progress.succeeded > 0;
    let by_uid = status.uncounted.as_ref();
    by_index || by_uid.is_some_and(|list| !(list.succeeded.is_empty() && list.failed.is_empty()))
}

/// Classifies a sync for metrics.
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

/// Returns true if the write announces or records the Job's end.
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

/// Returns the outcome of a write to a Pod that is no longer cached: there is nothing to write to.
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

/// Converts an effect into a write, if it is one and its target is cached. Other effects go into `turn`.
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
