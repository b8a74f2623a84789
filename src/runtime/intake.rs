//! Takes in what the server tells of a kind of object: into the store, the claims, and whatever else is
//! told of it; and queues the Jobs that have something new to look at.
//!
//! Must not: wait, or ask the server anything.

#[cfg(test)]
mod tests;

use std::{fmt::Display, sync::Arc};

use hashbrown::HashSet;

use crate::{
    cluster::Encoding,
    model::{DecodedPod, JobId, Uid},
    ownership::Mode,
    wire::{
        ApiError, ListPage, Object, PodDecoder, PodEvent, WatchEvent, decode_job,
        decode_watch_frame, decode_watch_line, paths,
    },
};

use super::{
    cron_jobs::CronJobs,
    gang::{GangKind, Gangs},
    metrics::{Kind, Metrics},
    ownership::Ownership,
    scheduler::Schedule,
    store::{JobNews, Store},
    ttl::Ttl,
};

/// Changes that a chunk of a watch brought are queued together, but no more than these.
const QUEUE_AT_ONCE: usize = 64;

/// The kinds that are watched.
#[derive(Clone, Debug)]
pub(super) enum Watched {
    Jobs,
    Pods,
    /// Where they are run here.
    CronJobs(Arc<CronJobs>),
    /// Of the objects of gangs, where those are asked for.
    Gang(GangKind, Arc<Gangs>),
}

impl Watched {
    /// What the kind is called in a path.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Pods => "pods",
            Self::CronJobs(_) => "cronjobs",
            Self::Gang(kind, _) => kind.plural(),
        }
    }
}

/// Takes in objects of a kind, of one namespace or all.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) watched: Watched,
    pub(super) namespace: Option<String>,
    pub(super) store: Arc<Store>,
    pub(super) schedule: Arc<Schedule>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) mode: Mode,
    pub(super) decoder: PodDecoder,
    pub(super) ownership: Arc<Ownership>,
    /// Whether Jobs are run here; else all are somebody else's.
    pub(super) runs_jobs: bool,
    /// Who runs CronJobs, if they are run here.
    pub(super) cron_jobs: Option<Arc<CronJobs>>,
    /// Who deletes finished Jobs, if they are deleted here.
    pub(super) ttl: Option<Arc<Ttl>>,
}

/// What came of an object's news.
#[derive(Default)]
pub(super) struct News {
    /// Jobs to queue, without repeats in a row.
    jobs: Vec<Arc<JobId>>,
    /// Jobs that were not known before, likewise.
    new_jobs: Vec<Arc<JobId>>,
}

/// An object that was taken in.
struct Seen {
    uid: Uid,
    version: u64,
    /// Which Job it is, if it is one.
    job: Option<Arc<JobId>>,
}

impl Seen {
    fn pod(pod: &DecodedPod<'_>) -> Self {
        Self {
            uid: pod.record.uid,
            version: pod.record.resource_version,
            job: None,
        }
    }
}

impl News {
    fn add(&mut self, job: Option<Arc<JobId>>) {
        if let Some(job) = job
            && self.jobs.last() != Some(&job)
        {
            self.jobs.push(job);
        }
    }
}

impl Intake {
    /// Takes in a page of a list as of `version`, and notes what it shows. Gives whether it tells the
    /// history that is known: a list shows no object as older than it is known to have been by then.
    pub(super) fn page(
        &self,
        page: &ListPage<'_>,
        version: u64,
        listed: &mut HashSet<Uid>,
    ) -> bool {
        let mut news = News::default();
        let mut is_same = true;
        for item in &page.items {
            if let Some(seen) = self.apply(*item, &mut news) {
                let known = self.known_version(&seen).unwrap_or(0);
                // What is newer than the list was told by the answer to a write of ours.
                is_same &= !(seen.version < known && known <= version);
                listed.insert(seen.uid);
            }
        }
        self.queue(&mut news);
        is_same
    }

    fn known_version(&self, seen: &Seen) -> Option<u64> {
        match &self.watched {
            Watched::Jobs => self.store.job_version(seen.job.as_ref()?),
            Watched::Pods => self.store.pod_version(seen.uid),
            // Whose lists are told by their own versions.
            Watched::CronJobs(_) | Watched::Gang(..) => None,
        }
    }

    /// Forgets what was told in another history; Jobs with all that is theirs.
    pub(super) fn forget(&self) {
        let (namespace, nothing) = (self.namespace.as_deref(), HashSet::new());
        let told = self.ownership.with(|claims| match &self.watched {
            Watched::Jobs => claims.handle_job_list(namespace, &nothing),
            Watched::Pods => claims.handle_pod_list(namespace, &nothing, u64::MAX),
            Watched::CronJobs(_) | Watched::Gang(..) => Default::default(),
        });
        match &self.watched {
            Watched::Jobs => {
                self.store.forget(namespace);
                if let Some(cron_jobs) = &self.cron_jobs {
                    cron_jobs.forget(namespace);
                }
            }
            Watched::Pods => self.store.forget_pods(namespace),
            Watched::CronJobs(cron_jobs) => cron_jobs.retain(namespace, &nothing, u64::MAX),
            Watched::Gang(kind, gangs) => gangs.retain(*kind, namespace, &nothing, u64::MAX),
        }
        self.ownership.settle(told);
    }

