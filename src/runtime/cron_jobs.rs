//! Gives CronJobs their turns: what is known of them and of their Jobs, and the calls that a turn
//! makes.
//!
//! Fed by an informer of CronJobs and by the informer of Jobs that there is. A turn makes its calls one
//! after the other; turns of different CronJobs do not wait for each other.
//!
//! Must not: decide; that is [`CronJobSync`].

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    clock::Clock,
    cluster::Patch,
    cronjob::{Answer, CronJobSync, Effect, NewJob, Next, NotCreated, delay_after_change},
    model::{ChildJob, CronJobStatus, Exponential, JobKey, Report, Uid},
    ownership::Mode,
    wire::{
        self, ApiError, DecodedCronJob, DecodedJob, ErrorKind, decode_cron_job, decode_job, paths,
    },
};

use super::{
    correlate::About,
    events::{Recorder, Told},
    queue_metrics::QueueMetrics,
    turns::{After, Turns},
    writer::Writer,
};

#[cfg(test)]
mod tests;

/// The work queue's name.
pub(super) const QUEUE: &str = "cronjob";

/// How often all CronJobs are looked at, whether or not there is news of them. What is wrong with one is
/// told again, then; the Events of the time before are forgotten by the server within the hour.
const RESYNC: Duration = Duration::from_secs(12 * 3600);

/// See the module's text.
#[derive(Debug)]
pub(super) struct CronJobs {
    turns: Turns<JobKey>,
    recorder: Arc<Recorder>,
    mode: Mode,
    clock: Clock,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    cron_jobs: BTreeMap<JobKey, Cell>,
    /// The Jobs that name a CronJob as their controller, by its name: it may be another one by now.
    children: BTreeMap<JobKey, BTreeMap<Uid, ChildJob>>,
    /// Whose each of them is.
    parents: HashMap<Uid, Parent>,
}

/// A CronJob.
#[derive(Clone, Debug)]
struct Cell {
    decoded: Arc<DecodedCronJob>,
    told: Arc<Told>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parent {
    key: JobKey,
    uid: Uid,
}

impl Known {
    /// Whether a Job's CronJob is there, and still the same one.
    fn has(&self, parent: &Parent) -> bool {
        let cell = self.cron_jobs.get(&parent.key);
        cell.is_some_and(|cell| cell.decoded.cron_job.uid == parent.uid)
    }

    fn remove_job(&mut self, job: Uid) -> Option<Parent> {
        let parent = self.parents.remove(&job)?;
        if let Some(children) = self.children.get_mut(&parent.key) {
            children.remove(&job);
            if children.is_empty() {
                self.children.remove(&parent.key);
            }
        }
        Some(parent)
    }
}

impl CronJobs {
    pub(super) fn new(
        mode: Mode,
        backoff: Exponential,
        clock: Clock,
        recorder: Arc<Recorder>,
        metrics: QueueMetrics,
    ) -> Self {
        Self {
            turns: Turns::new(backoff, clock.clone(), metrics),
            recorder,
            mode,
            clock,
            known: Mutex::default(),
        }
    }

    /// Takes in a version of a CronJob; gives its UID and version.
    pub(super) fn apply(&self, json: &str) -> Result<(Uid, u64), serde_json::Error> {
        let decoded = decode_cron_job(json)?;
        let cron_job = &decoded.cron_job;
        let (key, seen) = (
            cron_job.key.clone(),
            (cron_job.uid, cron_job.resource_version),
        );
        let mut known = self.known.lock();
        if !self.mode.manages_jobs_of(cron_job) {
            known.cron_jobs.remove(&key);
            return Ok(seen);
        }
        let before = known.cron_jobs.get(&key);
        let same = before.filter(|cell| cell.decoded.cron_job.uid == seen.0);
        if same.is_some_and(|cell| cell.decoded.cron_job.resource_version >= seen.1) {
            return Ok(seen);
        }
        let (told, due) = match same {
            None => (Arc::default(), None),
            Some(cell) => {
                let (old, new) = (&cell.decoded.cron_job.spec, &cron_job.spec);
                let moved = old.schedule != new.schedule || old.time_zone != new.time_zone;
                let due = moved.then(|| delay_after_change(cron_job, self.clock.now().wall));
                (Arc::clone(&cell.told), due)
            }
        };
        let decoded = Arc::new(decoded);
        let cell = Cell {
            decoded,
            told: Arc::clone(&told),
        };
        known.cron_jobs.insert(key.clone(), cell);
        drop(known);
        match due {
            None | Some(Ok(Next::Nothing | Next::Retry)) => self.turns.add(key),
            Some(Ok(Next::At(due))) => self.turns.add_at(key, due),
            // It has no turn until there are other news of it.
            Some(Err(report)) => {
                let about = About::CronJob;
                self.recorder.tell(about, seen.0, &key, &told, report);
            }
        }
        Ok(seen)
    }

