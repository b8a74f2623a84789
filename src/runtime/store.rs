//! What is known of the cluster: one cell per Job, with the Job, its Pods' records and its actor.
//!
//! A cell is found by namespace, name and UID together ([`JobId`]): a Pod that names the UID of a Job of
//! another namespace, or that calls it by another name, has a cell of its own, with no Job in it.
//!
//! Writers put facts in (the informer what the watch says, the writer what the server answered to
//! own writes) and learn which Job to queue; a Job's actor takes them out. Facts carry versions:
//! an older one never replaces a newer one, so it does not matter whether the watch or the answer
//! to a write comes first.
//!
//! Lock order: a shard of `placements`, then a cell. A cell's lock is held for one turn at most.

use std::sync::Arc;

use dashmap::{DashMap, Entry};
use hashbrown::{DefaultHashBuilder, HashSet};
use parking_lot::{Mutex, MutexGuard};

use crate::{
    decide::{JobMachine, Outcome},
    model::{
        Controller, DEFAULT_MANAGER, DecodedPod, Job, JobId, JobStatus, PodRecord, PodTable, Slot,
        Uid,
    },
    ownership::{Passage, Standing},
    wire::{DecodedJob, PodTemplate},
};

use super::{
    events::Told,
    history::History,
    job_metrics::{Seen, is_held_after_end},
    metrics::Watermark,
};

/// A map that many tasks use.
type Shared<K, V> = DashMap<K, V, DefaultHashBuilder>;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Store {
    finalizer: &'static str,
    cells: Shared<Arc<JobId>, Arc<Cell>>,
    /// By the Pods' own UIDs, which the server makes.
    placements: Shared<Uid, Placement>,
    scopes: Vec<Scope>,
    seen: Seen,
    pub(super) history: History,
}

/// Where a Pod's record lies. A cell with records is taken out of the store only when all is forgotten.
#[derive(Clone, Debug)]
struct Placement {
    cell: Arc<Cell>,
    slot: Slot,
}

impl Placement {
    /// Whether more is known of the Pod than this tells.
    fn is_newer_than(&self, record: &PodRecord) -> bool {
        let state = self.cell.lock();
        let known = state.pods.get(self.slot);
        known.is_some_and(|known| known.resource_version > record.resource_version)
    }
}

/// What one watch of Pods covers, and how far it has come.
#[derive(Debug)]
struct Scope {
    namespace: Option<String>,
    pods_seen: Watermark,
}

/// One Job's place.
#[derive(Debug)]
pub(super) struct Cell {
    /// The Job's, also when the Job itself was never seen.
    pub(super) id: Arc<JobId>,
    pub(super) told: Told,
    state: Mutex<CellState>,
}

/// What is in a cell.
#[derive(Debug, Default)]
pub(super) struct CellState {
    pub(super) job: Option<Job>,
    /// The Job's template, ready to make Pods of, or why it is not.
    pub(super) template: Option<Arc<Result<PodTemplate, String>>>,
    /// The Job is newer than what its machine has heard of.
    pub(super) job_is_fresh: bool,
    /// The Job was deleted; or, while it was never seen, its Pods look as if it had been.
    pub(super) gone: bool,
    /// Another controller manages the Job.
    pub(super) external: bool,
    pub(super) pods: PodTable,
    /// How own writes ended; never more than are in flight.
    pub(super) outcomes: Vec<Outcome>,
    pub(super) in_flight: u32,
    pub(super) machine: Option<JobMachine>,
    /// The cell is no longer in the store.
    closed: bool,
    #[cfg(test)]
    pub(super) panic_next_turn: bool,
}

impl CellState {
    /// How the Job stands to us.
    pub(super) fn standing(&self) -> Standing {
        Standing::of(self.job.as_ref(), self.external, self.gone)
    }
}

impl Cell {
    /// Whether it is no longer in the store: nothing is to be done any more that was asked for here.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, CellState> {
        self.state.lock()
    }
}

/// What a version of a Job brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobNews {
    /// Nothing: one that is no older is known.
    Stale,
    /// A newer version of a Job that is known.
    Changed,
    /// A Job that was not known.
    New,
}