    /// Every Job has a turn, as none could have one before.
    pub(super) fn queue_all(&self) {
        for job in self.store.jobs() {
            self.schedule.add(job);
        }
    }

    /// Takes in that a list is complete, which shows these objects and no others as of `version`.
    pub(super) fn finish_list(&self, listed: &HashSet<Uid>, version: u64) {
        // First: from here on a late answer to a creation tells of no Pod that the list would show.
        self.saw(version);
        let namespace = self.namespace.as_deref();
        let told = self.ownership.with(|claims| match &self.watched {
            Watched::Jobs => claims.handle_job_list(namespace, listed),
            Watched::Pods => claims.handle_pod_list(namespace, listed, version),
            Watched::CronJobs(_) | Watched::Gang(..) => Default::default(),
        });
        let gone = match &self.watched {
            Watched::Jobs => self.store.retain_jobs(namespace, listed, version),
            Watched::Pods => self.store.retain_pods(namespace, listed, version),
            Watched::CronJobs(cron_jobs) => {
                cron_jobs.retain(namespace, listed, version);
                Vec::new()
            }
            Watched::Gang(kind, gangs) => {
                gangs.retain(*kind, namespace, listed, version);
                Vec::new()
            }
        };
        self.ownership.settle(told);
        for job in gone {
            if let (Watched::Jobs, Some(cron_jobs)) = (&self.watched, &self.cron_jobs) {
                cron_jobs.job_gone(job.uid);
            }
            self.schedule.add(job);
        }
    }

    /// Takes in an event of a watch that was opened at `from`, and how far it has come.
    pub(super) fn event(
        &self,
        encoding: Encoding,
        event: &[u8],
        from: u64,
        version: &mut u64,
        news: &mut News,
    ) -> Result<(), ApiError> {
        if event.is_empty() {
            return Ok(());
        }
        let seen = match self.pod_line(encoding, event, news) {
            Some(seen) => Some(seen.version),
            None => self.any_event(encoding, event, news)?,
        };
        if let Some(seen) = seen {
            if seen < from {
                // Then the server's data are older than they were, or it is behind.
                return Err(ApiError::behind());
            }
            *version = seen.max(*version);
            self.saw(seen);
        }
        if news.jobs.len() >= QUEUE_AT_ONCE {
            self.queue(news);
        }
        Ok(())
    }

    /// Takes in what a line tells of a Pod: where there is no protobuf, nearly all that is ever
    /// heard, so it is read only once.
    fn pod_line(&self, encoding: Encoding, line: &[u8], news: &mut News) -> Option<Seen> {
        if !matches!((encoding, &self.watched), (Encoding::Json, Watched::Pods)) {
            return None;
        }
        Some(match self.decoder.decode_line(line)? {
            PodEvent::Applied(pod) => self.apply_pod(pod, news),
            PodEvent::Deleted(pod) => self.delete_pod(pod, news),
        })
    }

    /// Takes in an event; gives the version that it shows.
    fn any_event(
        &self,
        encoding: Encoding,
        event: &[u8],
        news: &mut News,
    ) -> Result<Option<u64>, ApiError> {
        let event = match encoding {
            Encoding::Json => decode_watch_line(event).map_err(odd_event),
            Encoding::Protobuf => decode_watch_frame(event).map_err(odd_event),
        };
        Ok(match event? {
            WatchEvent::Applied(object) => self.apply(object, news).map(|seen| seen.version),
            WatchEvent::Deleted(object) => self.delete(object, news).map(|seen| seen.version),
            WatchEvent::Bookmark(seen) => seen.parse().ok(),
            WatchEvent::Error(error) => return Err(error),
        })
    }