    /// Takes in that a CronJob is gone; gives its UID and last version.
    pub(super) fn delete(&self, json: &str) -> Result<(Uid, u64), serde_json::Error> {
        let cron_job = decode_cron_job(json)?.cron_job;
        let mut known = self.known.lock();
        let cell = known.cron_jobs.get(&cron_job.key);
        if cell.is_some_and(|cell| cell.decoded.cron_job.uid == cron_job.uid) {
            known.cron_jobs.remove(&cron_job.key);
        }
        Ok((cron_job.uid, cron_job.resource_version))
    }

    /// Takes in that a list showed these CronJobs and no others as of `version`.
    pub(super) fn retain(&self, namespace: Option<&str>, listed: &HashSet<Uid>, version: u64) {
        let mut known = self.known.lock();
        known.cron_jobs.retain(|key, cell| {
            let cron_job = &cell.decoded.cron_job;
            let covered = namespace.is_none_or(|namespace| key.namespace == namespace);
            let newer = cron_job.resource_version > version;
            !covered || newer || listed.contains(&cron_job.uid)
        });
    }

    /// Forgets all there is of a scope, Jobs included.
    pub(super) fn forget(&self, namespace: Option<&str>) {
        let mut known = self.known.lock();
        let stays = |key: &JobKey| namespace.is_some_and(|namespace| key.namespace != namespace);
        known.cron_jobs.retain(|key, _| stays(key));
        known.children.retain(|key, _| stays(key));
        known.parents.retain(|_, parent| stays(&parent.key));
    }

    /// Takes in a version of a Job.
    pub(super) fn job(&self, decoded: &DecodedJob) {
        let uid = decoded.job.uid;
        let parent = decoded
            .controller
            .as_ref()
            .filter(|owner| owner.kind == "CronJob");
        let parent = parent.map(|owner| Parent {
            key: JobKey {
                namespace: decoded.job.key.namespace.clone(),
                name: owner.name.clone(),
            },
            uid: owner.uid,
        });
        let mut known = self.known.lock();
        let before = known.parents.get(&uid).cloned();
        if before != parent
            && let Some(before) = known.remove_job(uid)
            && known.has(&before)
        {
            self.turns.add(before.key);
        }
        let Some(parent) = parent else { return };
        let children = known.children.entry(parent.key.clone()).or_default();
        children.insert(uid, wire::child_job(decoded));
        known.parents.insert(uid, parent.clone());
        if known.has(&parent) {
            self.turns.add(parent.key);
        }
    }

    /// Takes in that a Job is gone.
    pub(super) fn job_gone(&self, job: Uid) {
        let mut known = self.known.lock();
        if let Some(parent) = known.remove_job(job)
            && known.has(&parent)
        {
            self.turns.add(parent.key);
        }
    }

    /// Looks at all CronJobs again and again, for ever.
    pub(super) async fn resync(self: Arc<Self>) {
        loop {
            let due = self.clock.now().monotonic + RESYNC;
            self.clock.sleep_until(due).await;
            let known: Vec<JobKey> = self.known.lock().cron_jobs.keys().cloned().collect();
            known.into_iter().for_each(|key| self.turns.add(key));
        }
    }

    /// Works, for ever, once the caches are filled.
    pub(super) async fn run(self: Arc<Self>, writer: Writer, mut ready: watch::Receiver<bool>) {
        if ready.wait_for(|ready| *ready).await.is_err() {
            return;
        }
        loop {
            let key = self.turns.take().await;
            let after = self.turn(&key, &writer).await;
            self.turns.done(key, after);
        }
    }

    async fn turn(&self, key: &JobKey, writer: &Writer) -> After {
        let (cell, children) = {
            let known = self.known.lock();
            let Some(cell) = known.cron_jobs.get(key).cloned() else {
                return After::Over;
            };
            let children = known.children.get(key);
            let children = children.into_iter().flat_map(BTreeMap::values);
            (cell, children.cloned().collect())
        };
        let turn = Turn {
            cron_jobs: self,
            key,
            cell: &cell,
            writer,
        };
        let now = self.clock.now().wall;
        let mut sync = CronJobSync::new(cell.decoded.cron_job.clone(), children, now);
        loop {
            let answer = match sync.poll() {
                Effect::Over(Next::Nothing) => return After::Over,
                Effect::Over(Next::At(due)) => return After::At(due),
                Effect::Over(Next::Retry) => return After::Failed,
                Effect::Report(report) => {
                    turn.tell(report);
                    continue;
                }
                Effect::GetCronJob => turn.get_cron_job().await,
                Effect::GetJob(name) => turn.get_job(&name).await,
                Effect::DeleteJob(uid, name) => turn.delete_job(uid, &name).await,
                Effect::CreateJob(job) => turn.create_job(&job).await,
                Effect::WriteStatus(status, version) => turn.write_status(status, version).await,
            };
            sync.handle(answer);
        }
    }

