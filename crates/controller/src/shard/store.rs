//! Caches the Jobs and Pods of a shard: the actors of all Jobs, and the location of each Pod's record.
//!
//! An actor is found by namespace, name and UID together ([`JobId`]). An owner reference may have the UID of a Job in
//! another namespace, or the wrong name. Such a Pod belongs to an actor without a Job.
//!
//! Each record has a resourceVersion, and an older version never replaces a newer one. So the order of watch events and
//! write responses does not matter.
//!
//! Must not: decide anything, or queue Jobs.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use hashbrown::{HashMap, HashSet, hash_map::Entry};
use slotmap::SlotMap;

use lakh_model::{
    Controller, DEFAULT_MANAGER, DecodedPod, Job, JobAnnotations, JobId, JobStatus, Now, PodEnd,
    PodRecord, Selector, Slot, StatusChange, Uid,
};
use lakh_wire::DecodedJob;

use crate::metrics::{
    Metrics,
    jobs::{Seen, is_held_after_end},
};

use super::{
    actor::Actor,
    annotated::{Means, RecordBudget, is_asked},
    policy_memory::PolicyMemory,
    scopes::Scopes,
    templates::Templates,
};

slotmap::new_key_type! {
    /// The key of an actor. Keys are not reused.
    pub(super) struct ActorKey;
}

/// The cache of a shard's Jobs and Pods. Event handlers apply a version and return the actors that it affects, for the
/// caller to queue.
#[derive(Debug)]
pub(super) struct Store {
    finalizer: &'static str,
    actors: SlotMap<ActorKey, Actor>,
    by_job: HashMap<Arc<JobId>, ActorKey>,
    /// By the UID of the Pod, which the server generates.
    placements: HashMap<Uid, Placement>,
    scopes: Scopes,
    seen: Seen,
    /// Memory for index records.
    budget: RecordBudget,
    /// Templates of Jobs and CronJobs.
    pub(super) templates: Templates,
    policies: PolicyMemory,
}

/// Location of a Pod's record. An actor with records is removed only when its scope is forgotten.
#[derive(Clone, Copy, Debug)]
struct Placement {
    actor: ActorKey,
    slot: Slot,
}

/// The effect of a Job event on the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobNews {
    /// None: the cache has this version or a newer one.
    Stale,
    /// A newer version of a cached Job.
    Changed,
    /// A Job that was not in the cache.
    New,
}

impl Store {
    /// Creates an empty store for these namespaces; no namespaces means all.
    pub(super) fn new(finalizer: &'static str, namespaces: &[String], seen: Seen) -> Self {
        Self {
            finalizer,
            actors: SlotMap::default(),
            by_job: HashMap::new(),
            placements: HashMap::new(),
            scopes: Scopes::new(namespaces),
            seen,
            budget: RecordBudget::default(),
            templates: Templates::default(),
            policies: PolicyMemory::default(),
        }
    }

    /// Sets the memory for index records.
    pub(super) fn with_budget(self, budget: RecordBudget) -> Self {
        Self { budget, ..self }
    }

    /// Sets the memory for templates.
    pub(super) fn with_templates(self, templates: Templates) -> Self {
        Self { templates, ..self }
    }

    /// Returns the key of a Job's actor.
    pub(super) fn find(&self, job: &JobId) -> Option<ActorKey> {
        self.by_job.get(job).copied()
    }

    pub(super) fn get(&self, key: ActorKey) -> Option<&Actor> {
        self.actors.get(key)
    }

    pub(super) fn get_mut(&mut self, key: ActorKey) -> Option<&mut Actor> {
        self.actors.get_mut(key)
    }

