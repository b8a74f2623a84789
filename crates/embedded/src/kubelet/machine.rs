//! Runs the hollow kubelet as a machine.
//!
//! Responsible for: routing events to their Pods, and handing out writes and deadlines.
//! Must not: hold rules of a Pod's life (`life`) or of its writes (`status_manager`).

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
    life::{Cause, ContainerRun, Exit, Life, Pod, Run},
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
/// Three kinds of method: `handle_*` take input and `now`; [`Self::poll_write`] returns the next write;
/// [`Self::poll_timeout`] returns the next deadline. After each `handle_*`, call `poll_write` until it is empty, then
/// `poll_timeout` once. `now` never goes back.
///
/// Every write must be answered with [`Self::handle_answer`]. A Pod has at most one write in flight, so writes of
/// different Pods can be sent concurrently and in any order. Watch events may come before or after the response to the
/// write that caused them.
///
/// A Pod is tracked until the API server shows it as terminal or deleted. Work per event grows with the logarithm of
/// the number of Pods.
#[derive(Debug)]
pub struct Kubelet {
    world: World,
    nodes: HashMap<String, usize>,
    shapes: Latest<Shape>,
    pods: Pods,
    timers: Timers,
    /// Pods that may have a write, each at most once.
    ready: VecDeque<PodId>,
    /// Pods that wait for any node to exist; with a capacity, the scheduler queues waiting Pods instead.
    unplaced: BTreeSet<PodId>,
    /// The latest time passed in.
    now: Time,
}

impl Kubelet {
    /// Creates a kubelet without Pods.
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

    /// Handles a Pod from a list or a watch, given as the API server's JSON.
    ///
    /// # Errors
    ///
    /// If the Pod cannot be decoded; then nothing has changed.
    pub fn handle_pod(&mut self, json: &[u8], now: Time) -> Result<(), DecodeError> {
        let view: &RawPod<'_> = &read_json(json)?;
        self.now = now;
        let name = view.spec.node_name.as_deref().unwrap_or_default();
        let node = self.nodes.get(name).copied();
        if node.is_none() && !name.is_empty() {
            // The Pod runs on a foreign node, perhaps after a lost race for its binding.
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

    /// Handles the deletion of the Pod with this UID; a new Pod may already have its name.
    pub fn handle_pod_gone(&mut self, uid: &str) {
        if let Some(id) = self.pods.find(uid) {
            self.forget(id);
        }
    }

    /// Handles a Pod that the API server shows as terminal and without a deletion timestamp. Returns true if the event
    /// is done; otherwise pass the Pod to [`Self::handle_pod`].
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

    /// Sets whether a node exists; Pods are bound only to existing nodes. Pods already on the node go on. Hollow nodes
    /// exist by default; other nodes are ignored.
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

    /// Handles the response to a write, given its HTTP status code; 0 means no response.
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

    /// Returns the next write.
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

    /// Applies the scheduler's decision on a pending Pod.
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

    /// Returns the time to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| at)
    }

    /// Returns the number of tracked Pods: those not seen as terminal.
    pub fn pods_remembered(&self) -> usize {
        self.pods.len()
    }

    /// Returns the facts that are read only when a Pod is first seen, and only where they matter.
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

    /// Handles a terminal Pod: at most the final delete is missing.
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

    /// Updates the fields that any Pod may have at any time: generation and deletion.
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

    /// Creates the record of a Pod seen for the first time.
    fn adopt(&mut self, view: &RawPod<'_>, first: FirstSight, came_bound: bool) -> PodId {
        let shape = self.shapes.share(Shape::read(view));
        let counts_tries = shape.restart == Restart::Never
            && shape.settings.as_ref().is_ok_and(Settings::counts_tries);
        let job = view.job_uid().filter(|_| counts_tries);
        let others = exits_of_others(&shape, view);
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
            others,
            first: ContainerRun {
                restarts: view.restarts(),
                ..ContainerRun::default()
            },
            stop: None,
            status: StatusManager::default(),
            due: None,
        })
    }

    /// Advances a Pod to `now`, and updates its deadline and its place in the queue.
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

    /// Queues a Pod that has a write and is not queued yet.
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

/// Facts read when a Pod is first seen.
#[derive(Debug, Default)]
struct FirstSight {
    stages: Box<[u16]>,
    reservation: Option<Box<Reservation>>,
}

/// Returns the exits of the containers after the first, if the API shows all of them: such a container never starts
/// again, and the API server refuses a status in which one that has succeeded runs.
fn exits_of_others(shape: &Shape, view: &RawPod<'_>) -> Box<[Exit]> {
    let exit = |name: &str| {
        let mut statuses = view.status.container_statuses.iter().flatten();
        let status = statuses.find(|status| status.name.as_deref() == Some(name));
        status?.exit()
    };
    let others = shape.containers.iter().skip(1);
    let exits: Option<Vec<Exit>> = others.map(|other| exit(&other.name)).collect();
    exits.unwrap_or_default().into()
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
