//! What is known of the cluster: one cell per Job, with the Job, its Pods' records and its actor.
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
    model::{Job, JobKey, JobStatus, PodRecord, PodTable, Slot, Uid},
    ownership::{Passage, Standing},
    wire::{Controller, DEFAULT_MANAGER, DecodedJob, DecodedPod, PodTemplate},
};

use super::{
    events::Told,
    job_metrics::{Seen, is_held_after_end},
    metrics::Watermark,
};

/// A map that many tasks use. UIDs come from the server, so nobody can choose them to collide.
type ByUid<V> = DashMap<Uid, V, DefaultHashBuilder>;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Store {
    finalizer: &'static str,
    cells: ByUid<Arc<Cell>>,
    placements: ByUid<Placement>,
    scopes: Vec<Scope>,
    seen: Seen,
}

/// Where a Pod's record lies.
#[derive(Clone, Copy, Debug)]
struct Placement {
    job: Uid,
    slot: Slot,
}

/// What one watch of Pods covers, and how far it has come.
#[derive(Debug)]
struct Scope {
    namespace: Option<String>,
    pods_seen: Watermark,
}

/// One Job's place, found by the Job's UID.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) uid: Uid,
    pub(super) told: Told,
    state: Mutex<CellState>,
}

/// What is in a cell.
#[derive(Debug, Default)]
pub(super) struct CellState {
    /// The Job's name, also when the Job itself was never seen.
    pub(super) key: Option<JobKey>,
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
            cells: ByUid::default(),
            placements: ByUid::default(),
            scopes,
            seen,
        }
    }

    /// The cell of a Job, if there is one.
    pub(super) fn cell(&self, job: Uid) -> Option<Arc<Cell>> {
        self.cells.get(&job).map(|cell| Arc::clone(&cell))
    }

    /// All Jobs that have a cell.
    pub(super) fn jobs(&self) -> Vec<Uid> {
        self.cells.iter().map(|entry| *entry.key()).collect()
    }

    /// Takes in a version of a Job.
    pub(super) fn apply_job(&self, decoded: DecodedJob, external: bool) -> JobNews {
        self.with_cell(decoded.job.uid, |state| {
            let known = state.job.as_ref();
            if known.is_some_and(|known| known.resource_version >= decoded.job.resource_version) {
                return JobNews::Stale;
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
            state.key = Some(decoded.job.key.clone());
            state.external = external;
            state.job = Some(decoded.job);
            state.job_is_fresh = true;
            news
        })
    }

    /// Takes in that a Job is gone.
    pub(super) fn delete_job(&self, uid: Uid) -> Option<Uid> {
        let cell = self.cell(uid)?;
        cell.lock().gone = true;
        Some(uid)
    }

    /// Takes in a version of a Pod; from whose to whose it goes.
    pub(super) fn apply_pod(&self, pod: DecodedPod<'_>) -> Passage {
        let DecodedPod {
            namespace,
            name: _,
            controller,
            labels: _,
            record,
        } = pod;
        let uid = record.uid;
        let owner = match controller {
            Controller::Job { uid, name } => Some((uid, JobKey { namespace, name })),
            Controller::Other | Controller::None => None,
        };
        let entry = self.placements.entry(uid);
        let known = match &entry {
            Entry::Occupied(entry) => Some(*entry.get()),
            Entry::Vacant(_) => None,
        };
        let passage = Passage::between(
            known.map(|known| known.job),
            owner.as_ref().map(|(job, _)| *job),
        );
        match (entry, known, owner) {
            (_, Some(known), Some((job, _))) if job == known.job => self.replace(known, record),
            (entry, known, Some((job, key))) => {
                let slot = self.insert_into(job, key, record);
                entry.insert(Placement { job, slot });
                known.into_iter().for_each(|known| self.remove_from(known));
            }
            (Entry::Occupied(entry), Some(known), None) => {
                entry.remove();
                self.remove_from(known);
            }
            (_, _, None) => {}
        }
        passage
    }

    /// Takes in that a Pod is gone.
    pub(super) fn delete_pod(&self, uid: Uid) -> Option<Uid> {
        let (_, placement) = self.placements.remove(&uid)?;
        self.remove_from(placement);
        Some(placement.job)
    }

    /// Takes in that a list of a scope's Pods showed these and no others as of `version`. Pods
    /// that were created later, as answers to own writes have told, stay.
    pub(super) fn retain_pods(
        &self,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        version: u64,
    ) -> Vec<Uid> {
        let unlisted: Vec<(Uid, Placement)> = self
            .placements
            .iter()
            .filter(|entry| !listed.contains(entry.key()))
            .map(|entry| (*entry.key(), *entry.value()))
            .collect();
        let is_old = |placement: &Placement| {
            let Some(cell) = self.cell(placement.job) else {
                return true;
            };
            let state = cell.lock();
            let in_scope = namespace
                .is_none_or(|scope| state.key.as_ref().is_some_and(|key| key.namespace == scope));
            in_scope
                && state
                    .pods
                    .get(placement.slot)
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
    ) -> Vec<Uid> {
        let unlisted = self.jobs().into_iter().filter(|uid| !listed.contains(uid));
        let gone = unlisted.filter(|uid| {
            let Some(cell) = self.cell(*uid) else {
                return false;
            };
            let state = cell.lock();
            state.job.as_ref().is_some_and(|job| {
                job.resource_version <= version
                    && namespace.is_none_or(|scope| job.key.namespace == scope)
            })
        });
        gone.filter_map(|uid| self.delete_job(uid)).collect()
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
    pub(super) fn pod_created(&self, cell: &Cell, namespace: &str, record: PodRecord) {
        let Entry::Vacant(entry) = self.placements.entry(record.uid) else {
            return;
        };
        let scope = self.scopes.iter().find(|scope| {
            scope
                .namespace
                .as_deref()
                .is_none_or(|covered| covered == namespace)
        });
        if scope.is_some_and(|scope| scope.pods_seen.get() >= record.resource_version) {
            return;
        }
        let slot = cell.lock().pods.insert(record);
        entry.insert(Placement {
            job: cell.uid,
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
        let job_gone = state.gone || state.job.is_none();
        if job_gone && state.pods.is_empty() && !state.pods.is_dirty() && state.in_flight == 0 {
            state.closed = true;
            self.cells.remove(&cell.uid);
        }
    }

    /// Runs with the cell of a Job, made if there is none.
    fn with_cell<T>(&self, uid: Uid, run: impl FnOnce(&mut CellState) -> T) -> T {
        loop {
            let cell = Arc::clone(&self.cells.entry(uid).or_insert_with(|| {
                Arc::new(Cell {
                    uid,
                    told: Told::default(),
                    state: Mutex::default(),
                })
            }));
            let mut state = cell.lock();
            if !state.closed {
                return run(&mut state);
            }
        }
    }

    fn insert_into(&self, job: Uid, key: JobKey, record: PodRecord) -> Slot {
        self.with_cell(job, |state| {
            state.key.get_or_insert(key);
            self.seen.pod(false, is_held_after_end(Some(&record)));
            state.pods.insert(record)
        })
    }

    fn replace(&self, placement: Placement, mut record: PodRecord) {
        let Some(cell) = self.cell(placement.job) else {
            return;
        };
        let mut state = cell.lock();
        let Some(known) = state.pods.get(placement.slot) else {
            return;
        };
        if known.resource_version > record.resource_version {
            return;
        }
        // A Pod keeps the index it was first seen with, whatever is done to its annotation.
        record.index = known.index.or(record.index);
        let held = is_held_after_end(Some(known));
        self.seen.pod(held, is_held_after_end(Some(&record)));
        state.pods.replace(placement.slot, record);
    }

    fn remove_from(&self, placement: Placement) {
        if let Some(cell) = self.cell(placement.job) {
            let mut state = cell.lock();
            let held = is_held_after_end(state.pods.get(placement.slot));
            self.seen.pod(held, false);
            state.pods.remove(placement.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{TRACKING_FINALIZER, decode_job};

    #[test]
    fn a_job_is_new_once() {
        let store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
        let apply = |version| {
            let job = format!(
                r#"{{"metadata":{{"name":"j","namespace":"default","resourceVersion":"{version}",
                "uid":"00000000-0000-0000-0000-000000000001"}},"spec":{{"template":{{"spec":{{}}}}}}}}"#
            );
            store.apply_job(decode_job(&job).expect("a good Job"), false)
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