    /// Iterates over all actors, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Actor> {
        self.actors.values()
    }

    /// Returns all actors, in the order of their Jobs.
    pub(super) fn actors(&self) -> Vec<ActorKey> {
        let mut all: Vec<_> = self.by_job.iter().collect();
        all.sort_unstable();
        all.into_iter().map(|(_, key)| *key).collect()
    }

    /// Applies a version of a Job. Returns its actor, and whether the version was new.
    pub(super) fn apply_job(&mut self, decoded: DecodedJob, external: bool) -> (ActorKey, JobNews) {
        let key = self.of(decoded.job.id());
        let actor = &mut self.actors[key];
        let known = actor.job.as_ref();
        if known.is_some_and(|known| known.resource_version >= decoded.job.resource_version) {
            return (key, JobNews::Stale);
        }
        let is_new = known.is_none();
        let (status, version) = (&decoded.job.status, decoded.job.resource_version);
        let change = known.map(|known| known.status.change_to(status));
        let change = change.unwrap_or(StatusChange::Counts);
        if is_new && external {
            let manager = decoded.job.spec.managed_by.as_deref();
            self.seen.external_job(manager.unwrap_or(DEFAULT_MANAGER));
        }
        if is_new {
            actor.seen();
        }
        if change.is_by_job_controller() {
            // The stored status may be ours with other clients' fields changed, if our write had no response.
            let is_own = |tried: &JobStatus| !tried.change_to(status).is_by_job_controller();
            let is_own = actor.tried.iter().any(is_own);
            if is_own {
                actor.status_since = 0;
            } else if change == StatusChange::Counts {
                actor.status_since = version;
            }
            let is_sign = !is_own && !is_new && !external;
            actor.foreign_statuses += u32::from(is_sign);
        }
        if is_new {
            let uid = decoded.job.uid;
            let selector = decoded.selector.as_ref();
            let is_usual = |selector: &&Arc<Selector>| selector.means_wearers_of(uid);
            actor.selector = selector.filter(|it| !is_usual(it)).cloned();
        }
        actor.template_bytes = decoded.template_bytes;
        let before = std::mem::replace(&mut actor.policy_bytes, decoded.policy_bytes);
        let namespace = &decoded.job.key.namespace;
        (self.policies).resize(namespace, before, decoded.policy_bytes);
        let template = decoded.template.filter(|_| !external);
        self.templates
            .handle_job(&decoded.job, template.as_deref(), self.finalizer);
        actor.external = external;
        actor.job = Some(decoded.job);
        actor.job_is_fresh = true;
        match is_new {
            true => (key, JobNews::New),
            false => (key, JobNews::Changed),
        }
    }

    /// Returns true if there is memory for a Job's policies and selector. A Job that is in the cache always has it.
    pub(super) fn has_room_for(&self, decoded: &DecodedJob) -> bool {
        let namespace = &decoded.job.key.namespace;
        self.policies.has_room(namespace, decoded.policy_bytes)
            || self.job(&decoded.job.id()).is_some()
    }

    /// Applies the annotations of a Job version that was just applied.
    pub(super) fn annotate(
        &mut self,
        key: ActorKey,
        asks: Option<Box<JobAnnotations>>,
        summarizes_all: bool,
        metrics: &Metrics,
        now: Now,
    ) {
        let Self { actors, budget, .. } = self;
        let means = Means {
            budget,
            metrics,
            summarizes_all,
        };
        let Some(actor) = actors.get_mut(key) else {
            return;
        };
        let Some(job) = &actor.job else { return };
        let is_asked = !actor.external && is_asked(job, asks.as_deref(), &means);
        if !is_asked && actor.annotated.is_none() {
            return;
        }
        let asks = asks.filter(|_| is_asked).map(|asks| *asks);
        let annotated = actor.annotated.get_or_insert_default();
        annotated.follow(job, asks.unwrap_or_default(), &actor.pods, means, now);
    }

    /// Marks a Job as deleted.
    pub(super) fn delete_job(&mut self, job: &JobId) -> Option<ActorKey> {
        let key = self.find(job)?;
        let actor = &mut self.actors[key];
        actor.gone = true;
        if actor.job.is_none() {
            actor.pods.mark_all();
        }
        Some(key)
    }

    /// Applies a version of a Pod. Returns the affected actors: the Pod's previous owner, and its new owner if that
    /// differs.
    pub(super) fn apply_pod(&mut self, pod: DecodedPod<'_>) -> [Option<ActorKey>; 2] {
        let (record, end) = (pod.record, pod.end.as_deref());
        let owner = match pod.controller {
            Controller::Job(job) => Some(job),
            Controller::Other | Controller::None => None,
        };
        let uid = record.uid;
        let Some(known) = self.placements.get(&uid).copied() else {
            let Some(job) = owner else {
                return [None, None];
            };
            let actor = self.find(&job).and_then(|key| self.actors.get(key));
            if actor.is_some_and(|actor| actor.pods_known_at() >= record.resource_version) {
                // A newer list of the Job's Pods no longer has it.
                return [None, None];
            }
            let placement = self.insert_into(job, record, end);
            self.placements.insert(uid, placement);
            return [Some(placement.actor), None];
        };
        let actor = &self.actors[known.actor];
        if owner.as_ref() == Some(&*actor.id) {
            self.replace(known, record, end);
            return [Some(known.actor), None];
        }
        let newest = actor.pods.get(known.slot);
        // The owner in a stale version is stale, too.
        if newest.is_some_and(|newest| newest.resource_version > record.resource_version) {
            return [Some(known.actor), None];
        }
        let Some(job) = owner else {
            self.placements.remove(&uid);
            self.let_go(known);
            return [Some(known.actor), None];
        };
        let to = self.insert_into(job, record, end);
        self.placements.insert(uid, to);
        self.let_go(known);
        [Some(known.actor), Some(to.actor)]
    }

    /// Removes a deleted Pod. `last` is its last version, if the event has it.
    pub(super) fn delete_pod(
        &mut self,
        uid: Uid,
        last: Option<&DecodedPod<'_>>,
    ) -> Option<ActorKey> {
        let placement = self.placements.remove(&uid)?;
        let actor = &mut self.actors[placement.actor];
        if let Some(annotated) = &mut actor.annotated
            && let Some(known) = actor.pods.get(placement.slot)
        {
            annotated.pod_gone(known, last.map(|last| (&last.record, last.end.as_deref())));
        }
        self.remove_from(placement);
        Some(placement.actor)
    }

    /// Removes the Pods of a scope that a complete list of `version` does not contain. Pods with a newer version, known
    /// from responses to our writes, stay.
    pub(super) fn retain_pods(
        &mut self,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        version: u64,
    ) -> Vec<ActorKey> {
        let is_gone = |(uid, placement): &(&Uid, &Placement)| {
            let actor = &self.actors[placement.actor];
            let in_scope = namespace.is_none_or(|scope| actor.id.key.namespace == scope);
            let pod = actor.pods.get(placement.slot);
            in_scope
                && !listed.contains(*uid)
                && pod.is_none_or(|pod| pod.resource_version <= version)
        };
        let gone = self.placements.iter().filter(is_gone);
        let mut gone: Vec<Uid> = gone.map(|(uid, _)| *uid).collect();
        gone.sort_unstable();
        let gone = gone.into_iter();
        gone.filter_map(|uid| self.delete_pod(uid, None)).collect()
    }

    /// Marks the Jobs of a scope as gone that a complete list of `version` does not contain. Jobs cached in a newer
    /// version stay.
    pub(super) fn retain_jobs(
        &mut self,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        version: u64,
    ) -> Vec<ActorKey> {
        let mut gone = Vec::new();
        for key in self.in_scope(namespace) {
            let actor = &mut self.actors[key];
            let known = actor.job.as_ref();
            let is_old = known.is_some_and(|known| known.resource_version <= version);
            if is_old && !listed.contains(&actor.id.uid) {
                actor.gone = true;
                gone.push(key);
            }
        }
        gone
    }

    /// Returns the Pods of a scope that are cached in a newer version than this.
    pub(super) fn newer_pods(&self, namespace: Option<&str>, version: u64) -> Vec<(Uid, u64)> {
        let newer = self.placements.iter().filter_map(|(uid, placement)| {
            let actor = &self.actors[placement.actor];
            let in_scope = namespace.is_none_or(|scope| actor.id.key.namespace == scope);
            let known = actor.pods.get(placement.slot)?.resource_version;
            (in_scope && known > version).then_some((*uid, known))
        });
        newer.collect()
    }

    /// Returns the Jobs of a scope that are cached in a newer version than this.
    pub(super) fn newer_jobs(&self, namespace: Option<&str>, version: u64) -> Vec<(Uid, u64)> {
        let jobs = self.all().filter_map(|actor| {
            let job = &actor.id.key;
            let in_scope = namespace.is_none_or(|scope| job.namespace == scope);
            let known = actor.job.as_ref().filter(|_| !actor.gone)?.resource_version;
            (in_scope && known > version).then_some((actor.id.uid, known))
        });
        jobs.collect()
    }

    /// Returns the Jobs of a scope that are cached in a newer version than their watch has reached.
    pub(super) fn unseen_jobs(&self, namespace: Option<&str>) -> Vec<(Uid, u64)> {
        let scope = self.scopes.get(namespace);
        scope.map_or_else(Vec::new, |scope| {
            self.newer_jobs(namespace, scope.jobs_seen)
        })
    }

    fn in_scope(&self, namespace: Option<&str>) -> Vec<ActorKey> {
        let mut all = self.actors();
        all.retain(|key| {
            let job = &self.actors[*key].id.key;
            namespace.is_none_or(|scope| job.namespace == scope)
        });
        all
    }

    /// Forgets a scope. Later syncs find no actors there, and responses to writes in flight find none either.
    pub(super) fn forget(&mut self, namespace: Option<&str>) {
        self.forget_pods(namespace);
        if let Some(scope) = self.scopes.get_mut(namespace) {
            scope.jobs_seen = 0;
        }
        for key in self.in_scope(namespace) {
            self.forget_actor(key);
        }
    }

    fn forget_actor(&mut self, key: ActorKey) {
        if let Some(actor) = self.actors.remove(key) {
            self.by_job.remove(&actor.id);
            self.templates.forget(actor.id.uid);
            let namespace = &actor.id.key.namespace;
            self.policies.resize(namespace, actor.policy_bytes, 0);
            self.budget.forget(namespace, actor.annotated.as_deref());
        }
    }

    /// Forgets the Pods of a scope and the progress of their watch.
    pub(super) fn forget_pods(&mut self, namespace: Option<&str>) {
        self.retain_pods(namespace, &HashSet::new(), u64::MAX);
        for key in self.in_scope(namespace) {
            self.actors[key].forget_pods();
        }
        if let Some(scope) = self.scopes.get_mut(namespace) {
            scope.pods_seen = 0;
        }
    }

    /// Returns a cached Pod.
    pub(super) fn pod(&self, pod: Uid) -> Option<&PodRecord> {
        let placement = self.placements.get(&pod)?;
        self.actors[placement.actor].pods.get(placement.slot)
    }

    /// Returns a cached Job.
    pub(super) fn job(&self, job: &JobId) -> Option<&Job> {
        self.actors[self.find(job)?].job.as_ref()
    }

    /// Records the resourceVersion that the Pod watch of a scope has reached.
    pub(super) fn pods_seen(&mut self, namespace: Option<&str>, version: u64) {
        if let Some(scope) = self.scopes.get_mut(namespace) {
            scope.pods_seen = scope.pods_seen.max(version);
        }
    }

    /// Records the resourceVersion that the Job watch of a scope has reached.
    pub(super) fn jobs_seen(&mut self, namespace: Option<&str>, version: u64) {
        if let Some(scope) = self.scopes.get_mut(namespace) {
            scope.jobs_seen = scope.jobs_seen.max(version);
        }
    }

    /// Returns the resourceVersion as of which all Pods of an actor's Job are cached.
    pub(super) fn pods_seen_by(&self, key: ActorKey) -> u64 {
        let actor = self.actors.get(key);
        let scope = actor.and_then(|actor| self.scopes.covering(&actor.id.key.namespace));
        let seen = scope.map_or(u64::MAX, |scope| scope.pods_seen);
        seen.max(actor.map_or(0, Actor::pods_known_at))
    }

    /// Applies the response to a Pod creation. Returns true if the Pod is now in the cache. The watch may not have
    /// shown the Pod yet, or may already have shown its deletion. A restored server that was not detected yet looks
    /// like the latter.
    pub(super) fn pod_created(&mut self, key: ActorKey, record: PodRecord) -> bool {
        let Some(actor) = self.actors.get(key) else {
            return false;
        };
        let scope = self.scopes.covering(&actor.id.key.namespace);
        let seen = scope.map_or(0, |scope| scope.pods_seen);
        let is_past = seen.max(actor.pods_known_at()) >= record.resource_version;
        let Entry::Vacant(entry) = self.placements.entry(record.uid) else {
            return true;
        };
        if is_past {
            return false;
        }
        self.seen.pod(false, is_held_after_end(Some(&record)));
        let actor = &mut self.actors[key];
        if let Some(annotated) = &mut actor.annotated {
            annotated.pod_seen(&record, None);
        }
        let slot = actor.pods.insert(record);
        entry.insert(Placement { actor: key, slot });
        true
    }

    /// Applies our own write to a cached Pod.
    pub(super) fn pod_written(
        &mut self,
        key: ActorKey,
        (slot, uid): (Slot, Uid),
        version: u64,
        change: impl FnOnce(&mut PodRecord),
    ) {
        let Some(actor) = self.actors.get_mut(key) else {
            return;
        };
        let pods = &mut actor.pods;
        if pods.get(slot).is_some_and(|pod| pod.uid == uid) {
            pods.update(slot, |pod| {
                pod.resource_version = pod.resource_version.max(version);
                let held = is_held_after_end(Some(pod));
                change(pod);
                self.seen.pod(held, is_held_after_end(Some(pod)));
            });
        }
    }

    /// Applies a Pod from a GET, if the cache has it as this Job's.
    pub(super) fn pod_read(&mut self, key: ActorKey, record: PodRecord) {
        let known = self.placements.get(&record.uid).copied();
        if let Some(known) = known.filter(|known| known.actor == key) {
            self.replace(known, record, None);
        }
    }

    /// Applies the response to a status write. Returns true if no watch event had shown that version yet.
    pub(super) fn job_status_written(
        &mut self,
        key: ActorKey,
        status: JobStatus,
        version: u64,
    ) -> bool {
        let Some(actor) = self.actors.get_mut(key) else {
            return false;
        };
        (actor.status_since, actor.tried) = (0, Vec::new());
        let job = actor.job.as_mut();
        let Some(job) = job.filter(|job| job.resource_version < version) else {
            return false;
        };
        (job.resource_version, job.status) = (version, status);
        true
    }

    /// Removes an actor if its Job is gone or not cached, and it has no Pods, pending changes or writes in flight.
    pub(super) fn close_if_empty(&mut self, key: ActorKey) {
        let Some(actor) = self.actors.get(key) else {
            return;
        };
        let job_gone = actor.gone || actor.job.is_none();
        let is_empty = actor.pods.is_empty() && !actor.pods.is_dirty() && actor.in_flight == 0;
        if job_gone && is_empty {
            self.forget_actor(key);
        }
    }

    /// Drops the pending changes of an actor that will not be synced, and the actor if it is empty.
    pub(super) fn set_aside(&mut self, key: ActorKey) {
        if let Some(actor) = self.actors.get_mut(key) {
            while actor.pods.take_dirty().is_some() {}
        }
        self.close_if_empty(key);
    }

    /// Returns the actor of a Job; creates it if necessary.
    fn of(&mut self, job: JobId) -> ActorKey {
        if let Some(known) = self.by_job.get(&job) {
            return *known;
        }
        let job = Arc::new(job);
        let key = self.actors.insert(Actor::new(Arc::clone(&job)));
        self.by_job.insert(job, key);
        key
    }

    fn insert_into(&mut self, job: JobId, record: PodRecord, end: Option<&PodEnd>) -> Placement {
        let key = self.of(job);
        self.seen.pod(false, is_held_after_end(Some(&record)));
        let actor = &mut self.actors[key];
        if let Some(annotated) = &mut actor.annotated {
            annotated.pod_seen(&record, end);
        }
        let slot = actor.pods.insert(record);
        Placement { actor: key, slot }
    }

    fn replace(
        &mut self,
        Placement { actor, slot }: Placement,
        mut record: PodRecord,
        end: Option<&PodEnd>,
    ) {
        let Actor {
            pods, annotated, ..
        } = &mut self.actors[actor];
        let Some(known) = pods.get(slot) else {
            return;
        };
        if known.resource_version > record.resource_version {
            return;
        }
        // A Pod keeps its first index, even if its annotation changes.
        record.index = known.index.or(record.index);
        let held = is_held_after_end(Some(known));
        self.seen.pod(held, is_held_after_end(Some(&record)));
        if let Some(annotated) = annotated {
            annotated.pod_changed(known, &record, end);
        }
        pods.replace(slot, record);
    }

    /// Removes a Pod that its Job no longer owns. The Job may adopt it again.
    fn let_go(&mut self, known: Placement) {
        let Actor {
            pods, annotated, ..
        } = &mut self.actors[known.actor];
        if let (Some(annotated), Some(pod)) = (annotated, pods.get(known.slot)) {
            annotated.pod_let_go(pod);
        }
        self.remove_from(known);
    }

    fn remove_from(&mut self, Placement { actor, slot }: Placement) {
        let pods = &mut self.actors[actor].pods;
        let held = is_held_after_end(pods.get(slot));
        self.seen.pod(held, false);
        pods.remove(slot);
    }
}
