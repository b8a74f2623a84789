//! Sends Events on Jobs and CronJobs, as shown by `kubectl describe job`.
//!
//! Events are best effort: they are sent when there is capacity, and dropped rather than waited for. The [`Correlator`]
//! limits the Events of a Job. A repeated Event is patched, not created. Several are sent at once, those of one Job in
//! order. Events about a Job go before those about its Pods.
//!
//! Must not: send anything, or read a clock.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use serde_json::json;

use lakh_core::decide::{Report, Severity};
use lakh_core::flow::BATCH;
use lakh_core::ownership::Mode;
use lakh_model::{JobKey, Monotonic, Now, Uid};
use lakh_wire::{Call, ErrorKind, ExpectedAnswer, Patch, paths};

use crate::{machine::CallResult, metrics::Metrics};

use super::{
    correlate::{About, Correlator, Telling},
    outbox::Named,
};

/// The maximum number of Events in one queue: about 4 MB for all queues. client-go's `maxQueuedEvents` is 1,000 for
/// all.
const WAITING_MAX: usize = 512;

/// The queues of Events to send, and those in flight.
#[derive(Debug)]
pub(super) struct Recorder {
    /// Source component of Events on Jobs.
    component: &'static str,
    /// Source component of Events on CronJobs.
    cron_job_component: &'static str,
    /// One batch is in flight at once: a busy server takes some hundred milliseconds per Event. With 60 Jobs that end
    /// in one second, their four Events each are sent within ten seconds.
    queues: [Queue; BATCH],
    /// The number of queued Events.
    waiting: usize,
    /// The number of Events in flight.
    under_way: usize,
    metrics: Arc<Metrics>,
}

/// Events that are sent one after the other.
#[derive(Debug, Default)]
struct Queue {
    of_jobs: VecDeque<WaitingEvent>,
    of_pods: VecDeque<WaitingEvent>,
    /// An Event to create, because the patch found none.
    again: Option<WaitingEvent>,
    is_busy: bool,
}

impl Queue {
    fn pop(&mut self) -> Option<WaitingEvent> {
        self.of_jobs
            .pop_front()
            .or_else(|| self.of_pods.pop_front())
    }
}

#[derive(Debug)]
struct WaitingEvent {
    about: About,
    uid: Uid,
    key: JobKey,
    telling: Telling,
    since: Monotonic,
}

/// An Event in flight.
#[derive(Debug)]
pub(super) struct Sending {
    queue: usize,
    event: WaitingEvent,
    is_patch: bool,
}

impl Recorder {
    pub(super) fn new(mode: &Mode, metrics: Arc<Metrics>) -> Self {
        Self {
            component: mode.component(),
            cron_job_component: mode.cron_job_component(),
            queues: Default::default(),
            waiting: 0,
            under_way: 0,
            metrics,
        }
    }

    /// Queues an Event, unless the correlator suppresses it.
    pub(super) fn tell(
        &mut self,
        about: About,
        uid: Uid,
        key: &JobKey,
        told: &mut Correlator,
        report: Report,
        now: Now,
    ) {
        let Some(telling) = told.hear(about, report, now) else {
            return;
        };
        let event = WaitingEvent {
            about,
            uid,
            key: key.clone(),
            telling,
            since: now.monotonic,
        };
        let queue = &mut self.queues[uid.as_u128() as usize % BATCH];
        let waiting = match about {
            About::Job | About::CronJob => &mut queue.of_jobs,
            About::Pod => &mut queue.of_pods,
        };
        self.waiting += 1;
        if waiting.len() == WAITING_MAX {
            waiting.pop_front();
            self.waiting -= 1;
            self.metrics.events_dropped.inc();
        }
        waiting.push_back(event);
    }

    /// Returns true if an Event may be sent now.
    pub(super) fn has_something(&self) -> bool {
        self.waiting > 0 && self.under_way < BATCH
    }

    /// Returns true if no Event is queued or in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0 && self.under_way == 0
    }

    #[cfg(test)]
    pub(super) fn take_report(&mut self) -> Option<Report> {
        let event = self.queues.iter_mut().find_map(Queue::pop)?;
        self.waiting -= 1;
        Some(event.telling.report)
    }

    /// Returns the next request: a patch if the Event was sent before, otherwise a creation.
    pub(super) fn poll(&mut self) -> Option<(Sending, Named)> {
        let idle = self.queues.iter_mut().enumerate();
        let mut idle = idle.filter(|(_, queue)| !queue.is_busy);
        let (at, event, is_patch) = idle.find_map(|(at, queue)| {
            if let Some(event) = queue.again.take() {
                return Some((at, event, false));
            }
            let event = queue.pop()?;
            let is_patch = event.telling.count > 1;
            Some((at, event, is_patch))
        })?;
        self.queues[at].is_busy = true;
        self.waiting -= 1;
        self.under_way += 1;
        let name = event.name();
        let namespace = &event.key.namespace;
        let expected = ExpectedAnswer::Named(name.as_str().into());
        let named = match is_patch {
            true => {
                let path = paths::event(namespace, &name);
                let patch = Call::patch(path, Patch::Strategic, event.patch());
                Named::new("patch", "events", patch, expected)
            }
            false => {
                let component = match event.about {
                    About::Job | About::Pod => self.component,
                    About::CronJob => self.cron_job_component,
                };
                let body = event.body(&name, component);
                let create = Call::create(paths::events(namespace), body);
                Named::new("create", "events", create, expected)
            }
        };
        let sending = Sending {
            queue: at,
            event,
            is_patch,
        };
        Some((sending, named))
    }

    /// Handles a response. Returns the Event's latency, queueing included, unless the Event is sent again.
    pub(super) fn answered(
        &mut self,
        sending: Sending,
        result: &CallResult,
        now: Monotonic,
    ) -> Option<Duration> {
        let queue = &mut self.queues[sending.queue];
        queue.is_busy = false;
        self.under_way -= 1;
        let event = sending.event;
        if let Err(error) = result {
            if sending.is_patch && error.kind == ErrorKind::NotFound {
                // The Event has expired, or was never created.
                queue.again = Some(event);
                self.waiting += 1;
                return None;
            }
            tracing::debug!(job = %event.key, %error, "could not record an Event");
        }
        Some(now.since(event.since))
    }
}

impl WaitingEvent {
    /// Returns a name that differs from the other Events of the Job, also across restarts, and from those of another
    /// controller at the same moment.
    fn name(&self) -> String {
        let first = u64::try_from(self.telling.first.as_millis()).unwrap_or(0);
        let unique = first << 20 | u64::from(self.telling.number & 0xf_ffff);
        let fingerprint = self.telling.fingerprint;
        // A Job's name has ASCII characters only.
        let name = &self.key.name[..self.key.name.len().min(230)];
        format!("{name}.{unique:x}{fingerprint:06x}")
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
        let (key, telling) = (&self.key, &self.telling);
        let kind = match self.about {
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
                "uid": self.uid.to_string(),
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
