//! Informers, candidate and one shard, as one machine: the whole controller where there is one shard.
//!
//! What the informers tell goes straight to the shard, without a copy. It is what the command line runs unless
//! it is asked for more shards, and what simulations run.
//!
//! Must not: decide anything; it passes on.

use std::{sync::Arc, time::Duration};

use crate::{
    informer::{Informers, Watched},
    machine::{CallId, Input, Machine, Request},
    metrics::Metrics,
    model::{Monotonic, Now, Timeout},
    shard::{JobDescription, Limiter, Question, Settings, Shard},
};

use super::{
    Part,
    candidate::{Candidate, LeaderElection},
    common::{Common, is_common},
};

/// See the module's text.
#[derive(Debug)]
pub struct Replica {
    common: Common,
    shard: Shard,
    is_closed: bool,
}

impl Replica {
    /// One that knows nothing yet; it leads if it is elected, or if there is no election.
    pub fn new(
        watched: &Watched,
        settings: Settings,
        election: Option<LeaderElection>,
        limiter: &Arc<Limiter>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let candidate = election.map(|election| Candidate::new(election, Arc::clone(metrics)));
        let informers = Informers::new(watched, limiter, Arc::clone(metrics));
        Self {
            common: Common::new(informers, candidate),
            shard: Shard::new(settings, limiter, Arc::clone(metrics)),
            is_closed: false,
        }
    }

    /// Passes on what concerns everything that is known.
    fn pass_on(&mut self) {
        loop {
            while let Some(notice) = self.common.poll_notice() {
                self.shard.notice(&notice);
            }
            let Some(number) = self.shard.poll_report() else {
                return;
            };
            self.common.history_ends(number);
        }
    }
}

impl Machine for Replica {
    fn handle(&mut self, input: Input, now: Now) {
        if is_common(input.id()) {
            let shard = &mut self.shard;
            self.common
                .handle(input, now, &mut |news| shard.hear(news, now));
        } else {
            self.shard.handle(input, now);
        }
        self.pass_on();
    }

    fn poll_request(&mut self, now: Now) -> Option<Request> {
        if self.is_closed && self.shard.is_idle() {
            self.common.stop(now);
        }
        let request = self.common.poll_request(now);
        self.pass_on();
        request.or_else(|| {
            let request = self.shard.poll_request(now);
            self.pass_on();
            request
        })
    }

    fn poll_timeout(&self) -> Timeout {
        self.common.poll_timeout().or(self.shard.poll_timeout())
    }

    fn poll_abandoned(&mut self) -> Option<CallId> {
        self.common.poll_abandoned()
    }

    fn close(&mut self, now: Now) {
        self.is_closed = true;
        self.shard.close(now);
    }

    fn is_idle(&self) -> bool {
        self.shard.is_idle() && (!self.is_closed || self.common.is_over())
    }

    fn has_events(&self) -> bool {
        self.shard.has_events()
    }

    fn coalescing_delay(&self) -> Duration {
        self.shard.coalescing_delay()
    }

    fn gathers(&self, id: CallId) -> bool {
        match is_common(id) {
            true => self.common.gathers(id),
            false => self.shard.gathers(id),
        }
    }
}