impl Store {
    /// An empty store for Pods of these namespaces (none: of all).
    pub(super) fn new(finalizer: &'static str, namespaces: &[String], seen: Seen) -> Self {
        let scope = |namespace| Scope {
            namespace,
            pods_seen: Watermark::default(),
        };
        let scopes = if namespaces.is_empty() {
            vec![scope(None)]
        } else {
            namespaces
                .iter()
                .map(|name| scope(Some(name.clone())))
                .collect()
        };
        Self {
            finalizer,
            cells: Shared::default(),
            placements: Shared::default(),
            scopes,
            seen,
            history: History::default(),
        }
    }

    /// The cell of a Job, if there is one.
    pub(super) fn cell(&self, job: &JobId) -> Option<Arc<Cell>> {
        self.cells.get(job).map(|cell| Arc::clone(&cell))
    }

    /// All Jobs that have a cell.
    pub(super) fn jobs(&self) -> Vec<Arc<JobId>> {
        self.cells.iter().map(|entry| entry.key().clone()).collect()
    }

    /// Takes in a version of a Job; whose it is, and what it brings.
    pub(super) fn apply_job(&self, decoded: DecodedJob, external: bool) -> (Arc<JobId>, JobNews) {
        self.with_cell(decoded.job.id(), |cell, state| {
            let id = Arc::clone(&cell.id);
            let known = state.job.as_ref();
            if known.is_some_and(|known| known.resource_version >= decoded.job.resource_version) {
                return (id, JobNews::Stale);
            }
            let news = match known {
                Some(_) => JobNews::Changed,
                None => JobNews::New,
            };
            if external && known.is_none() {
                let manager = decoded.job.spec.managed_by.as_deref();
                self.seen.external_job(manager.unwrap_or(DEFAULT_MANAGER));
            }
            if state.gone && known.is_none() {
                // It was only late: what was guessed from its Pods is no longer true.
                state.gone = false;
                state.machine = None;
                state.pods.mark_all();
            }
            let same_spec = state
                .job
                .as_ref()
                .is_some_and(|known| known.generation == decoded.job.generation);
            if !same_spec || state.template.is_none() {
                let template = PodTemplate::new(&decoded.job, &decoded.template, self.finalizer);
                state.template = Some(Arc::new(template.map_err(|error| error.to_string())));
            }
            state.external = external;
            state.job = Some(decoded.job);
            state.job_is_fresh = true;
            (id, news)
        })
    }

    /// Takes in that a Job is gone.
    pub(super) fn delete_job(&self, job: &JobId) -> Option<Arc<JobId>> {
        let cell = self.cell(job)?;
        cell.lock().gone = true;
        Some(Arc::clone(&cell.id))
    }

    /// Takes in a version of a Pod; from whose to whose it goes.
    pub(super) fn apply_pod(&self, pod: DecodedPod<'_>) -> Passage<Arc<JobId>> {
        let DecodedPod {
            namespace: _,
            name: _,
            controller,
            labels: _,
            record,
        } = pod;
        let owner = match controller {
            Controller::Job(job) => Some(job),
            Controller::Other | Controller::None => None,
        };
        match (self.placements.entry(record.uid), owner) {
            (Entry::Occupied(known), Some(job)) if *known.get().cell.id == job => {
                self.replace(known.get(), record);
                Passage::Stays(Arc::clone(&known.get().cell.id))
            }
            // An older fact does not tell whose the Pod is, either.
            (Entry::Occupied(known), _) if known.get().is_newer_than(&record) => {
                Passage::Stays(Arc::clone(&known.get().cell.id))
            }
            (Entry::Occupied(mut known), Some(job)) => {
                let to = self.insert_into(job, record);
                let passage = Passage::Moves {
                    from: Arc::clone(&known.get().cell.id),
                    to: Arc::clone(&to.cell.id),
                };
                self.remove_from(&known.insert(to));
                passage
            }
            (Entry::Vacant(new), Some(job)) => {
                let placement = self.insert_into(job, record);
                let job = Arc::clone(&placement.cell.id);
                new.insert(placement);
                Passage::Comes(job)
            }
            (Entry::Occupied(known), None) => {
                let placement = known.remove();
                self.remove_from(&placement);
                Passage::Leaves(Arc::clone(&placement.cell.id))
            }
            (Entry::Vacant(_), None) => Passage::Foreign,
        }
    }