    /// Takes in that the server has a status, as `version`, on top of another one: the watch may tell
    /// later. If what is known is another one still, its spec may be old, and the watch must tell.
    fn status_written(
        &self,
        (key, uid): (&JobKey, Uid),
        status: CronJobStatus,
        (on, version): (u64, u64),
    ) {
        let mut known = self.known.lock();
        if let Some(cell) = known.cron_jobs.get_mut(key)
            && cell.decoded.cron_job.uid == uid
            && cell.decoded.cron_job.resource_version == on
        {
            let decoded = Arc::make_mut(&mut cell.decoded);
            decoded.cron_job.status = status;
            decoded.cron_job.resource_version = version;
        }
    }
}

/// A turn under way.
struct Turn<'a> {
    cron_jobs: &'a CronJobs,
    key: &'a JobKey,
    cell: &'a Cell,
    writer: &'a Writer,
}

impl Turn<'_> {
    fn tell(&self, report: Report) {
        let uid = self.cell.decoded.cron_job.uid;
        let recorder = &self.cron_jobs.recorder;
        recorder.tell(About::CronJob, uid, self.key, &self.cell.told, report);
    }

    async fn get_cron_job(&self) -> Answer {
        let path = paths::cron_job(&self.key.namespace, &self.key.name);
        let client = &self.writer.client;
        match self
            .writer
            .call(self.whose(), "get", "cronjobs", || client.get(&path))
            .await
        {
            Ok(answer) => match decode_cron_job(&String::from_utf8_lossy(&answer)) {
                Ok(decoded) => Answer::CronJob(Box::new(decoded.cron_job)),
                Err(error) => Answer::Failed(error.to_string()),
            },
            Err(error) => refusal(&error),
        }
    }

    /// Whose turn its calls wait for.
    fn whose(&self) -> (&str, Uid) {
        (&self.key.namespace, self.cell.decoded.cron_job.uid)
    }

    async fn get_job(&self, name: &str) -> Answer {
        let path = paths::job(&self.key.namespace, name);
        let client = &self.writer.client;
        match self
            .writer
            .call(self.whose(), "get", "jobs", || client.get(&path))
            .await
        {
            Ok(answer) => match decode_job(&String::from_utf8_lossy(&answer)) {
                Ok(decoded) => Answer::Job {
                    uid: decoded.job.uid,
                    resource_version: decoded.job.resource_version,
                    controller: decoded.controller.map(|owner| owner.uid),
                },
                Err(error) => Answer::Failed(error.to_string()),
            },
            Err(error) => refusal(&error),
        }
    }

    async fn delete_job(&self, uid: Uid, name: &str) -> Answer {
        let path = paths::job(&self.key.namespace, name);
        let client = &self.writer.client;
        let options = wire::background_deletion(uid);
        let delete = || client.delete_with(&path, options.clone());
        match self
            .writer
            .call(self.whose(), "delete", "jobs", delete)
            .await
        {
            Ok(_) => Answer::Deleted,
            Err(error) => refusal(&error),
        }
    }

    async fn create_job(&self, job: &NewJob) -> Answer {
        let other = |why: String| Answer::NotCreated(NotCreated::Other(why));
        let body = match wire::job_of_cron_job(&self.cell.decoded, &job.name, &job.timestamp) {
            Ok(body) => body,
            Err(error) => return other(error.to_string()),
        };
        let path = paths::jobs(Some(&self.key.namespace));
        let client = &self.writer.client;
        let create = || client.create(&path, body.clone());
        match self
            .writer
            .call(self.whose(), "create", "jobs", create)
            .await
        {
            Ok(answer) => match wire::ack_of_write(&answer) {
                Some((uid, resource_version, _)) => {
                    let late = self.cron_jobs.clock.now().wall.since(job.scheduled);
                    self.writer
                        .metrics
                        .cron_job_skew
                        .observe(late.as_secs_f64());
                    Answer::Created {
                        uid,
                        resource_version,
                    }
                }
                // It is there, nobody knows as whom: the next look finds its name taken.
                None => Answer::NotCreated(NotCreated::NameTaken),
            },
            Err(error) => Answer::NotCreated(match error.kind {
                ErrorKind::AlreadyExists => NotCreated::NameTaken,
                ErrorKind::NamespaceTerminating => NotCreated::NamespaceTerminating,
                _ => return other(error.to_string()),
            }),
        }
    }

    async fn write_status(&self, status: CronJobStatus, version: u64) -> Answer {
        let (key, uid) = (self.key, self.cell.decoded.cron_job.uid);
        let path = paths::cron_job_status(&key.namespace, &key.name);
        let body = wire::cron_job_status_patch(key, uid, version, &status);
        let client = &self.writer.client;
        let patch = || client.patch(&path, Patch::Merge, body.clone());
        match self
            .writer
            .call(self.whose(), "patch", "cronjobs/status", patch)
            .await
        {
            Ok(answer) => {
                if let Some((_, written, _)) = wire::ack_of_write(&answer) {
                    let versions = (version, written);
                    self.cron_jobs.status_written((key, uid), status, versions);
                }
                Answer::StatusWritten
            }
            Err(error) => {
                tracing::debug!(cronjob = %key, %error, "status not written");
                refusal(&error)
            }
        }
    }
}

fn refusal(error: &ApiError) -> Answer {
    match error.kind {
        ErrorKind::NotFound => Answer::NotFound(error.to_string()),
        _ => Answer::Failed(error.to_string()),
    }
}