impl Part for Replica {
    fn missing(&self) -> Option<Vec<&'static str>> {
        Some(self.common.missing())
    }

    fn answer_question(&self, question: &Question, now: Now) -> Vec<JobDescription> {
        self.shard.answer_question(question, now)
    }

    fn leads_until(&self, shard: usize) -> Option<Monotonic> {
        self.common.leads_until(shard)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        election::LeaseTimings,
        informer::Kind,
        model::{TRACKING_FINALIZER, Time},
        shard::Rate,
        wire::Encoding,
    };

    const LIST_JOBS: &str = "GET /apis/batch/v1/jobs?limit=500&continue=";
    const GET_LEASE: &str = "GET /apis/coordination.k8s.io/v1/namespaces/n/leases/l";
    const PUT_LEASE: &str = "PUT /apis/coordination.k8s.io/v1/namespaces/n/leases/l";
    const POST_POD: &str = "POST /api/v1/namespaces/d/pods";

    /// A replica called `one`, and a server that has a Lease of `two` and one Job.
    struct World {
        replica: Replica,
        now: Now,
        lease: Value,
    }

    impl World {
        fn new() -> Self {
            let watched = Watched {
                kinds: vec![Kind::Job, Kind::Pod],
                namespaces: Vec::new(),
                finalizer: TRACKING_FINALIZER,
                api: None,
                summarizes_all: false,
            };
            let settings = Settings {
                is_elected: true,
                ..Settings::of_jobs(8)
            };
            let election = LeaderElection {
                namespace: "n".to_owned(),
                name: "l".to_owned(),
                identity: "one".to_owned(),
                timings: LeaseTimings::default(),
                ranges: None,
            };
            let limiter = Arc::new(Limiter::new(Rate { qps: 0, burst: 0 }));
            let metrics = Arc::new(Metrics::default());
            let lease = json!({"metadata": {"resourceVersion": "1"}, "spec": {
                "holderIdentity": "two", "leaseDurationSeconds": 15, "leaseTransitions": 0,
                "acquireTime": "1970-01-12T13:00:00.000000Z", "renewTime": "1970-01-12T13:46:00.000000Z"}});
            Self {
                replica: Replica::new(&watched, settings, Some(election), &limiter, &metrics),
                now: Now::at(Time::from_secs(1_000_000)),
                lease,
            }
        }

        /// Answers all that is asked for, but the creation of a Pod; what that was, and the creation.
        fn answer_all(&mut self) -> (Vec<String>, Option<CallId>) {
            let (mut all, mut creation) = (Vec::new(), None);
            while let Some(request) = self.replica.poll_request(self.now) {
                let what = format!("{} {}", request.call.method, request.call.path);
                if what == POST_POD {
                    creation = Some(request.id);
                } else {
                    let input = match request.is_watch {
                        true => Input::Opened(request.id, Encoding::Json),
                        false => self.answer(&what, request),
                    };
                    self.replica.handle(input, self.now);
                }
                all.push(what);
            }
            (all, creation)
        }

        fn answer(&mut self, what: &str, request: Request) -> Input {
            let version = json!({"resourceVersion": "9"});
            let labels = json!({"l": "j"});
            let answer = match what {
                GET_LEASE => self.lease.clone(),
                PUT_LEASE => {
                    self.lease = serde_json::from_slice(&request.call.body).expect("JSON");
                    self.lease["metadata"]["resourceVersion"] = json!("2");
                    self.lease.clone()
                }
                LIST_JOBS => json!({"metadata": version, "items": [{
                    "metadata": {"name": "j", "namespace": "d", "resourceVersion": "5", "generation": 1,
                        "uid": "00000000-0000-0000-0000-000000000001"},
                    "spec": {"parallelism": 1, "completions": 1, "selector": {"matchLabels": labels},
                        "template": {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never"}}},
                    "status": {}}]}),
                _ => json!({"metadata": version, "items": []}),
            };
            Input::Answer(request.id, Ok(Bytes::from(answer.to_string())))
        }

        /// Stands by until it has taken the Lease; what was asked for then, and the creation of the Job's Pod.
        fn take_over(&mut self) -> (Vec<String>, Option<CallId>) {
            for _ in 0..60 {
                let (all, creation) = self.answer_all();
                if all.iter().any(|what| what == PUT_LEASE) {
                    return (all, creation);
                }
                assert_eq!(creation, None, "a standby writes");
                self.now = self.now + Duration::from_secs(1);
            }
            panic!("it never leads");
        }
    }

    #[test]
    fn who_takes_over_lists_all_anew_and_then_writes() {
        let mut world = World::new();
        let (stood_by, _) = world.answer_all();
        assert!(
            stood_by.iter().any(|what| what == LIST_JOBS),
            "{stood_by:?}"
        );
        let (all, creation) = world.take_over();
        assert!(all.iter().any(|what| what == LIST_JOBS), "{all:?}");
        assert!(creation.is_some());
    }

    #[test]
    fn the_lease_is_given_back_after_the_last_write() {
        let mut world = World::new();
        let (_, creation) = world.take_over();
        world.replica.close(world.now);
        world.answer_all();
        assert_eq!(world.lease["spec"]["holderIdentity"], "one");
        let lost = crate::wire::ApiError::no_answer("lost".to_owned());
        let lost = Input::Answer(creation.expect("a Pod is made"), Err(lost));
        world.replica.handle(lost, world.now);
        world.answer_all();
        assert_ne!(world.lease["spec"]["holderIdentity"], "one");
        assert!(world.replica.is_idle());
    }
}
