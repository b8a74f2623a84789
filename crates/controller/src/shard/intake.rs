//! Applies informer events to the store, the claims and the other caches, and queues the affected Jobs.
//!
//! Must not: decode, or ask the server anything.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use lakh_core::ownership::Told;
use lakh_model::{DecodedPod, JobId, Monotonic, Now, PodFlags, PodRecord, Report, Uid};
use lakh_wire::DecodedJob;

use crate::informer::{Change, Extent, Kind, News, Notice, Observed, TooLongObject};

use super::{
    Shard,
    correlate::{About, Correlator},
    gang_index::Known,
    knows_jobs,
    retirement::Retirement,
    store::{ActorKey, JobNews},
};

/// UIDs from lists that are not complete yet, with the list's version. The UIDs of an aborted list are discarded: those
/// objects may be gone since.
#[derive(Debug, Default)]
pub(super) struct Listed(HashMap<Extent, (u64, HashSet<Uid>)>);

impl Listed {
    fn shown(&mut self, extent: Extent, version: u64, uid: Uid) {
        let (of, all) = self.0.entry(extent).or_default();
        if *of != version {
            *of = version;
            all.clear();
        }
        all.insert(uid);
    }

    /// Returns the UIDs of the complete list of this version.
    fn complete(&mut self, extent: &Extent, version: u64) -> HashSet<Uid> {
        let listed = self.0.remove(extent).filter(|(of, _)| *of == version);
        listed.map(|(_, all)| all).unwrap_or_default()
    }
}

impl Shard {
    /// Handles an event of one object.
    pub fn hear(&mut self, news: News<'_>, now: Now) {
        let News { change, object } = news;
        let (kind, uid, version) = object.identity();
        if let Change::Listed(at) = change {
            self.compare(&object, at);
            let namespace = self.scope_of(object.namespace());
            self.listed.shown(Extent { kind, namespace }, at, uid);
        }
        self.unconfirmed.shown(kind, uid, version);
        let is_gone = change == Change::Deleted;
        match object {
            Observed::Pod(pod) if is_gone => self.delete_pod(&pod),
            Observed::Pod(pod) => self.apply_pod(pod),
            Observed::Job(job) if is_gone => self.delete_job(&job),
            Observed::Job(job) => self.apply_job(*job, now),
            Observed::CronJob(read) => {
                if let Some(cron_jobs) = &mut self.cron_jobs {
                    match is_gone {
                        true => cron_jobs.delete(&read.cron_job, &mut self.store.templates),
                        false => {
                            let templates = &mut self.store.templates;
                            cron_jobs.apply(*read, &mut self.outbox, templates, now);
                        }
                    }
                }
            }
            Observed::TooLong(found) => self.warn_of_too_long(&found, now),
            Observed::Workload(_) | Observed::PodGroup(_) if is_gone => {
                if let Some(known) = self.gangs_of(kind) {
                    known.remove(uid);
                }
            }
            Observed::Workload(read) => {
                if let Some(gangs) = &mut self.gangs {
                    gangs.workloads.apply(*read);
                }
            }
            Observed::PodGroup(read) => {
                if let Some(gangs) = &mut self.gangs {
                    gangs.groups.apply(*read);
                }
            }
        }
    }

    /// Records a Warning on a Job or CronJob that is too long to be decoded, so that nothing is done for it.
    fn warn_of_too_long(&mut self, found: &TooLongObject, now: Now) {
        let controllers = self.settings.controllers;
        let about = match found.kind {
            Kind::Job if controllers.job => About::Job,
            Kind::CronJob if controllers.cronjob => About::CronJob,
            _ => return,
        };
        if !self.is_in_charge() {
            return;
        }
        let (uid, key) = (found.object.uid, found.object.key.clone());
        let message = format!(
            "The object exceeds {} bytes, so lakh cannot read it and ignores it. Make it smaller",
            found.longest
        );
        let report = Report::warning("ObjectTooLarge", &message);
        let mut unknown = Correlator::default();
        let job = self.store.find(&JobId {
            key: key.clone(),
            uid,
        });
        let told = match job.and_then(|actor| self.store.get_mut(actor)) {
            Some(actor) => &mut actor.told,
            None => &mut unknown,
        };
        let events = &mut self.outbox.events;
        events.tell(about, uid, &key, told, report, now);
    }

