//! Hands a shard's namespaces over: finishes the requests in flight, starts none, and reports when that is done. Then
//! another process may write to these namespaces.
//!
//! Must not: know the other process, or when it may begin.

use std::time::Duration;

use lakh_model::{Monotonic, Timeout};

use crate::machine::Request;

use super::{Shard, outbox::Outbox};

/// Time for queued Events, as at the end of the process.
const EVENTS_PATIENCE: Duration = Duration::from_millis(500);

/// A handover in progress.
#[derive(Debug)]
pub(super) struct Retirement {
    /// Number of the handover, for the report of its end.
    number: u64,
    /// Time of the first poll.
    since: Option<Monotonic>,
    step: RetirementStep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetirementStep {
    /// Requests are in flight.
    Finishes,
    /// None is in flight, and that is not reported yet.
    Over,
    Told,
}

impl Retirement {
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            since: None,
            step: RetirementStep::Finishes,
        }
    }

    /// Returns the next request to finish. The handover is done once there is none and none is in flight.
    pub(super) fn poll_request(&mut self, outbox: &mut Outbox, now: Monotonic) -> Option<Request> {
        if self.step != RetirementStep::Finishes {
            return None;
        }
        let since = *self.since.get_or_insert(now);
        let events_may_go = now < since + EVENTS_PATIENCE;
        let request = outbox.poll_rest(events_may_go, now);
        let are_events_told = outbox.events.is_empty() || !events_may_go;
        if request.is_none() && outbox.is_idle() && are_events_told {
            self.step = RetirementStep::Over;
        }
        request
    }

    pub(super) fn poll_timeout(&self) -> Timeout {
        match (self.step, self.since) {
            (RetirementStep::Finishes, Some(since)) => (since + EVENTS_PATIENCE).into(),
            _ => Timeout::default(),
        }
    }
}

impl Shard {
    /// Returns the number of a finished handover, once.
    pub fn poll_retired(&mut self) -> Option<u64> {
        let retirement = self.retirement.as_mut()?;
        let is_over = retirement.step == RetirementStep::Over;
        is_over.then(|| {
            retirement.step = RetirementStep::Told;
            retirement.number
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{
        Settings,
        tests::{POST_POD, World, job},
    };
    use super::*;
    use crate::{
        informer::{Change, Extent, Kind, Kinds, News, Notice, Observed},
        shard::Controllers,
    };
    use lakh_wire::decode_cron_job;

    /// Returns a shard that may write for a minute.
    fn elected() -> World {
        let mut world = World::with(Settings {
            is_elected: true,
            ..Settings::of_jobs(2)
        });
        lead(&mut world);
        world
    }

    fn lead(world: &mut World) {
        let until = world.now.monotonic + Duration::from_secs(60);
        world.shard.notice(&Notice::Lead(until));
    }

    #[test]
    fn what_is_under_way_is_finished_and_nothing_else_begins() {
        let mut world = elected();
        world.hear_job(&job(6, &json!({"parallelism": 4, "completions": 4})));
        let (first, _) = world.wait_for(POST_POD);
        world.shard.notice(&Notice::Retire(7));
        assert!(world.asked().is_none());
        assert_eq!(world.shard.poll_retired(), None, "a write is under way");
        world.done(&first);
        assert!(world.asked().is_none());
        // It waits for Events, but not for long.
        world.now = world.now + EVENTS_PATIENCE;
        assert!(world.asked().is_none());
        assert_eq!(world.shard.poll_retired(), Some(7));
        assert_eq!(world.shard.poll_retired(), None);
        // Half a minute later it still does nothing.
        world.now = world.now + Duration::from_secs(30);
        assert!(world.asked().is_none());
    }

    #[test]
    fn one_that_gains_its_namespaces_anew_sends_nothing_of_before() {
        let mut world = elected();
        world.hear_job(&job(6, &json!({"parallelism": 8, "completions": 8})));
        let (first, _) = world.wait_for(POST_POD);
        world.done(&first);
        // More writes are queued than may be in flight.
        let under_way: Vec<_> = std::iter::from_fn(|| world.asked()).collect();
        assert_eq!(under_way.len(), 2);
        world.shard.notice(&Notice::Retire(1));
        for asked in &under_way {
            world.done(asked);
        }
        assert!(world.asked().is_none());
        world.shard.notice(&Notice::Lead(Monotonic::default()));
        for kind in [Kind::Job, Kind::Pod] {
            let namespace = None;
            world
                .shard
                .notice(&Notice::Forget(Extent { kind, namespace }));
        }
        world.shard.notice(&Notice::History {
            number: 0,
            known: Kinds::NONE,
            is_heard: true,
            round: 1,
            listed: Kinds::NONE,
        });
        lead(&mut world);
        assert!(world.asked().is_none());
        assert_eq!(world.shard.poll_retired(), None);
    }

    #[test]
    fn one_that_gains_its_namespaces_anew_works_again() {
        let mut world = elected();
        world.shard.notice(&Notice::Retire(1));
        assert!(world.asked().is_none());
        assert_eq!(world.shard.poll_retired(), Some(1));
        world.shard.notice(&Notice::Lead(Monotonic::default()));
        lead(&mut world);
        world.hear_job(&job(6, &json!({})));
        world.wait_for(POST_POD);
    }

    #[test]
    fn a_call_that_waited_when_the_namespaces_were_lost_is_never_sent() {
        let mut world = World::with(Settings {
            is_elected: true,
            controllers: Controllers::default(),
            ..Settings::of_jobs(1)
        });
        lead(&mut world);
        world.hear_job(&job(6, &json!({})));
        let (creation, _) = world.wait_for(POST_POD);
        // The only permit is taken, so the CronJob's run waits.
        let cron_job = json!({
            "metadata": {"name": "c", "namespace": "d", "uid": "00000000-0000-0000-0000-000000000002",
                "resourceVersion": "7", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {}}},
        });
        let read = decode_cron_job(&cron_job.to_string()).expect("a good CronJob");
        let news = News {
            change: Change::Applied,
            object: Observed::CronJob(Box::new(read)),
        };
        world.shard.hear(news, world.now);
        assert!(world.asked().is_none());
        world.shard.notice(&Notice::Lead(Monotonic::default()));
        for kind in [Kind::Job, Kind::Pod, Kind::CronJob] {
            let namespace = None;
            world
                .shard
                .notice(&Notice::Forget(Extent { kind, namespace }));
        }
        world.done(&creation);
        lead(&mut world);
        assert!(world.asked().is_none());
    }
}
