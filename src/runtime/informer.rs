//! Lists a kind and watches it, for ever: what the cluster has, the store has.
//!
//! A list comes in pages; objects that it does not show are taken out once it is complete. A watch
//! goes on from the version it was last told of, also after a broken connection; when that version
//! is too old (410), a new list starts. Nothing is missed and, as facts carry versions, nothing is
//! taken in twice.

use std::{fmt::Display, sync::Arc, time::Duration};

use futures::StreamExt as _;
use hashbrown::HashSet;
use tokio::time::{sleep, timeout};

use crate::{
    cluster::{Client, Encoding, Splitter, Watch},
    model::{Exponential, Uid},
    ownership::Mode,
    wire::{
        ApiError, DecodedPod, ErrorKind, Object, PodDecoder, PodEvent, WatchEvent, decode_job,
        decode_list_page, decode_watch_frame, decode_watch_line, paths,
    },
};

use super::{
    cron_jobs::CronJobs,
    gang::{GangKind, Gangs},
    metrics::{Kind, Metrics},
    ownership::Ownership,
    scheduler::Schedule,
    store::{JobNews, Store},
    throttle::Throttle,
    ttl::Ttl,
};

/// Objects per page of a list: what the standard client asks for.
const PAGE_SIZE: u32 = 500;

/// How long the server keeps a watch open.
const WATCH_SECONDS: u64 = 290;

/// How long a watch may be silent before it is taken for dead: a server sends a bookmark about once
/// a minute. To watch again from where one is costs little.
const SILENCE: Duration = Duration::from_secs(90);