    /// Skips a Job because its namespace has no memory left for its policies and its selector.
    fn refuse_policies(&mut self, job: &DecodedJob, now: Now) {
        let (key, bytes) = (&job.job.key, job.policy_bytes);
        tracing::error!(job = %key, bytes, "the policies of the namespace's Jobs exceed their memory limit; Job skipped");
        self.metrics.unreadable_object(Kind::Job.plural());
        if !self.is_in_charge() {
            return;
        }
        let message = format!(
            "lakh ignores this Job: its policies and selector need {bytes} bytes, and those of the namespace's other Jobs \
             already use the memory limit. Make them shorter, or delete finished Jobs"
        );
        let report = Report::warning("JobTooLarge", &message);
        let events = &mut self.outbox.events;
        let mut unknown = Correlator::default();
        events.tell(About::Job, job.job.uid, key, &mut unknown, report, now);
    }

    /// Records one Warning on a Job with a template that is too large to be kept.
    fn warn_of_template(&mut self, actor: ActorKey, now: Now) {
        let most = self.store.templates.most_of_namespace();
        let is_in_charge = self.is_in_charge();
        let Some(actor) = self.store.get_mut(actor) else {
            return;
        };
        let bytes = actor.template_bytes;
        if bytes <= most || !is_in_charge || actor.has_told_of_template {
            return;
        }
        actor.has_told_of_template = true;
        let message = format!(
            "spec.template has {bytes} bytes and does not fit into the {most} bytes of memory for one namespace (half of \
             --template-memory), so lakh reads it from the API server for each Pod. Move large values to a ConfigMap, or raise the flag"
        );
        let report = Report::warning("TemplateNotKept", &message);
        let (job, told) = (&actor.id, &mut actor.told);
        let events = &mut self.outbox.events;
        events.tell(About::Job, job.uid, &job.key, told, report, now);
    }