    /// Takes in that a Pod is gone.
    pub(super) fn delete_pod(&self, uid: Uid) -> Option<Arc<JobId>> {
        let (_, placement) = self.placements.remove(&uid)?;
        self.remove_from(&placement);
        Some(Arc::clone(&placement.cell.id))
    }

    /// Takes in that a list of a scope's Pods showed these and no others as of `version`. Pods
    /// that were created later, as answers to own writes have told, stay.
    pub(super) fn retain_pods(
        &self,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        version: u64,
    ) -> Vec<Arc<JobId>> {
        let unlisted: Vec<(Uid, Placement)> = self
            .placements
            .iter()
            .filter(|entry| !listed.contains(entry.key()))
            .map(|entry| (*entry.key(), entry.value().clone()))
            .collect();
        let is_old = |Placement { cell, slot }: &Placement| {
            let in_scope = namespace.is_none_or(|scope| cell.id.key.namespace == scope);
            in_scope
                && cell
                    .lock()
                    .pods
                    .get(*slot)
                    .is_none_or(|pod| pod.resource_version <= version)
        };
        let gone = unlisted
            .into_iter()
            .filter(|(_, placement)| is_old(placement));
        gone.filter_map(|(uid, _)| self.delete_pod(uid)).collect()
    }

    /// Takes in that a list of a scope's Jobs showed these and no others.
    pub(super) fn retain_jobs(
        &self,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        version: u64,
    ) -> Vec<Arc<JobId>> {
        let in_scope = |job: &JobId| namespace.is_none_or(|scope| job.key.namespace == scope);
        let jobs = self.jobs().into_iter();
        let unlisted = jobs.filter(|job| in_scope(job) && !listed.contains(&job.uid));
        let gone = unlisted.filter(|job| {
            self.cell(job).is_some_and(|cell| {
                let state = cell.lock();
                let known = state.job.as_ref();
                known.is_some_and(|known| known.resource_version <= version)
            })
        });
        gone.filter_map(|job| self.delete_job(&job)).collect()
    }

    /// Forgets all there is of a scope. Turns that begin later find nothing; answers to writes that are
    /// under way go to cells that nobody looks at any more.
    pub(super) fn forget(&self, namespace: Option<&str>) {
        self.forget_pods(namespace);
        let in_scope = |job: &JobId| namespace.is_none_or(|scope| job.key.namespace == scope);
        for job in self.jobs().into_iter().filter(|job| in_scope(job)) {
            if let Some((_, cell)) = self.cells.remove(&job) {
                let mut state = cell.lock();
                state.closed = true;
                state.machine = None;
            }
        }
    }

    /// Forgets the Pods of a scope, and how far its watch had come.
    pub(super) fn forget_pods(&self, namespace: Option<&str>) {
        self.retain_pods(namespace, &HashSet::new(), u64::MAX);
        let mut scopes = self.scopes.iter();
        if let Some(scope) = scopes.find(|scope| scope.namespace.as_deref() == namespace) {
            scope.pods_seen.reset();
        }
    }

    /// The version of a Pod that is known.
    pub(super) fn pod_version(&self, pod: Uid) -> Option<u64> {
        let placement = self.placements.get(&pod)?.clone();
        let state = placement.cell.lock();
        Some(state.pods.get(placement.slot)?.resource_version)
    }

    /// The version of a Job that is known.
    pub(super) fn job_version(&self, job: &JobId) -> Option<u64> {
        let cell = self.cell(job)?;
        let state = cell.lock();
        Some(state.job.as_ref()?.resource_version)
    }

    /// Notes how far the watch of a scope's Pods has come.
    pub(super) fn pods_seen(&self, namespace: Option<&str>, version: u64) {
        if let Some(scope) = self
            .scopes
            .iter()
            .find(|scope| scope.namespace.as_deref() == namespace)
        {
            scope.pods_seen.raise(version);
        }
    }

