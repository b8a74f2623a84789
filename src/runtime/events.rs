//! Events on Jobs, for people: `kubectl describe job` shows them.
//!
//! They are sent when there is time, and dropped rather than waited for. A Job may send 25 at
//! once and one every five minutes after that, as the standard client does; the last few of the 25
//! are kept for the Job's own news, so that a hundred thousand creations do not hide how it ended.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crossbeam::queue::ArrayQueue;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

use crate::{
    cluster::Client,
    decide::{Report, Severity},
    model::{JobKey, Time, Uid},
    wire::paths,
};

use super::{clock, metrics::Metrics, throttle::Throttle};

/// Events a Job may send at once.
const BURST: u32 = 25;

/// How many of them are kept for news of the Job as a whole.
const RESERVED: u32 = 10;

/// How long it takes until one more may be sent.
const REFILL: Duration = Duration::from_secs(300);

/// How many events may wait to be sent, of all Jobs together.
const WAITING_MAX: usize = 4096;

/// How many more events a Job may send.
#[derive(Debug, Default)]
pub(super) struct EventBudget(Mutex<Spent>);

#[derive(Debug, Default)]
struct Spent {
    count: u32,
    refilled_at: Time,
}

impl EventBudget {
    fn spend(&self, most: u32, now: Time) -> bool {
        let mut spent = self.0.lock();
        while spent.count > 0 && now.since(spent.refilled_at) >= REFILL {
            spent.count -= 1;
            spent.refilled_at = spent.refilled_at + REFILL;
        }
        if spent.count == 0 {
            spent.refilled_at = now;
        }
        let may = spent.count < most;
        spent.count += u32::from(may);
        may
    }
}

/// Sends events in the background.
#[derive(Debug)]
pub(super) struct Recorder {
    /// What events name as their source.
    component: &'static str,
    waiting: ArrayQueue<Waiting>,
    ready: Notify,
    sent: AtomicU64,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Waiting {
    uid: Uid,
    key: JobKey,
    report: Report,
    at: Time,
}

impl Recorder {
    pub(super) fn new(component: &'static str, metrics: Arc<Metrics>) -> Self {
        Self {
            component,
            waiting: ArrayQueue::new(WAITING_MAX),
            ready: Notify::new(),
            sent: AtomicU64::new(0),
            metrics,
        }
    }

    /// Queues news of a Job as a whole.
    pub(super) fn job(&self, uid: Uid, key: &JobKey, budget: &EventBudget, report: Report) {
        if budget.spend(BURST, clock::now()) {
            self.queue(uid, key, report);
        }
    }

    /// Queues news of one of a Job's Pods; the report is only made if it may be sent.
    pub(super) fn pod(
        &self,
        uid: Uid,
        key: &JobKey,
        budget: &EventBudget,
        report: impl FnOnce() -> Report,
    ) {
        if budget.spend(BURST - RESERVED, clock::now()) {
            self.queue(uid, key, report());
        }
    }

    fn queue(&self, uid: Uid, key: &JobKey, report: Report) {
        let event = Waiting {
            uid,
            key: key.clone(),
            report,
            at: clock::now(),
        };
        if self.waiting.force_push(event).is_some() {
            self.metrics.events_dropped.inc();
        }
        self.ready.notify_one();
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Sends what is queued, for ever.
    pub(super) async fn run(&self, client: Client, throttle: Arc<Throttle>) {
        loop {
            while let Some(event) = self.waiting.pop() {
                throttle.pass().await;
                let count = self.sent.fetch_add(1, Ordering::Relaxed);
                let path = paths::events(&event.key.namespace);
                if let Err(error) = client
                    .create(&path, body(&event, count, self.component))
                    .await
                {
                    tracing::debug!(job = %event.key, %error, "event not recorded");
                }
            }
            self.ready.notified().await;
        }
    }
}

fn body(event: &Waiting, count: u64, component: &str) -> Vec<u8> {
    let at = event.at.to_rfc3339();
    let key = &event.key;
    let severity = match event.report.severity {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    };
    // A name that differs from those of other events of the Job, before a restart or after.
    let unique = u64::try_from(event.at.as_millis()).unwrap_or(0) << 20 | (count & 0xf_ffff);
    let name_part = &key.name[..key.name.len().min(230)];
    let body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{name_part}.{unique:x}"), "namespace": key.namespace.as_str()},
        "involvedObject": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "namespace": key.namespace.as_str(),
            "name": key.name.as_str(),
            "uid": event.uid.to_string(),
        },
        "type": severity,
        "reason": event.report.reason,
        "message": event.report.message,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    });
    serde_json::to_vec(&body).expect("a JSON tree always serializes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_creations_leave_room_for_the_end() {
        let budget = EventBudget::default();
        let now = Time::from_secs(1000);
        let created = (0..1000)
            .filter(|_| budget.spend(BURST - RESERVED, now))
            .count();
        assert_eq!(created, 15);
        let own = (0..1000).filter(|_| budget.spend(BURST, now)).count();
        assert_eq!(own, 10);
        assert!(!budget.spend(BURST, now + Duration::from_secs(299)));
        assert!(budget.spend(BURST, now + Duration::from_secs(300)));
    }
}
