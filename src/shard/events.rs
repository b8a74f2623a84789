//! Events on Jobs, for people: `kubectl describe job` shows them.
//!
//! They are sent when there is time, and dropped rather than waited for. How many there are of a
//! Job is limited by its [`Correlator`]; one that was told before is patched, not made anew. Several are
//! sent at once, those of one Job one after the other; news of a Job go before those of its Pods.
//!
//! Must not: send anything, or read a clock.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use serde_json::json;

use crate::{
    decide::{Report, Severity},
    flow::BATCH,
    machine::CallResult,
    metrics::Metrics,
    model::{JobKey, Monotonic, Now, Uid},
    ownership::Mode,
    wire::{Call, ErrorKind, ExpectedAnswer, Patch, paths},
};

use super::{
    correlate::{About, Correlator, Telling},
    outbox::Named,
};

/// How many events may wait in one queue: some four megabytes in all. client-go's `maxQueuedEvents` is 1,000
/// for all.
const WAITING_MAX: usize = 512;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Recorder {
    /// What events on Jobs name as their source.
    component: &'static str,
    /// What events on CronJobs name as theirs.
    cron_job_component: &'static str,
    /// A batch is under way at once: a busy server takes some hundred milliseconds for each, and sixty Jobs that end
    /// in one second have their four Events told within ten.
    queues: [Queue; BATCH],
    /// How many events wait.
    waiting: usize,
    /// How many are under way.
    under_way: usize,
    metrics: Arc<Metrics>,
}

/// Events that are sent one after the other.
#[derive(Debug, Default)]
struct Queue {
    of_jobs: VecDeque<WaitingEvent>,
    of_pods: VecDeque<WaitingEvent>,
    /// One that is to be made, as there was none to patch.
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

/// An event that is under way.
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

    /// Queues news of a Job, if they may be told.
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

    /// Whether one waits that may be sent.
    pub(super) fn has_something(&self) -> bool {
        self.waiting > 0 && self.under_way < BATCH
    }

    /// Whether any waits or is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0 && self.under_way == 0
    }

    #[cfg(test)]
    pub(super) fn take_report(&mut self) -> Option<Report> {
        let event = self.queues.iter_mut().find_map(Queue::pop)?;
        self.waiting -= 1;
        Some(event.telling.report)
    }

    /// Gives the next call: a patch of the Event that the server knows, or a new one.
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

    /// Takes in an answer; gives how long the Event has waited, if that was the end of it.
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
                // It is no more, or never came to be.
                queue.again = Some(event);
                self.waiting += 1;
                return None;
            }
            tracing::debug!(job = %event.key, %error, "event not recorded");
        }
        Some(now.since(event.since))
    }
}

impl WaitingEvent {
    /// A name that differs from those of other events of the Job, before a restart or after, and from those of
    /// another controller at the same moment.
    fn name(&self) -> String {
        let first = u64::try_from(self.telling.first.as_millis()).unwrap_or(0);
        let unique = first << 20 | u64::from(self.telling.number & 0xf_ffff);
        let fingerprint = self.telling.fingerprint;
        // A Job's name is of ASCII letters only.
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
