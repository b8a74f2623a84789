//! Follows the given Jobs until they end.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use hashbrown::HashMap;
use serde_json::Value;

use crate::{
    client::{Client, Lines},
    clock::{Clock, instant},
    runtime::Options,
    wire::{ApiError, WatchEvent, decode_watch_line, paths},
};

use super::{
    look::look,
    standstill::{failures, list, text, unmanaged, why},
};

/// One of the given Jobs.
#[derive(Clone, Debug)]
pub(super) struct Followed {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// Number of Pods or indexes that must succeed.
    pub(super) wanted: u64,
    /// The status as last seen.
    pub(super) status: Value,
    started: Instant,
    /// Its duration, and true if it completed.
    pub(super) end: Option<(Duration, bool)>,
    /// Time of the last change of its status.
    changed: Instant,
    /// Reason why it makes no progress.
    pub(super) why: Option<String>,
    /// It names a controller that does not run here, so nothing will happen to it.
    pub(super) is_unmanaged: bool,
    /// Causes of its failed Pods, set once it has ended or is no longer awaited.
    pub(super) failures: Vec<String>,
}

impl Followed {
    /// Creates it from the server's answer to the creation, for a controller with these options.
    pub(super) fn new(job: &Value, options: &Options, started: Instant) -> Self {
        let text = |field: &str| text(&job["metadata"][field]).to_owned();
        let why = unmanaged(options, job);
        Self {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            wanted: job["spec"]["completions"].as_u64().unwrap_or(1),
            status: Value::Null,
            started,
            end: None,
            changed: started,
            is_unmanaged: why.is_some(),
            why,
            failures: Vec::new(),
        }
    }

    /// Returns a counter of the status.
    pub(super) fn count(&self, field: &str) -> u64 {
        self.status[field].as_u64().unwrap_or(0)
    }

    /// Returns its duration so far, or in total.
    pub(super) fn wall(&self) -> Duration {
        self.end
            .map_or_else(|| self.started.elapsed(), |(wall, _)| wall)
    }

    /// Returns true if its status says that it is suspended.
    pub(super) fn is_suspended(&self) -> bool {
        self.has_condition("Suspended")
    }

    fn has_condition(&self, kind: &str) -> bool {
        let mut conditions = list(&self.status["conditions"]);
        conditions.any(|it| it["type"] == kind && it["status"] == "True")
    }

    /// Returns true if its status has not changed for a while.
    fn stands_still(&self) -> bool {
        // A status is written rarely while Pods run, and they may run long.
        let patience = if self.count("active") > 0 { 3 } else { 1 };
        self.end.is_none() && self.changed.elapsed() >= QUIET * patience
    }

    fn see(&mut self, status: Value) {
        if self.status != status {
            self.changed = instant();
            self.why = None;
        }
        self.status = status;
        if self.end.is_none() {
            let is_complete = self.has_condition("Complete");
            if is_complete || self.has_condition("Failed") {
                self.end = Some((self.started.elapsed(), is_complete));
            }
        }
    }
}

/// All Jobs of the manifests, in their order.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) jobs: Vec<Followed>,
    by_uid: HashMap<String, usize>,
}

impl Following {
    pub(super) fn new(jobs: Vec<Followed>) -> Self {
        let by_uid = jobs.iter().enumerate();
        let by_uid = by_uid.map(|(at, job)| (job.uid.clone(), at)).collect();
        Self { jobs, by_uid }
    }

    /// Returns true once every Job has ended that a controller here works on.
    pub(super) fn is_over(&self) -> bool {
        self.jobs
            .iter()
            .all(|job| job.end.is_some() || job.is_unmanaged)
    }

    /// Returns true if every Job is Complete.
    pub(super) fn all_complete(&self) -> bool {
        self.jobs
            .iter()
            .all(|job| matches!(job.end, Some((_, true))))
    }

    /// Follows the Jobs until [`Self::is_over`]. Calls `show` after each change, and periodically.
    pub(super) async fn run(
        &mut self,
        client: &Client,
        options: &Options,
        mut show: impl FnMut(&Self),
    ) -> Result<(), ApiError> {
        let mut next_look = instant() + QUIET;
        while !self.is_over() {
            let path = format!("{}?watch=true&resourceVersion=0", paths::jobs(None));
            let mut pieces = client.watch(&path).await?;
            let mut lines = Lines::default();
            let mut tick = tokio::time::interval(TICK);
            while !self.is_over() {
                tokio::select! {
                    piece = pieces.next() => {
                        let Some(piece) = piece else { break };
                        lines.push(&piece?, |line| self.take_in(line))?;
                    }
                    _ = tick.tick() => {}
                }
                let now = instant();
                if now >= next_look {
                    self.find_reasons(client, options).await;
                    // Limits these requests to a small part of the time, however long they take.
                    next_look = instant() + QUIET.max(now.elapsed() * 20);
                }
                show(self);
            }
        }
        Ok(())
    }

    /// Updates the reasons why Jobs make no progress. A failed request does not end the run.
    async fn find_reasons(&mut self, client: &Client, options: &Options) {
        let still = self.jobs.iter_mut().filter(|job| job.stands_still());
        for job in still.take(MOST_ASKED) {
            if let Ok(objects) = look(client, job).await {
                job.why = why(options, &objects, Clock::default().now().wall);
            }
        }
    }

    /// Reads the Jobs once more at the end: why they have not ended, and the causes of failures.
    pub(super) async fn conclude(&mut self, client: &Client, options: &Options) {
        let odd = |job: &&mut Followed| {
            let complete = matches!(job.end, Some((_, true)));
            !complete || job.count("failed") > 0
        };
        for job in self.jobs.iter_mut().filter(odd).take(MOST_ASKED) {
            let Ok(objects) = look(client, job).await else {
                continue;
            };
            job.failures = failures(&objects.pods);
            if job.end.is_none() {
                job.why = why(options, &objects, Clock::default().now().wall);
            }
        }
    }

    fn take_in(&mut self, line: &[u8]) -> Result<(), ApiError> {
        let odd = |error: serde_json::Error| ApiError::no_answer(format!("invalid event: {error}"));
        match decode_watch_line(line).map_err(odd)? {
            WatchEvent::Applied(job) | WatchEvent::Deleted(job) => {
                let mut job: Value = job.json().and_then(serde_json::from_str).map_err(odd)?;
                if let Some(at) = self.by_uid.get(text(&job["metadata"]["uid"])) {
                    self.jobs[*at].see(job["status"].take());
                }
                Ok(())
            }
            WatchEvent::Bookmark(_) => Ok(()),
            WatchEvent::Error(error) => Err(error),
        }
    }
}

/// Time without a change after which the reason is looked up.
const QUIET: Duration = Duration::from_secs(1);

/// Maximum number of Jobs that are read for reasons: a user reads no more.
const MOST_ASKED: usize = 16;

/// Interval at which progress is shown without a change.
const TICK: Duration = Duration::from_millis(200);
