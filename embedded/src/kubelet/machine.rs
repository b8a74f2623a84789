//! The hollow kubelet as a machine.
//!
//! Responsible for: taking events to the right Pod, and handing out writes and deadlines.
//! Must not: hold rules of a Pod's life (`life`) or of what to write (`status_manager`).

use std::{
    collections::{BTreeSet, VecDeque},
    mem,
};

use compact_str::CompactString;
use hashbrown::HashMap;

use super::{
    Action, DecodeError, KubeletOptions, PodWrite,
    decode::RawPod,
    events,
    inits::Inits,
    life::{Cause, ContainerRun, Life, Pod, Run},
    pods::{PodId, Pods},
    reservation::{FAILED_SCHEDULING, Reservation},
    resources::Demand,
    scheduler::Ruling,
    settings::Settings,
    shape::{Latest, Restart, Shape},
    stages::{By, candidates},
    status::{disruption_patch, status_patch, unschedulable_patch},
    status_manager::{PendingWrite, StatusManager},
    timers::Timers,
    world::World,
    write::Outcome,
};
use crate::{json::read_json, model::Time};

/// All hollow nodes, and the scheduler in front of them.
///
/// Three kinds of method: `handle_*` take input and `now`; [`Self::poll_write`] gives one thing
/// to do; [`Self::poll_timeout`] gives the next deadline. After each `handle_*`, call
/// `poll_write` until it is empty, then `poll_timeout` once. `now` never goes back.
///
/// Every write must be answered by [`Self::handle_answer`]: there is never more than one write in flight for a Pod, so
/// that writes of different Pods can be sent side by side and in any order. Watch events may
/// come before or after the answer to the write that caused them.
///
/// A Pod is remembered until the API server shows it at its end, or gone. Work per event grows
/// with the logarithm of the number of Pods.
#[derive(Debug)]
pub struct Kubelet {
    world: World,
    nodes: HashMap<String, usize>,
    shapes: Latest<Shape>,
    pods: Pods,
    timers: Timers,
    /// Pods that may have something to say, each at most once.
    ready: VecDeque<PodId>,
    /// Pods for which there was no node; where room is limited, the scheduler knows who waits.
    unplaced: BTreeSet<PodId>,
    /// The latest time that was passed in.
    now: Time,
}

impl Kubelet {
    /// A kubelet that knows no Pods yet.
    pub fn new(options: KubeletOptions) -> Self {
        let names = options.node_names.iter().cloned();
        Self {
            nodes: names.zip(0..).collect(),
            world: World::new(options),
            shapes: Latest::default(),
            pods: Pods::default(),
            timers: Timers::default(),
            ready: VecDeque::new(),
            unplaced: BTreeSet::new(),
            now: Time::default(),
        }
    }

    /// Takes a Pod as a list or a watch shows it: its JSON as the API server sends it.
    ///
    /// # Errors
    ///
    /// If the Pod cannot be read; then nothing has changed.
    pub fn handle_pod(&mut self, json: &[u8], now: Time) -> Result<(), DecodeError> {
        let view: &RawPod<'_> = &read_json(json)?;
        self.now = now;
        let name = view.spec.node_name.as_deref().unwrap_or_default();
        let node = self.nodes.get(name).copied();
        if node.is_none() && !name.is_empty() {
            // Somebody else's Pod, perhaps after a race for its binding.
            self.handle_pod_gone(&view.metadata.uid);
            return Ok(());
        }
        if view.is_terminal() {
            self.handle_ended(view, now);
            return Ok(());
        }
        let id = match self.pods.find(&view.metadata.uid) {
            Some(id) => id,
            None => {
                let first = self.first_sight(view, json)?;
                self.adopt(view, first, node.is_some())
            }
        };
        let Some(pod) = self.pods.get_mut(id) else {
            return Ok(());
        };
        let gates = view.spec.scheduling_gates.as_deref();
        pod.gated = !gates.unwrap_or_default().is_empty();
        if let (Life::Unscheduled, Some(node)) = (pod.life, node) {
            if pod.come_to(node, view.runs(), &mut self.world.scheduler, now) {
                pod.schedule(node, &mut self.world, now);
            } else {
                pod.refuse(node, now);
            }
        }
        self.observe_metadata(id, view, now);
        Ok(())
    }

