//! Follows the Jobs that were given, to their ends.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use hashbrown::HashMap;
use serde_json::Value;

use crate::{
    clock::{Clock, instant},
    cluster::{Client, Lines},
    runtime::Options,
    wire::{ApiError, WatchEvent, decode_watch_line, paths},
};

use super::{
    look::look,
    standstill::{failures, list, text, unmanaged, why},
};

/// One of the Jobs that were given.
#[derive(Clone, Debug)]
pub(super) struct Followed {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// How many Pods or indexes must succeed.
    pub(super) wanted: u64,
    /// The status as last seen.
    pub(super) status: Value,
    started: Instant,
    /// How long it took, and whether it ended well.
    pub(super) end: Option<(Duration, bool)>,
    /// When its status last changed.
    changed: Instant,
    /// Why it stands still, if it does.
    pub(super) why: Option<String>,
    /// It names a controller that does not run here, so nothing will become of it.
    pub(super) is_unmanaged: bool,
    /// What its failed Pods ended with, once it has ended or nobody waits any longer.
    pub(super) failures: Vec<String>,
}

impl Followed {
    /// A Job that was just created, as the server answered, for a controller of these options.
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

    /// A counter of the status.
    pub(super) fn count(&self, field: &str) -> u64 {
        self.status[field].as_u64().unwrap_or(0)
    }

    /// How long it has taken so far, or took.
    pub(super) fn wall(&self) -> Duration {
        self.end
            .map_or_else(|| self.started.elapsed(), |(wall, _)| wall)
    }

    /// True if its status says that it is suspended.
    pub(super) fn is_suspended(&self) -> bool {
        self.has_condition("Suspended")
    }

    fn has_condition(&self, kind: &str) -> bool {
        let mut conditions = list(&self.status["conditions"]);
        conditions.any(|it| it["type"] == kind && it["status"] == "True")
    }

    /// Whether its status has not changed for a while.
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

    /// Returns true once every Job has ended that a controller works on here.
    pub(super) fn is_over(&self) -> bool {
        self.jobs
            .iter()
            .all(|job| job.end.is_some() || job.is_unmanaged)
    }

    /// Whether every Job has ended well.
    pub(super) fn all_complete(&self) -> bool {
        self.jobs
            .iter()
            .all(|job| matches!(job.end, Some((_, true))))
    }

    /// Follows the Jobs until [`Self::is_over`]. Calls `show` after each change, and now and then without one.
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
                    // However long it takes, it is a small part of the time.
                    next_look = instant() + QUIET.max(now.elapsed() * 20);
                }
                show(self);
            }
        }
        Ok(())
    }

    /// Looks for the reason why Jobs make no progress. A failed request is no reason to end.
    async fn find_reasons(&mut self, client: &Client, options: &Options) {
        let still = self.jobs.iter_mut().filter(|job| job.stands_still());
        for job in still.take(MOST_ASKED) {
            if let Ok(objects) = look(client, job).await {
                job.why = why(options, &objects, Clock::default().now().wall);
            }
        }
    }

    /// Looks once more at the end: why Jobs have not ended, and what failed.
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
        let odd = |error: serde_json::Error| ApiError::no_answer(format!("odd event: {error}"));
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

/// How long nothing may happen before the reason is looked for.
const QUIET: Duration = Duration::from_secs(1);

/// The most Jobs that are looked at: nobody reads more reasons.
const MOST_ASKED: usize = 16;

/// How often progress is shown, though nothing happened.
const TICK: Duration = Duration::from_millis(200);
