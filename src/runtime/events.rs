//! Events on Jobs, for people: `kubectl describe job` shows them.
//!
//! They are sent when there is time, and dropped rather than waited for. How many there are of a
//! Job is limited by its [`Correlator`]; one that was told before is patched, not made anew. Several are
//! sent at once, those of one Job one after the other; news of a Job go before those of its Pods.

use std::{sync::Arc, time::Instant};

use crossbeam::queue::ArrayQueue;
use futures::future::join_all;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

use crate::{
    clock::{Clock, instant},
    cluster::{Client, Patch},
    decide::{Report, Severity},
    model::{JobKey, Uid},
    ownership::Mode,
    wire::{ApiError, ErrorKind, paths},
};

use super::{
    correlate::{About, Correlator, Telling},
    metrics::Metrics,
    throttle::Throttle,
};

/// How many events are sent at once: a busy server takes some hundred milliseconds for each, and sixty Jobs
/// that end in one second have their four told within ten.
const AT_ONCE: usize = 8;

/// How many events may wait in one line: all Jobs together have about eight thousand.
const WAITING_MAX: usize = 512;

/// What was told of a Job.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<Correlator>);

/// Sends events in the background.
#[derive(Debug)]
pub(super) struct Recorder {
    /// What events on Jobs name as their source.
    component: &'static str,
    /// What events on CronJobs name as theirs.
    cron_job_component: &'static str,
    lanes: [Lane; AT_ONCE],
    clock: Clock,
    metrics: Arc<Metrics>,
}

/// Events that are sent one after the other.
#[derive(Debug)]
struct Lane {
    of_jobs: ArrayQueue<Waiting>,
    of_pods: ArrayQueue<Waiting>,
    ready: Notify,
}

impl Lane {
    fn new() -> Self {
        Self {
            of_jobs: ArrayQueue::new(WAITING_MAX),
            of_pods: ArrayQueue::new(WAITING_MAX),
            ready: Notify::new(),
        }
    }

    fn pop(&self) -> Option<Waiting> {
        self.of_jobs.pop().or_else(|| self.of_pods.pop())
    }

    fn is_empty(&self) -> bool {
        self.of_jobs.is_empty() && self.of_pods.is_empty()
    }
}

#[derive(Debug)]
struct Waiting {
    about: About,
    uid: Uid,
    key: JobKey,
    telling: Telling,
    since: Instant,
}

impl Recorder {
    pub(super) fn new(mode: &Mode, clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self {
            component: mode.component(),
            cron_job_component: mode.cron_job_component(),
            lanes: std::array::from_fn(|_| Lane::new()),
            clock,
            metrics,
        }
    }

    /// Queues news of a Job, if they may be told.
    pub(super) fn tell(&self, about: About, uid: Uid, key: &JobKey, told: &Told, report: Report) {
        let telling = told.0.lock().hear(about, report, self.clock.now());
        let Some(telling) = telling else { return };
        let event = Waiting {
            about,
            uid,
            key: key.clone(),
            telling,
            since: instant(),
        };
        let lane = &self.lanes[uid.as_u128() as usize % AT_ONCE];
        let waiting = match about {
            About::Job | About::CronJob => &lane.of_jobs,
            About::Pod => &lane.of_pods,
        };
        if waiting.force_push(event).is_some() {
            self.metrics.events_dropped.inc();
        }
        lane.ready.notify_one();
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(Lane::is_empty)
    }

    /// Takes the first report that waits.
    #[cfg(test)]
    pub(super) fn take_report(&self) -> Option<Report> {
        let mut waiting = self.lanes.iter().filter_map(Lane::pop);
        waiting.next().map(|event| event.telling.report)
    }

    /// Sends what is queued, for ever.
    pub(super) async fn run(&self, client: Client, throttle: Arc<Throttle>) {
        let lanes = self.lanes.iter();
        join_all(lanes.map(|lane| self.run_lane(lane, &client, &throttle))).await;
    }

    async fn run_lane(&self, lane: &Lane, client: &Client, throttle: &Throttle) {
        loop {
            while let Some(event) = lane.pop() {
                if let Err(error) = self.send(&event, client, throttle).await {
                    tracing::debug!(job = %event.key, %error, "event not recorded");
                }
                let late = event.since.elapsed();
                self.metrics.event_delay.observe(late.as_secs_f64());
            }
            lane.ready.notified().await;
        }
    }

    /// Tells the server of an Event: by a patch of the one that it knows, or as a new one.
    async fn send(
        &self,
        event: &Waiting,
        client: &Client,
        throttle: &Throttle,
    ) -> Result<(), ApiError> {
        let name = event.name();
        if event.telling.count > 1 {
            throttle.pass().await;
            let path = paths::event(&event.key.namespace, &name);
            let known = client.patch(&path, Patch::Strategic, event.patch()).await;
            self.metrics.call("patch", "events", code(&known));
            match known {
                // It is no more, or never came to be.
                Err(error) if error.kind == ErrorKind::NotFound => {}
                other => return other.map(drop),
            }
        }
        throttle.pass().await;
        let path = paths::events(&event.key.namespace);
        let component = match event.about {
            About::Job | About::Pod => self.component,
            About::CronJob => self.cron_job_component,
        };
        let made = client.create(&path, event.body(&name, component)).await;
        self.metrics.call("create", "events", code(&made));
        made.map(drop)
    }
}

fn code<T>(result: &Result<T, ApiError>) -> u16 {
    result.as_ref().map_or_else(|error| error.code, |_| 200)
}

impl Waiting {
    /// A name that differs from those of other events of the Job, before a restart or after.
    fn name(&self) -> String {
        let first = u64::try_from(self.telling.first.as_millis()).unwrap_or(0);
        let unique = first << 20 | u64::from(self.telling.number & 0xf_ffff);
        // A Job's name is of ASCII letters only.
        let name = &self.key.name[..self.key.name.len().min(230)];
        format!("{name}.{unique:x}")
    }

    fn patch(&self) -> Vec<u8> {
        let body = json!({
            "count": self.telling.count,
            "lastTimestamp": self.telling.last.to_rfc3339(),
            "message": self.telling.report.message,
        });
        body.to_string().into_bytes()
    }

    fn body(&self, name: &str, component: &str) -> Vec<u8> {
        let Self {
            about,
            uid,
            key,
            telling,
            since: _,
        } = self;
        let kind = match about {
            About::Job | About::Pod => "Job",
            About::CronJob => "CronJob",
        };
        let severity = match telling.report.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        let body = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": key.namespace.as_str()},
            "involvedObject": {
                "apiVersion": "batch/v1",
                "kind": kind,
                "namespace": key.namespace.as_str(),
                "name": key.name.as_str(),
                "uid": uid.to_string(),
            },
            "type": severity,
            "reason": telling.report.reason,
            "message": telling.report.message,
            "source": {"component": component},
            "reportingComponent": component,
            "firstTimestamp": telling.first.to_rfc3339(),
            "lastTimestamp": telling.last.to_rfc3339(),
            "count": telling.count,
        });
        body.to_string().into_bytes()
    }
}