    /// Takes in a version of an object. One that cannot be read is passed over: it must not stop
    /// the others.
    fn apply(&self, object: Object<'_>, news: &mut News) -> Option<Seen> {
        match &self.watched {
            Watched::Jobs => {
                let job = self.readable(object.json().and_then(decode_job), object)?;
                let external = !(self.runs_jobs && self.mode.manages(&job.job));
                if let Some(cron_jobs) = &self.cron_jobs {
                    cron_jobs.job(&job);
                }
                let ttl = self.ttl.as_ref().filter(|ttl| ttl.concerns(&job.job));
                let (uid, version) = (job.job.uid, job.job.resource_version);
                let told = (!external).then(|| {
                    let selector = job.selector.as_ref();
                    self.ownership
                        .with(|claims| claims.handle_job(&job.job, selector))
                });
                let (id, brought) = self.store.apply_job(job, external);
                match brought {
                    JobNews::Stale => {}
                    JobNews::Changed => news.add(Some(Arc::clone(&id))),
                    JobNews::New => news.new_jobs.push(Arc::clone(&id)),
                }
                ttl.inspect(|ttl| ttl.heard(Arc::clone(&id)));
                self.ownership.settle(told.unwrap_or_default());
                let job = Some(id);
                Some(Seen { uid, version, job })
            }
            Watched::Pods => {
                let pod = self.readable(self.decoder.decode(object), object)?;
                Some(self.apply_pod(pod, news))
            }
            Watched::CronJobs(cron_jobs) => {
                let (uid, version) =
                    self.readable(object.json().and_then(|json| cron_jobs.apply(json)), object)?;
                Some(Seen {
                    uid,
                    version,
                    job: None,
                })
            }
            Watched::Gang(kind, gangs) => {
                let (uid, version) = self.readable(
                    object.json().and_then(|json| gangs.apply(*kind, json)),
                    object,
                )?;
                Some(Seen {
                    uid,
                    version,
                    job: None,
                })
            }
        }
    }

    fn delete(&self, object: Object<'_>, news: &mut News) -> Option<Seen> {
        match &self.watched {
            Watched::Jobs => {
                let job = self
                    .readable(object.json().and_then(decode_job), object)?
                    .job;
                let id = job.id();
                let told = self.ownership.with(|claims| claims.handle_job_gone(&id));
                news.add(self.store.delete_job(&id));
                if let Some(cron_jobs) = &self.cron_jobs {
                    cron_jobs.job_gone(job.uid);
                }
                self.ownership.settle(told);
                Some(Seen {
                    uid: job.uid,
                    version: job.resource_version,
                    job: None,
                })
            }
            Watched::Pods => {
                let pod = self.readable(self.decoder.decode(object), object)?;
                Some(self.delete_pod(pod, news))
            }
            Watched::CronJobs(cron_jobs) => {
                let (uid, version) = self.readable(
                    object.json().and_then(|json| cron_jobs.delete(json)),
                    object,
                )?;
                Some(Seen {
                    uid,
                    version,
                    job: None,
                })
            }
            Watched::Gang(kind, gangs) => {
                let (uid, version) = self.readable(
                    object.json().and_then(|json| gangs.delete(*kind, json)),
                    object,
                )?;
                Some(Seen {
                    uid,
                    version,
                    job: None,
                })
            }
        }
    }

    fn apply_pod(&self, pod: DecodedPod<'_>, news: &mut News) -> Seen {
        let seen = Seen::pod(&pod);
        // Before the store: a Job that may get the Pod back must not replace it.
        let told = self.ownership.with(|claims| claims.handle_pod(&pod));
        for job in self.store.apply_pod(pod).concerned() {
            news.add(job);
        }
        self.ownership.settle(told);
        seen
    }

    fn delete_pod(&self, pod: DecodedPod<'_>, news: &mut News) -> Seen {
        let seen = Seen::pod(&pod);
        let told = self
            .ownership
            .with(|claims| claims.handle_pod_gone(seen.uid, &pod.namespace));
        news.add(self.store.delete_pod(seen.uid));
        self.ownership.settle(told);
        seen
    }

    fn readable<T, E: Display>(&self, decoded: Result<T, E>, object: Object<'_>) -> Option<T> {
        decoded
            .map_err(|error| {
                let start = object.start();
                tracing::error!(kind = self.kind(), %error, object = start, "object passed over");
                self.metrics
                    .unreadable
                    .get_or_create(&Kind { kind: self.kind() })
                    .inc();
            })
            .ok()
    }

    fn saw(&self, version: u64) {
        let namespace = self.namespace.as_deref();
        match &self.watched {
            Watched::Jobs | Watched::CronJobs(_) => {}
            Watched::Pods => self.store.pods_seen(namespace, version),
            Watched::Gang(kind, gangs) => gangs.seen(*kind, namespace, version),
        }
    }

    pub(super) fn queue(&self, news: &mut News) {
        for job in news.new_jobs.drain(..) {
            self.schedule.add_new(job);
        }
        for job in news.jobs.drain(..) {
            self.schedule.add(job);
        }
    }

    /// Where they are.
    pub(super) fn path(&self) -> String {
        let namespace = self.namespace.as_deref();
        match &self.watched {
            Watched::Jobs => paths::jobs(namespace),
            Watched::Pods => paths::pods(namespace),
            Watched::CronJobs(_) => paths::cron_jobs(namespace),
            Watched::Gang(kind, gangs) => gangs.path(*kind, namespace),
        }
    }

    /// What they are called.
    pub(super) fn kind(&self) -> &'static str {
        self.watched.kind()
    }
}

fn odd_event(error: impl Display) -> ApiError {
    ApiError::no_answer(format!("odd event: {error}"))
}
