//! Takes in what informers tell: into the store, the claims, and whatever else is told of it; and queues the
//! Jobs that have something new to look at.
//!
//! Must not: decode, or ask the server anything.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::{
    informer::{Change, Extent, Kind, News, Notice, Observed, TooLongObject},
    model::{DecodedPod, JobId, Monotonic, Now, PodFlags, PodRecord, Report, Uid},
    ownership::Told,
    wire::DecodedJob,
};

use super::{
    Shard,
    correlate::{About, Correlator},
    gang_index::Known,
    knows_jobs,
    retirement::Retirement,
    store::{ActorKey, JobNews},
};

/// What lists that are not complete yet have shown, and of which version they are. One that was given up on its way
/// must not count: what it showed may be gone since.
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

    /// What the list of this version has shown, which is complete.
    fn complete(&mut self, extent: &Extent, version: u64) -> HashSet<Uid> {
        let listed = self.0.remove(extent).filter(|(of, _)| *of == version);
        listed.map(|(_, all)| all).unwrap_or_default()
    }
}

impl Shard {
    /// Takes in news of an object.
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

    /// Warns on a Job or CronJob that it is too long to be read, so that nothing more is done for it.
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
            "The object has more than {} bytes; the controller cannot read it and does nothing for it. Make it smaller",
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

    /// Passes over a Job, as its namespace has no room for its policies and its selector.
    fn refuse_policies(&mut self, job: &DecodedJob, now: Now) {
        let (key, bytes) = (&job.job.key, job.policy_bytes);
        tracing::error!(job = %key, bytes, "no room for the Job's policies; passed over");
        self.metrics.unreadable_object(Kind::Job.plural());
        if !self.is_in_charge() {
            return;
        }
        let message = format!(
            "The Job's policies and selector have {bytes} bytes, and other Jobs of the namespace use up what the controller \
             keeps of them; it does nothing for this Job. Make them shorter, or delete Jobs that have ended"
        );
        let report = Report::warning("JobTooLarge", &message);
        let events = &mut self.outbox.events;
        let mut unknown = Correlator::default();
        events.tell(About::Job, job.job.uid, key, &mut unknown, report, now);
    }

    /// Warns on a Job, once, that its template is too large to be kept.
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
            "spec.template has {bytes} bytes; the controller keeps {most} for a namespace (half of --template-memory), so \
             it reads the template again for each Pod. Move large values to a ConfigMap, or raise the flag"
        );
        let report = Report::warning("TemplateNotKept", &message);
        let (job, told) = (&actor.id, &mut actor.told);
        let events = &mut self.outbox.events;
        events.tell(About::Job, job.uid, &job.key, told, report, now);
    }

    /// Takes in what concerns all that is known of a kind.
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
                // Else it may be old: sent before anybody knew what this shard found out.
                self.history_ended &= *number == self.history;
                self.history = *number;
                let was_heard = std::mem::replace(&mut self.is_heard, *is_heard);
                if was_heard && !is_heard {
                    self.doubt();
                }
                let before = std::mem::replace(&mut self.known, *known);
                if knows_jobs(*known) && !knows_jobs(before) {
                    // As none could have one before.
                    for actor in self.store.actors() {
                        self.mark(actor);
                    }
                }
            }
        }
    }

    /// It may write until then.
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

    /// A list shows no object as older than it is known to have been by then, and no Pod as set back, unless the server
    /// tells another history. What is newer than the list was told by the answer to a write of ours.
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

    /// What is known of the objects of a kind, if it is one of gangs and those are asked for.
    fn gangs_of(&mut self, kind: Kind) -> Option<&mut dyn Known> {
        self.gangs.as_mut()?.of(kind)
    }

    /// What covers objects of this namespace.
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
                // One that a watch tells of; what was listed may have been there for long.
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
        // What an own write has changed since is known to the store: an older fact tells nothing of whose the Pod is.
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

    /// A list is complete, which shows these objects and no others as of `version`.
    fn complete(&mut self, extent: &Extent, version: u64) {
        // First: from here on a late answer to a creation tells of no Pod that the list would show.
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

    /// Notes what is known to be newer than a list that is complete.
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

    /// Forgets what was told in another history; Jobs with all that is theirs.
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

/// Whether a Pod that was deleting is so no more. Nothing takes that back but a backup: else nobody would delete it
/// again, as its Job has asked for that.
fn is_undeleted(before: &PodRecord, after: &PodRecord) -> bool {
    let is_newer = after.resource_version > before.resource_version;
    is_newer && before.has(PodFlags::DELETING) && !after.has(PodFlags::DELETING)
}

/// Whether a Pod has the finalizer again that it had lost, or has not ended after all: then it has to be named once
/// more, or not yet. Somebody may have written that by hand, so only lists are asked, of which nobody can cause many.
fn is_set_back(before: &PodRecord, after: &PodRecord) -> bool {
    let is_newer = after.resource_version > before.resource_version;
    let was_let_go = !before.is_active() && !before.has(PodFlags::FINALIZER);
    let is_held_again = was_let_go && after.has(PodFlags::FINALIZER);
    let goes_on = before.phase.is_terminal() && !after.phase.is_terminal();
    is_newer && (is_held_again || goes_on)
}