/// How long to wait before the next try when the server does not answer.
pub(super) const RETRY: Exponential = Exponential {
    base: Duration::from_millis(200),
    max: Duration::from_secs(30),
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

/// One list and watch of a kind, in one namespace or all.
#[derive(Debug)]
pub(super) struct Informer {
    pub(super) watched: Watched,
    pub(super) namespace: Option<String>,
    pub(super) client: Client,
    pub(super) store: Arc<Store>,
    pub(super) schedule: Arc<Schedule>,
    pub(super) throttle: Arc<Throttle>,
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
    /// Whose first list comes before ours: a Pod is compared with its Job's selector as it comes.
    pub(super) after: Option<tokio::sync::watch::Receiver<bool>>,
    /// Set once the first list is complete.
    pub(super) synced: tokio::sync::watch::Sender<bool>,
}

/// What came of an object's news.
#[derive(Default)]
struct News {
    /// Jobs to queue, without repeats in a row.
    jobs: Vec<Uid>,
    /// Jobs that were not known before, likewise.
    new_jobs: Vec<Uid>,
}

/// An object that was taken in.
struct Seen {
    uid: Uid,
    version: u64,
}

impl Seen {
    fn pod(pod: &DecodedPod<'_>) -> Self {
        Self {
            uid: pod.record.uid,
            version: pod.record.resource_version,
        }
    }
}

impl News {
    fn add(&mut self, job: Option<Uid>) {
        if let Some(job) = job
            && self.jobs.last() != Some(&job)
        {
            self.jobs.push(job);
        }
    }
}

impl Informer {
    /// Keeps the store up to date, for ever.
    pub(super) async fn run(mut self) {
        if let Some(after) = &mut self.after
            && after.wait_for(|synced| *synced).await.is_err()
        {
            return;
        }
        let mut failures = 0;
        loop {
            let error = match self.list().await {
                Ok(listed) => {
                    let mut version = listed;
                    let error = self.watch_from(&mut version).await;
                    tracing::debug!(kind = self.kind(), %error, "listing anew");
                    if version > listed {
                        failures = 0;
                        continue;
                    }
                    error
                }
                Err(error) => {
                    tracing::warn!(kind = self.kind(), %error, "list failed");
                    error
                }
            };
            failures += 1;
            sleep(error.retry_after.unwrap_or(RETRY.delay(failures))).await;
        }
    }

    /// Takes in all there is; gives the version that the list shows.
    async fn list(&self) -> Result<u64, ApiError> {
        let mut listed = HashSet::new();
        let mut token = String::new();
        loop {
            self.throttle.pass().await;
            let path = format!("{}?limit={PAGE_SIZE}&continue={token}", self.path());
            let body = match self.watched {
                Watched::Pods => self.client.get_compact(&path).await,
                _ => self.client.get(&path).await,
            };
            let code = body.as_ref().map_or_else(|error| error.code, |_| 200);
            self.metrics.call("list", self.kind(), code);
            let body = body?;
            let page = decode_list_page(&body)
                .map_err(|error| ApiError::no_answer(format!("odd list: {error}")))?;
            let mut news = News::default();
            for item in &page.items {
                listed.extend(self.apply(*item, &mut news).map(|seen| seen.uid));
            }
            self.queue(&mut news);
            token = page.continue_token;
            if token.is_empty() {
                let version = page.resource_version.parse().unwrap_or(0);
                self.finish_list(&listed, version);
                return Ok(version);
            }
        }
    }

    fn finish_list(&self, listed: &HashSet<Uid>, version: u64) {
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
                cron_jobs.job_gone(job);
            }
            self.schedule.add(job);
        }
        self.synced.send_replace(true);
    }

    /// Watches from a version on, until that is no longer possible.
    async fn watch_from(&self, version: &mut u64) -> ApiError {
        let mut failures = 0;
        loop {
            let before = *version;
            let error = match self.watch_once(version).await {
                Ok(()) => {
                    failures = 0;
                    continue;
                }
                Err(error) => error,
            };
            if matches!(error.kind, ErrorKind::Expired | ErrorKind::Refused) {
                return error;
            }
            failures = if *version > before { 1 } else { failures + 1 };
            tracing::debug!(kind = self.kind(), %error, "watch broke");
            sleep(error.retry_after.unwrap_or(RETRY.delay(failures))).await;
        }
    }

    /// One watch, to its regular end.
    async fn watch_once(&self, version: &mut u64) -> Result<(), ApiError> {
        self.metrics
            .watches
            .get_or_create(&Kind { kind: self.kind() })
            .inc();
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}",
            self.path()
        );
        let Watch {
            encoding,
            mut pieces,
        } = self.watch(&path).await?;
        let mut splitter = Splitter::new(encoding);
        let mut news = News::default();
        loop {
            let next = timeout(SILENCE, pieces.next()).await;
            let Ok(next) = next else {
                return Err(ApiError::no_answer("the watch went silent"));
            };
            let Some(piece) = next else { return Ok(()) };
            let taken_in = splitter.push(&piece?, |event| {
                self.event(encoding, event, version, &mut news)
            });
            self.queue(&mut news);
            taken_in?;
        }
    }

    /// Pods make nearly all the traffic: only they are worth a second encoding.
    async fn watch(&self, path: &str) -> Result<Watch, ApiError> {
        if matches!(self.watched, Watched::Pods) {
            return self.client.watch_compact(path).await;
        }
        Ok(Watch {
            encoding: Encoding::Json,
            pieces: self.client.watch(path).await?,
        })
    }

    fn event(
        &self,
        encoding: Encoding,
        event: &[u8],
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
            *version = seen;
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
                let seen = Seen {
                    uid: job.job.uid,
                    version: job.job.resource_version,
                };
                let told = (!external).then(|| {
                    let selector = job.selector.as_ref();
                    self.ownership
                        .with(|claims| claims.handle_job(&job.job, selector))
                });
                match self.store.apply_job(job, external) {
                    JobNews::Stale => {}
                    JobNews::Changed => news.add(Some(seen.uid)),
                    JobNews::New => news.new_jobs.push(seen.uid),
                }
                ttl.inspect(|ttl| ttl.heard(seen.uid));
                self.ownership.settle(told.unwrap_or_default());
                Some(seen)
            }
            Watched::Pods => {
                let pod = self.readable(self.decoder.decode(object), object)?;
                Some(self.apply_pod(pod, news))
            }
            Watched::CronJobs(cron_jobs) => {
                let (uid, version) =
                    self.readable(object.json().and_then(|json| cron_jobs.apply(json)), object)?;
                Some(Seen { uid, version })
            }
            Watched::Gang(kind, gangs) => {
                let (uid, version) = self.readable(
                    object.json().and_then(|json| gangs.apply(*kind, json)),
                    object,
                )?;
                Some(Seen { uid, version })
            }
        }
    }

    fn delete(&self, object: Object<'_>, news: &mut News) -> Option<Seen> {
        match &self.watched {
            Watched::Jobs => {
                let job = self
                    .readable(object.json().and_then(decode_job), object)?
                    .job;
                let namespace = &job.key.namespace;
                let told = self
                    .ownership
                    .with(|claims| claims.handle_job_gone(job.uid, namespace));
                news.add(self.store.delete_job(job.uid));
                if let Some(cron_jobs) = &self.cron_jobs {
                    cron_jobs.job_gone(job.uid);
                }
                self.ownership.settle(told);
                Some(Seen {
                    uid: job.uid,
                    version: job.resource_version,
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
                Some(Seen { uid, version })
            }
            Watched::Gang(kind, gangs) => {
                let (uid, version) = self.readable(
                    object.json().and_then(|json| gangs.delete(*kind, json)),
                    object,
                )?;
                Some(Seen { uid, version })
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

    fn queue(&self, news: &mut News) {
        for job in news.new_jobs.drain(..) {
            self.schedule.add_new(job);
        }
        for job in news.jobs.drain(..) {
            self.schedule.add(job);
        }
    }

    fn path(&self) -> String {
        let namespace = self.namespace.as_deref();
        match &self.watched {
            Watched::Jobs => paths::jobs(namespace),
            Watched::Pods => paths::pods(namespace),
            Watched::CronJobs(_) => paths::cron_jobs(namespace),
            Watched::Gang(kind, gangs) => gangs.path(*kind, namespace),
        }
    }

    fn kind(&self) -> &'static str {
        self.watched.kind()
    }
}

fn odd_event(error: impl Display) -> ApiError {
    ApiError::no_answer(format!("odd event: {error}"))
}