    /// The Pod with this UID is gone; its name may already belong to another one.
    pub fn handle_pod_gone(&mut self, uid: &str) {
        if let Some(id) = self.pods.find(uid) {
            self.forget(id);
        }
    }

    /// The API server shows a Pod at its end, and nobody has asked for its deletion. Gives whether that is
    /// all there is to know of it; if not, [`Self::handle_pod`] is to be shown the Pod.
    pub fn handle_end(&mut self, uid: &str) -> bool {
        let Some(id) = self.pods.find(uid) else {
            return true;
        };
        let pod = self.pods.get_mut(id);
        let is_all = pod.is_none_or(|pod| !pod.is_to_be_deleted());
        if is_all {
            self.forget(id);
        }
        is_all
    }

    /// A node of this name exists, or no longer does: nothing is bound to one that does not. The Pods
    /// that it has go on. Until something is said of a hollow node, it exists; others are of no interest.
    pub fn handle_node(&mut self, name: &str, exists: bool) {
        let Some(node) = self.nodes.get(name) else {
            return;
        };
        self.world.scheduler.set_exists(*node, exists);
        if exists {
            for id in mem::take(&mut self.unplaced) {
                self.queue(id);
            }
        }
    }

    /// The write has been answered with this HTTP status code; 0 means that no answer came.
    pub fn handle_answer(&mut self, write: &PodWrite, status_code: u16, now: Time) {
        let Some((id, pod)) = self.pods.find_mut(&write.uid) else {
            return;
        };
        self.now = now;
        match write.outcome(status_code) {
            Outcome::Done => {
                if let Some(PendingWrite::Bind(node)) = pod.write_succeeded()
                    && pod.life == Life::Unscheduled
                {
                    pod.schedule(node, &mut self.world, now);
                }
            }
            Outcome::Gone => return self.forget(id),
            Outcome::Retry => {
                if let Some(PendingWrite::Bind(_)) = pod.write_failed(now)
                    && pod.life == Life::Unscheduled
                {
                    pod.release_reservation(&mut self.world.scheduler);
                }
            }
        }
        self.settle(id, now);
    }