    /// Takes in the answer to the creation of a Pod: the watch may not have told of it yet, or
    /// may already have told that it is gone again.
    pub(super) fn pod_created(&self, cell: &Arc<Cell>, record: PodRecord) {
        let Entry::Vacant(entry) = self.placements.entry(record.uid) else {
            return;
        };
        let scope = self.scopes.iter().find(|scope| {
            scope
                .namespace
                .as_deref()
                .is_none_or(|covered| covered == cell.id.key.namespace)
        });
        if scope.is_some_and(|scope| scope.pods_seen.get() >= record.resource_version) {
            return;
        }
        let mut state = cell.lock();
        if state.closed {
            return;
        }
        let slot = state.pods.insert(record);
        entry.insert(Placement {
            cell: Arc::clone(cell),
            slot,
        });
    }

    /// Takes in what an own write changed in a Pod.
    pub(super) fn pod_written(
        &self,
        cell: &Cell,
        slot: Slot,
        uid: Uid,
        version: Option<u64>,
        change: impl FnOnce(&mut PodRecord),
    ) {
        let mut state = cell.lock();
        if state.pods.get(slot).is_some_and(|pod| pod.uid == uid) {
            state.pods.update(slot, |pod| {
                pod.resource_version = pod.resource_version.max(version.unwrap_or(0));
                let held = is_held_after_end(Some(pod));
                change(pod);
                self.seen.pod(held, is_held_after_end(Some(pod)));
            });
        }
    }

    /// Takes in that the server has a Job's status.
    pub(super) fn job_status_written(cell: &Cell, status: JobStatus, version: u64) {
        if let Some(job) = &mut cell.lock().job
            && job.resource_version < version
        {
            job.resource_version = version;
            job.status = status;
        }
    }

    /// Takes a cell out of the store, if nothing is left in it.
    pub(super) fn close_if_empty(&self, cell: &Cell) {
        let mut state = cell.lock();
        if state.closed {
            // Another one may have its place.
            return;
        }
        let job_gone = state.gone || state.job.is_none();
        if job_gone && state.pods.is_empty() && !state.pods.is_dirty() && state.in_flight == 0 {
            state.closed = true;
            self.cells.remove(&cell.id);
        }
    }

    /// Runs with the cell of a Job, made if there is none.
    fn with_cell<T>(&self, job: JobId, run: impl FnOnce(&Arc<Cell>, &mut CellState) -> T) -> T {
        let job = Arc::new(job);
        loop {
            let cell = Arc::clone(&self.cells.entry(Arc::clone(&job)).or_insert_with(|| {
                Arc::new(Cell {
                    id: Arc::clone(&job),
                    told: Told::default(),
                    state: Mutex::default(),
                })
            }));
            let mut state = cell.lock();
            if !state.closed {
                return run(&cell, &mut state);
            }
        }
    }

    fn insert_into(&self, job: JobId, record: PodRecord) -> Placement {
        self.with_cell(job, |cell, state| {
            self.seen.pod(false, is_held_after_end(Some(&record)));
            Placement {
                cell: Arc::clone(cell),
                slot: state.pods.insert(record),
            }
        })
    }

    fn replace(&self, Placement { cell, slot }: &Placement, mut record: PodRecord) {
        let mut state = cell.lock();
        let Some(known) = state.pods.get(*slot) else {
            return;
        };
        if known.resource_version > record.resource_version {
            return;
        }
        // A Pod keeps the index it was first seen with, whatever is done to its annotation.
        record.index = known.index.or(record.index);
        let held = is_held_after_end(Some(known));
        self.seen.pod(held, is_held_after_end(Some(&record)));
        state.pods.replace(*slot, record);
    }

    fn remove_from(&self, Placement { cell, slot }: &Placement) {
        let mut state = cell.lock();
        let held = is_held_after_end(state.pods.get(*slot));
        self.seen.pod(held, false);
        state.pods.remove(*slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::TRACKING_FINALIZER, wire::decode_job};

    #[test]
    fn a_job_is_new_once() {
        let store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
        let apply = |version| {
            let job = format!(
                r#"{{"metadata":{{"name":"j","namespace":"default","resourceVersion":"{version}",
                "uid":"00000000-0000-0000-0000-000000000001"}},"spec":{{"template":{{"spec":{{}}}}}}}}"#
            );
            store
                .apply_job(decode_job(&job).expect("a good Job"), false)
                .1
        };
        let brought = [5, 5, 4, 6].map(apply);
        let expected = [
            JobNews::New,
            JobNews::Stale,
            JobNews::Stale,
            JobNews::Changed,
        ];
        assert_eq!(brought, expected);
    }
}