    /// Handles a change of the sync state, of leadership or of the history.
    pub fn notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Complete(extent, version) => self.complete(extent, *version),
            Notice::Seen(extent, version) => {
                self.seen(extent, *version);
                let namespace = extent.namespace.as_ref();
                if (self.unconfirmed).is_overdue(extent.kind, namespace, *version) {
                    self.end_history();
                }
            }
            Notice::Forget(extent) => self.forget(extent),
            Notice::Lead(until) => self.lead(*until),
            Notice::Retire(number) => self.retirement = Some(Retirement::new(*number)),
            Notice::History {
                number,
                known,
                is_heard,
                ..
            } => {
                // A notice of another history may be old: sent before the informers got this shard's report.
                self.history_ended &= *number == self.history;
                self.history = *number;
                let was_heard = std::mem::replace(&mut self.is_heard, *is_heard);
                if was_heard && !is_heard {
                    self.doubt();
                }
                let before = std::mem::replace(&mut self.known, *known);
                if knows_jobs(*known) && !knows_jobs(before) {
                    // No actor could be synced before.
                    for actor in self.store.actors() {
                        self.mark(actor);
                    }
                }
            }
        }
    }

    /// Sets the write deadline.
    fn lead(&mut self, until: Monotonic) {
        let before = std::mem::replace(&mut self.leads_until, until);
        let is_in_charge = self.is_in_charge();
        if let Some(cron_jobs) = &mut self.cron_jobs {
            cron_jobs.lead(is_in_charge);
        }
        if until == Monotonic::default() {
            self.retirement = None;
        } else if before == Monotonic::default() {
            self.outbox.begin_term();
        }
    }

    /// Detects a restored server from a list. A list never shows an object as older than a version that existed by
    /// then, and never shows a Pod's progress undone. A cached version newer than the list is from the response to one
    /// of our writes.
    fn compare(&mut self, object: &Observed<'_>, listed: u64) {
        let (kind, uid, seen) = object.identity();
        let known = match object {
            Observed::Job(job) => {
                let known = self.store.job(&job.job.id());
                known.map(|known| known.resource_version)
            }
            Observed::Pod(pod) => {
                let known = self.store.pod(uid);
                let version = known.map(|known| known.resource_version);
                if known.is_some_and(|known| is_set_back(known, &pod.record)) {
                    self.end_history();
                }
                version
            }
            Observed::CronJob(read) => {
                let cron_jobs = self.cron_jobs.as_ref();
                cron_jobs.and_then(|cron_jobs| cron_jobs.version(&read.cron_job))
            }
            Observed::TooLong(_) => None,
            Observed::Workload(_) | Observed::PodGroup(_) => {
                self.gangs_of(kind).and_then(|known| known.version(uid))
            }
        };
        if known.is_some_and(|known| seen < known && known <= listed) {
            self.end_history();
        }
    }

    /// Returns the cache of a gang kind, if gangs are enabled.
    fn gangs_of(&mut self, kind: Kind) -> Option<&mut dyn Known> {
        self.gangs.as_mut()?.of(kind)
    }

    /// Returns the watched namespace that covers this one; none if all are watched.
    pub(super) fn scope_of(&self, namespace: &str) -> Option<Arc<str>> {
        let mut covered = self.namespaces.iter();
        covered
            .find(|covered| covered.as_ref() == namespace)
            .cloned()
    }

    fn apply_job(&mut self, mut job: DecodedJob, now: Now) {
        let external = !(self.settings.controllers.job && self.settings.mode.manages(&job.job));
        let known = self.store.job(&job.job.id());
        if known.is_some_and(|known| {
            let is_newer = job.job.resource_version > known.resource_version;
            is_newer && known.deleting && !job.job.deleting
        }) {
            self.end_history();
        }
        if !self.store.has_room_for(&job) {
            return self.refuse_policies(&job, now);
        }
        if let Some(cron_jobs) = &mut self.cron_jobs {
            cron_jobs.job(&job);
        }
        let ttl = self.ttl.as_ref();
        let is_ttl = ttl.is_some_and(|ttl| ttl.concerns(&job.job));
        let told = (!external).then(|| {
            let selector = job.selector.as_ref();
            self.rounds.claims.handle_job(&job.job, selector)
        });
        let asks = job.annotations.take();
        let makes_pods = !external && job.template.is_some();
        let (actor, brought) = self.store.apply_job(job, external);
        if brought != JobNews::Stale {
            let summarizes_all = self.settings.summarizes_all;
            (self.store).annotate(actor, asks, summarizes_all, &self.metrics, now);
            if makes_pods {
                self.warn_of_template(actor, now);
            }
        }
        match brought {
            JobNews::Stale => {}
            JobNews::Changed => self.mark(actor),
            JobNews::New => {
                // Only a Job from a watch event is new; a listed one may have existed for long.
                if self.known.has(Kind::Job)
                    && let Some(actor) = self.store.get_mut(actor)
                    && actor.is_to_begin()
                {
                    actor.delays.begin(now.monotonic);
                }
                match self.is_in_charge() {
                    true => self.queue.add_new(actor),
                    false => self.store.set_aside(actor),
                }
            }
        }
        let is_ttl = is_ttl && self.is_in_charge();
        if let (true, Some(ttl), Some(actor)) = (is_ttl, &mut self.ttl, self.store.get(actor)) {
            ttl.heard(Arc::clone(&actor.id));
        }
        self.settle(told.unwrap_or_default());
    }

    fn delete_job(&mut self, job: &DecodedJob) {
        let id = job.job.id();
        let told = self.rounds.claims.handle_job_gone(&id);
        if let Some(actor) = self.store.delete_job(&id) {
            self.mark(actor);
        }
        if let Some(cron_jobs) = &mut self.cron_jobs {
            cron_jobs.job_gone(id.uid);
        }
        self.settle(told);
    }

    pub(super) fn apply_pod(&mut self, pod: DecodedPod<'_>) {
        let (record, known) = (&pod.record, self.store.pod(pod.record.uid));
        let is_older = known.is_some_and(|known| known.resource_version > record.resource_version);
        if known.is_some_and(|known| is_undeleted(known, record)) {
            self.end_history();
        }
        // The store has our own later write: the owner in an older version is stale.
        let told = match is_older {
            true => Told::default(),
            // Before the store: a Job that may get the Pod back must not replace it.
            false => self.rounds.claims.handle_pod(&pod),
        };
        for actor in self.store.apply_pod(pod).into_iter().flatten() {
            self.mark(actor);
        }
        self.settle(told);
    }

    fn delete_pod(&mut self, pod: &DecodedPod<'_>) {
        let uid = pod.record.uid;
        let told = self.rounds.claims.handle_pod_gone(uid, &pod.namespace);
        if let Some(actor) = self.store.delete_pod(uid, Some(pod)) {
            self.mark(actor);
        }
        self.settle(told);
    }

    fn settle(&mut self, told: Told) {
        self.rounds.claims.settle(told);
    }

    /// Handles the end of a list: the scope contains exactly the listed objects as of `version`.
    fn complete(&mut self, extent: &Extent, version: u64) {
        // First, so that a late creation response does not add a Pod that the list would have shown.
        self.seen(extent, version);
        let listed = self.listed.complete(extent, version);
        let namespace = extent.namespace.as_deref();
        let claims = &mut self.rounds.claims;
        match extent.kind {
            Kind::Job => {
                let told = claims.handle_job_list(namespace, &listed);
                for actor in self.store.retain_jobs(namespace, &listed, version) {
                    if let (Some(cron_jobs), Some(gone)) =
                        (&mut self.cron_jobs, self.store.get(actor))
                    {
                        cron_jobs.job_gone(gone.id.uid);
                    }
                    self.mark(actor);
                }
                self.settle(told);
            }
            Kind::Pod => {
                let told = claims.handle_pod_list(namespace, &listed, version);
                for actor in self.store.retain_pods(namespace, &listed, version) {
                    self.mark(actor);
                }
                self.settle(told);
            }
            Kind::CronJob | Kind::Workload | Kind::PodGroup => {
                self.retain_others(extent, &listed, version);
            }
        }
        self.note_newer(extent, version);
    }

    /// Records objects that are cached in a newer version than a complete list.
    fn note_newer(&mut self, extent: &Extent, version: u64) {
        let scope = extent.namespace.as_deref();
        let newer = match extent.kind {
            Kind::Job => self.store.newer_jobs(scope, version),
            Kind::Pod => self.store.newer_pods(scope, version),
            Kind::Workload | Kind::PodGroup => {
                let known = self.gangs_of(extent.kind);
                known.map_or_else(Vec::new, |known| known.newer(scope, version))
            }
            Kind::CronJob => {
                let known = self.cron_jobs.as_ref();
                known.map_or_else(Vec::new, |known| known.newer(scope, version))
            }
        };
        let namespace = extent.namespace.clone();
        (self.unconfirmed).listed(extent.kind, namespace, newer.into_iter());
    }

    fn retain_others(&mut self, extent: &Extent, listed: &HashSet<Uid>, version: u64) {
        let namespace = extent.namespace.as_deref();
        if let (Kind::CronJob, Some(cron_jobs)) = (extent.kind, &mut self.cron_jobs) {
            cron_jobs.retain(namespace, listed, version, &mut self.store.templates);
        } else if let Some(known) = self.gangs_of(extent.kind) {
            known.retain(namespace, listed, version);
        }
    }

    fn seen(&mut self, extent: &Extent, version: u64) {
        let namespace = extent.namespace.as_deref();
        match extent.kind {
            Kind::Pod => self.store.pods_seen(namespace, version),
            Kind::Job => self.store.jobs_seen(namespace, version),
            Kind::CronJob => {}
            Kind::Workload | Kind::PodGroup => {
                if let Some(known) = self.gangs_of(extent.kind) {
                    known.seen(namespace, version);
                }
            }
        }
    }

    /// Forgets the objects of an ended history. Forgetting Jobs drops everything that belongs to them.
    fn forget(&mut self, extent: &Extent) {
        let (namespace, nothing) = (extent.namespace.as_deref(), HashSet::new());
        self.listed.0.remove(extent);
        (self.unconfirmed).forget(extent.kind, extent.namespace.as_ref());
        let claims = &mut self.rounds.claims;
        match extent.kind {
            Kind::Job => {
                let told = claims.handle_job_list(namespace, &nothing);
                self.store.forget(namespace);
                if let Some(cron_jobs) = &mut self.cron_jobs {
                    cron_jobs.forget(namespace, &mut self.store.templates);
                }
                self.settle(told);
            }
            Kind::Pod => {
                let told = claims.handle_pod_list(namespace, &nothing, u64::MAX);
                self.store.forget_pods(namespace);
                self.settle(told);
            }
            Kind::CronJob | Kind::Workload | Kind::PodGroup => {
                self.retain_others(extent, &nothing, u64::MAX);
            }
        }
    }
}

/// Returns true if a Pod lost its deletion timestamp, which only a restore can cause. Nothing would delete the Pod
/// again, because its Job has already done so.
fn is_undeleted(before: &PodRecord, after: &PodRecord) -> bool {
    let is_newer = after.resource_version > before.resource_version;
    is_newer && before.has(PodFlags::DELETING) && !after.has(PodFlags::DELETING)
}

/// Returns true if a Pod has regained its finalizer, or is no longer finished. It must then be recorded in the status
/// once more, or not yet. A user may have written that by hand, so only lists count as proof: users cannot cause many
/// of them.
fn is_set_back(before: &PodRecord, after: &PodRecord) -> bool {
    let is_newer = after.resource_version > before.resource_version;
    let was_let_go = !before.is_active() && !before.has(PodFlags::FINALIZER);
    let is_held_again = was_let_go && after.has(PodFlags::FINALIZER);
    let goes_on = before.phase.is_terminal() && !after.phase.is_terminal();
    is_newer && (is_held_again || goes_on)
}