    /// Acts on the deadlines that have passed; harmless when none has.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        while let Some((_, id)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.settle(id, now);
        }
    }

    /// Gives the next write.
    pub fn poll_write(&mut self) -> Option<PodWrite> {
        loop {
            while let Some(id) = self.ready.pop_front() {
                let Some(pod) = self.pods.get_mut(id) else {
                    continue;
                };
                pod.status.queued = false;
                if let Some(write) = pod.next_write(&mut self.world) {
                    return Some(render(pod, write, &self.world));
                }
                if pod.has_write() {
                    self.unplaced.insert(id);
                }
            }
            let ruling = self.world.scheduler.next_ruling()?;
            self.obey(ruling);
        }
    }

    /// The scheduler has looked at a Pod that waits for room.
    fn obey(&mut self, (id, ruling): Ruling) {
        let pod = self.pods.get_mut(id);
        if let Some(reservation) = pod.and_then(|pod| pod.reservation.as_mut()) {
            match ruling {
                Ok(node) => reservation.give(node),
                Err(message) => reservation.fail(FAILED_SCHEDULING.to_owned(), message, self.now),
            }
        }
        self.queue(id);
    }

    /// Gives the moment to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| at)
    }

    /// How many Pods are remembered: those that have not been seen at their end.
    pub fn pods_remembered(&self) -> usize {
        self.pods.len()
    }

    /// What only a Pod seen for the first time is asked, and only where it matters.
    fn first_sight(&mut self, view: &RawPod<'_>, json: &[u8]) -> Result<FirstSight, DecodeError> {
        let mut first = FirstSight::default();
        let scheduler = &mut self.world.scheduler;
        if scheduler.is_limited() {
            let demand = scheduler.demands.share(Demand::read(json)?);
            first.reservation = Some(Box::new(Reservation::new(demand)));
        }
        first.stages = candidates(&self.world.options.stages, view);
        Ok(first)
    }

    /// The API server shows a Pod at its end: all that may be missing is the final delete.
    fn handle_ended(&mut self, view: &RawPod<'_>, now: Time) {
        let waits_for_delete = view.metadata.deletion_timestamp.is_some()
            && view.metadata.deletion_grace_period_seconds != Some(0);
        if !waits_for_delete && self.handle_end(&view.metadata.uid) {
            return;
        }
        let known = self.pods.find(&view.metadata.uid);
        let id = known.unwrap_or_else(|| self.adopt(view, FirstSight::default(), true));
        if let Some(pod) = self.pods.get_mut(id) {
            if !pod.is_ended() {
                pod.life = Life::Ended(Cause::Exited);
            }
            pod.status.mark_reported();
            pod.release_reservation(&mut self.world.scheduler);
        }
        self.observe_metadata(id, view, now);
    }

    /// Takes over what the API server says of every Pod at any time.
    fn observe_metadata(&mut self, id: PodId, view: &RawPod<'_>, now: Time) {
        let Some(pod) = self.pods.get_mut(id) else {
            return;
        };
        pod.generation = pod.generation.max(view.metadata.generation);
        if view.metadata.deletion_timestamp.is_some() {
            let grace = view.metadata.deletion_grace_period_seconds.unwrap_or(0);
            pod.delete(grace, &self.world, now);
        }
        self.settle(id, now);
    }

    /// Makes a record for a Pod seen for the first time.
    fn adopt(&mut self, view: &RawPod<'_>, first: FirstSight, came_bound: bool) -> PodId {
        let shape = self.shapes.share(Shape::read(view));
        let counts_tries = shape.restart == Restart::Never
            && shape.settings.as_ref().is_ok_and(Settings::counts_tries);
        let job = view.job_uid().filter(|_| counts_tries);
        self.pods.insert(Pod {
            namespace: CompactString::new(&*view.metadata.namespace),
            name: CompactString::new(&*view.metadata.name),
            uid: CompactString::new(&*view.metadata.uid),
            job: job.map(CompactString::new),
            index: view.completion_index(),
            stages: first.stages,
            reservation: first.reservation,
            plan: None,
            inits: Inits::of(&shape, view),
            shape,
            generation: view.metadata.generation,
            gated: false,
            deletion: None,
            life: Life::Unscheduled,
            run: Run {
                came_bound,
                ..Run::default()
            },
            others: Box::default(),
            first: ContainerRun {
                restarts: view.restarts(),
                ..ContainerRun::default()
            },
            stop: None,
            status: StatusManager::default(),
            due: None,
        })
    }

    /// Brings a Pod up to `now`, and its deadline and place in the queue with it.
    fn settle(&mut self, id: PodId, now: Time) {
        let Some(pod) = self.pods.get_mut(id) else {
            return;
        };
        pod.advance(&mut self.world, now);
        pod.end_retry_wait(now);
        pod.update_reservation(id, &mut self.world.scheduler);
        let due = pod.next_due().into_iter().chain(pod.retry_due()).min();
        self.timers.reset(id, pod.due, due);
        pod.due = due;
        self.queue(id);
    }

    /// Gives a Pod a place in the queue, if it needs one and has none.
    fn queue(&mut self, id: PodId) {
        if let Some(pod) = self.pods.get_mut(id)
            && pod.has_write()
            && !pod.status.queued
        {
            pod.status.queued = true;
            self.ready.push_back(id);
        }
    }

    fn forget(&mut self, id: PodId) {
        if let Some(mut pod) = self.pods.remove(id) {
            pod.release_reservation(&mut self.world.scheduler);
            self.timers.reset(id, pod.due, None);
            self.unplaced.remove(&id);
        }
    }
}

/// What is kept of a Pod from the first time that it was seen.
#[derive(Debug, Default)]
struct FirstSight {
    stages: Box<[u16]>,
    reservation: Option<Box<Reservation>>,
}

fn render(pod: &Pod, write: PendingWrite, world: &World) -> PodWrite {
    let action = match write {
        PendingWrite::Bind(node) => Action::Bind {
            node: world.options.node_names[node].clone(),
        },
        PendingWrite::Status(_) => Action::Status(status_patch(pod)),
        PendingWrite::Event => Action::Event(events::of_complaint(pod, &world.options.node_names)),
        PendingWrite::Unschedulable => Action::Status(unschedulable_patch(pod)),
        PendingWrite::Mark(cause) => Action::Status(disruption_patch(pod, cause, None)),
        PendingWrite::Remove(cause) => match cause.by() {
            By::EvictionApi => Action::Evict,
            By::Kubelet | By::Deletion | By::PodGc => Action::Remove,
        },
        PendingWrite::Delete => Action::Delete,
    };
    PodWrite {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
        action,
    }
}
