//! Follows the Jobs that were given, to their ends.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use hashbrown::HashMap;
use serde_json::Value;

use crate::{
    cluster::{Client, Lines},
    wire::{ApiError, WatchEvent, decode_watch_line, paths},
};

/// One of the Jobs that were given.
#[derive(Clone, Debug)]
pub(super) struct Followed {
    pub(super) namespace: String,
    pub(super) name: String,
    uid: String,
    /// How many Pods or indexes must succeed.
    pub(super) wanted: u64,
    /// The status as last seen.
    pub(super) status: Value,
    started: Instant,
    /// How long it took, and whether it ended well.
    pub(super) end: Option<(Duration, bool)>,
}

impl Followed {
    /// A Job that was just created, as the server answered.
    pub(super) fn new(job: &Value, started: Instant) -> Self {
        let text = |field: &str| {
            job["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            wanted: job["spec"]["completions"].as_u64().unwrap_or(1),
            status: Value::Null,
            started,
            end: None,
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

    fn see(&mut self, status: Value) {
        self.status = status;
        if self.end.is_none() {
            let is_true = |kind: &str| {
                let conditions = self.status["conditions"].as_array();
                conditions
                    .into_iter()
                    .flatten()
                    .any(|condition| condition["type"] == kind && condition["status"] == "True")
            };
            if is_true("Complete") || is_true("Failed") {
                self.end = Some((self.started.elapsed(), is_true("Complete")));
            }
        }
    }
}

/// All the Jobs that were given, in their order.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) jobs: Vec<Followed>,
    by_uid: HashMap<String, usize>,
}

impl Following {
    pub(super) fn new(jobs: Vec<Followed>) -> Self {
        let by_uid = jobs
            .iter()
            .enumerate()
            .map(|(at, job)| (job.uid.clone(), at))
            .collect();
        Self { jobs, by_uid }
    }

    /// Whether every Job has ended.
    pub(super) fn is_over(&self) -> bool {
        self.jobs.iter().all(|job| job.end.is_some())
    }

    /// Whether every Job has ended well.
    pub(super) fn all_complete(&self) -> bool {
        self.jobs
            .iter()
            .all(|job| matches!(job.end, Some((_, true))))
    }

    /// Follows the Jobs until all have ended, telling `tell` what is new, and now and then though
    /// nothing is.
    pub(super) async fn run(
        &mut self,
        client: &Client,
        mut tell: impl FnMut(&Self),
    ) -> Result<(), ApiError> {
        while !self.is_over() {
            let path = format!("{}?watch=true&resourceVersion=0", paths::jobs(None));
            let mut pieces = client.watch(&path).await?;
            let mut lines = Lines::default();
            let mut tick = tokio::time::interval(TICK);
            while !self.is_over() {
                tokio::select! {
                    piece = pieces.next() => {
                        let Some(piece) = piece else { break };
                        lines.push(&piece?, |line| self.hear(line))?;
                    }
                    _ = tick.tick() => {}
                }
                tell(self);
            }
        }
        Ok(())
    }

    fn hear(&mut self, line: &[u8]) -> Result<(), ApiError> {
        let odd = |error: serde_json::Error| ApiError::no_answer(format!("odd event: {error}"));
        match decode_watch_line(line).map_err(odd)? {
            WatchEvent::Applied(job) | WatchEvent::Deleted(job) => {
                let mut job: Value = job.json().and_then(serde_json::from_str).map_err(odd)?;
                let uid = job["metadata"]["uid"].as_str().unwrap_or_default();
                if let Some(at) = self.by_uid.get(uid) {
                    self.jobs[*at].see(job["status"].take());
                }
                Ok(())
            }
            WatchEvent::Bookmark(_) => Ok(()),
            WatchEvent::Error(error) => Err(error),
        }
    }
}

/// How often there is something to tell, though nothing happened.
const TICK: Duration = Duration::from_millis(200);
