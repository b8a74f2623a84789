//! Runs informers, candidate and shards as one machine: the whole controller, in one loop.
//!
//! There is one shard or, where replicas share, one for each range of the namespaces. Informer events go straight to
//! the shard of their namespace, without a copy. The command line runs it by default (shards can have threads of their
//! own), and so do simulations.
//!
//! Must not: decide anything; it passes on.

use std::{sync::Arc, time::Duration};

use lakh_model::{Monotonic, Now, Partition, Timeout};

use crate::{
    informer::{Informers, Watched},
    machine::{CallId, Input, Machine, Request},
    metrics::Metrics,
    shard::{JobDescription, Limiter, Question, Settings, Shard},
};

use super::{
    Part,
    candidate::{Candidate, LeaderElection},
    common::{Common, is_common},
};

/// The bits of a request ID from here on are the shard's number. Below, each shard counts its own requests: enough for
/// 35 years at a thousand a second.
const SHARD_BIT: u32 = 40;

/// A whole controller: informers, candidate and shards. See [`Machine`] for its use.
#[derive(Debug)]
pub struct Replica {
    common: Common,
    /// The division of namespaces among the shards, if there are several.
    partition: Option<Partition>,
    shards: Vec<Member>,
    /// The shard to poll first, and the number of shards polled since.
    turn: (usize, usize),
    is_closed: bool,
}

#[derive(Debug)]
struct Member {
    shard: Shard,
    /// The shard gets the events of its namespaces.
    hears: bool,
}

impl Replica {
    /// Creates a replica with empty caches. It may write once it is elected, or at once without an election.
    pub fn new(
        watched: &Watched,
        settings: &Settings,
        election: Option<LeaderElection>,
        limiter: &Arc<Limiter>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let candidate = election.map(|election| Candidate::new(election, Arc::clone(metrics)));
        let partition = candidate.as_ref().and_then(Candidate::partition);
        let informers = Informers::new(watched, limiter, Arc::clone(metrics));
        let common = Common::new(informers, candidate);
        let count = partition.map_or(1, |partition| partition.ranges as usize);
        let shards = (0..count).map(|number| Member {
            shard: Shard::new(settings.clone(), limiter, Arc::clone(metrics)),
            hears: common.hears(number),
        });
        Self {
            shards: shards.collect(),
            common,
            partition,
            turn: (0, 0),
            is_closed: false,
        }
    }

    /// Delivers notices to the shards, and their reports to the informers and the candidate.
    fn pass_on(&mut self, now: Now) {
        loop {
            while let Some((number, notice)) = self.common.poll_notice_to_one() {
                let member = &mut self.shards[number];
                member.hears = self.common.hears(number);
                member.shard.notice(&notice);
            }
            while let Some(notice) = self.common.poll_notice() {
                for (number, member) in self.shards.iter_mut().enumerate() {
                    member.shard.notice(&self.common.narrowed(number, &notice));
                }
            }
            let mut is_done = true;
            for member in &mut self.shards {
                while let Some(number) = member.shard.poll_report() {
                    self.common.history_ends(number);
                    is_done = false;
                }
                while let Some(retirement) = member.shard.poll_retired() {
                    self.common.retired(retirement, now);
                    is_done = false;
                }
            }
            if is_done {
                return;
            }
        }
    }

    /// Returns the next request of a shard. Each shard is polled until it has none; the first one is the last in the
    /// next round.
    fn poll_shards(&mut self, now: Now) -> Option<Request> {
        let count = self.shards.len();
        // All share one limit.
        let in_flight: usize = self.shards.iter().map(|it| it.shard.in_flight()).sum();
        while self.turn.1 < count {
            let number = (self.turn.0 + self.turn.1) % count;
            let shard = &mut self.shards[number].shard;
            shard.set_in_flight_elsewhere(in_flight - shard.in_flight());
            if let Some(request) = shard.poll_request(now) {
                let id = request.id | (number as CallId) << SHARD_BIT;
                return Some(Request { id, ..request });
            }
            self.turn.1 += 1;
        }
        self.turn = ((self.turn.0 + 1) % count, 0);
        None
    }

    fn are_idle(&self) -> bool {
        self.shards.iter().all(|member| member.shard.is_idle())
    }
}

impl Machine for Replica {
    fn handle(&mut self, input: Input, now: Now) {
        if is_common(input.id()) {
            let (shards, partition) = (&mut self.shards, self.partition);
            self.common.handle(input, now, &mut |news| {
                let namespace = news.object.namespace();
                let number = partition.map_or(0, |it| it.range_of(namespace));
                let member = &mut shards[number];
                if member.hears {
                    member.shard.hear(news, now);
                }
            });
        } else {
            let number = self.shard_of_call(input.id());
            let id = input.id() & ((1 << SHARD_BIT) - 1);
            if let Some(member) = self.shards.get_mut(number) {
                member.shard.handle(input.with_id(id), now);
            }
        }
        self.pass_on(now);
    }

    fn poll_request(&mut self, now: Now) -> Option<Request> {
        if self.is_closed && self.are_idle() {
            self.common.stop(now);
        }
        let request = self.common.poll_request(now);
        self.pass_on(now);
        request.or_else(|| {
            let request = self.poll_shards(now);
            self.pass_on(now);
            request
        })
    }

    fn poll_timeout(&self) -> Timeout {
        let shards = self.shards.iter();
        let shards = shards.map(|member| member.shard.poll_timeout());
        shards.fold(self.common.poll_timeout(), Timeout::or)
    }

    fn poll_abandoned(&mut self) -> Option<CallId> {
        self.common.poll_abandoned()
    }

    fn close(&mut self, now: Now) {
        self.is_closed = true;
        for member in &mut self.shards {
            member.shard.close(now);
        }
    }

    fn is_idle(&self) -> bool {
        self.are_idle() && (!self.is_closed || self.common.is_over())
    }

    fn has_events(&self) -> bool {
        self.shards.iter().any(|member| member.shard.has_events())
    }

    /// Returns that of the shard with the most requests in flight.
    fn coalescing_delay(&self) -> Duration {
        let shards = self.shards.iter().map(|member| &member.shard);
        let busiest = shards.max_by_key(|shard| shard.in_flight());
        busiest.map_or(Duration::ZERO, Shard::coalescing_delay)
    }

    fn gathers(&self, id: CallId) -> bool {
        if is_common(id) {
            return self.common.gathers(id);
        }
        let own = id & ((1 << SHARD_BIT) - 1);
        let member = self.shards.get(self.shard_of_call(id));
        member.is_some_and(|member| member.shard.gathers(own))
    }
}

impl Part for Replica {
    fn missing(&self) -> Option<Vec<&'static str>> {
        Some(self.common.missing())
    }

    fn answer_question(&self, question: &Question, now: Now) -> Vec<JobDescription> {
        let shards = self.shards.iter();
        let told = shards.map(|member| member.shard.answer_question(question, now));
        told.flatten().collect()
    }

    fn shard_of_call(&self, id: CallId) -> usize {
        (id >> SHARD_BIT) as usize
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
        informer::{Kind, PageBounds},
        shard::Rate,
    };
    use lakh_core::election::LeaseTimings;
    use lakh_model::{Division, TRACKING_FINALIZER, Time};
    use lakh_wire::{ApiError, Encoding, paths};

    const LIST_JOBS: &str = "GET /apis/batch/v1/jobs?limit=500&continue=";
    const LEASE_UID: &str = "00000000-0000-0000-0000-0000000000aa";
    const GET_LEASE: &str = "GET /apis/coordination.k8s.io/v1/namespaces/n/leases/l";
    const PUT_LEASE: &str = "PUT /apis/coordination.k8s.io/v1/namespaces/n/leases/l";
    const POST_POD: &str = "POST /api/v1/namespaces/d/pods";
    const PARTITION: Partition = Partition {
        ranges: 2,
        by: Division::Remainder,
    };

    /// A replica with the identity `one`, and a server with a Lease of `two` and one Job.
    struct World {
        replica: Replica,
        now: Now,
        lease: Value,
    }

    impl World {
        fn new() -> Self {
            Self::with(None)
        }

        fn with(partition: Option<Partition>) -> Self {
            let watched = Watched {
                kinds: vec![Kind::Job, Kind::Pod],
                namespaces: Vec::new(),
                finalizer: TRACKING_FINALIZER,
                api: None,
                summarizes_all: false,
                pages: PageBounds::default(),
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
                partition,
            };
            let limiter = Arc::new(Limiter::new(Rate { qps: 0, burst: 0 }));
            let metrics = Arc::new(Metrics::default());
            let lease = json!({"metadata": {"resourceVersion": "1", "name": "l", "uid": LEASE_UID}, "spec": {
                "holderIdentity": "two", "leaseDurationSeconds": 15, "leaseTransitions": 0,
                "acquireTime": "1970-01-12T13:00:00.000000Z", "renewTime": "1970-01-12T13:46:00.000000Z"}});
            Self {
                replica: Replica::new(&watched, &settings, Some(election), &limiter, &metrics),
                now: Now::at(Time::from_secs(1_000_000)),
                lease,
            }
        }

        /// Answers all requests except the creation of a Pod. Returns all requests, and the ID of the creation.
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
                    self.lease["metadata"]["uid"] = json!(LEASE_UID);
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

        /// Stands by until it has taken the Lease. Returns the requests after that, and the ID of the creation of the
        /// Job's Pod.
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

        /// Answers all requests except creations of Pods, as a server without a Lease and with these Jobs. Returns the
        /// creations.
        fn answer_all_but_creations(&mut self, jobs: &[Value]) -> Vec<Request> {
            let mut creations = Vec::new();
            while let Some(request) = self.replica.poll_request(self.now) {
                let Request { id, call, is_watch } = &request;
                let (id, is_post) = (*id, call.method == "POST");
                let what = format!("{} {}", call.method, call.path);
                let input = match what.as_str() {
                    _ if *is_watch => Input::Opened(id, Encoding::Json),
                    _ if is_post && call.path.ends_with("/pods") => {
                        creations.push(request);
                        continue;
                    }
                    GET_LEASE if self.lease["spec"]["holderIdentity"] == "two" => {
                        self.lease = json!({});
                        Input::Answer(id, Err(ApiError::from_response(404, b"{}", None)))
                    }
                    LIST_JOBS => {
                        let list = json!({"metadata": {"resourceVersion": "9"}, "items": jobs});
                        Input::Answer(id, Ok(Bytes::from(list.to_string())))
                    }
                    _ if is_post && call.path.contains("/leases") => {
                        let mut lease: Value = serde_json::from_slice(&call.body).expect("JSON");
                        lease["metadata"]["resourceVersion"] = json!("2");
                        lease["metadata"]["uid"] = json!(LEASE_UID);
                        Input::Answer(id, Ok(Bytes::from(lease.to_string())))
                    }
                    _ => self.answer(&what, request),
                };
                self.replica.handle(input, self.now);
            }
            creations
        }

        /// Answers the creation of a Pod, the `number`th.
        fn create(&mut self, Request { id, call, .. }: Request, number: usize) {
            let mut pod: Value = serde_json::from_slice(&call.body).expect("JSON");
            pod["metadata"]["uid"] = json!(format!("00000000-0000-0000-0001-{number:012}"));
            pod["metadata"]["resourceVersion"] = json!((100 + number).to_string());
            let made = Input::Answer(id, Ok(Bytes::from(pod.to_string())));
            self.replica.handle(made, self.now);
        }
    }

    /// Returns namespaces of a range.
    fn namespaces_of(range: usize) -> impl Iterator<Item = String> {
        let names = (0..).map(|number| format!("team-{number}"));
        names.filter(move |name| PARTITION.range_of(name) == range)
    }

    #[test]
    fn a_new_leader_relists_everything_before_it_writes() {
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
        let lost = ApiError::no_answer("lost".to_owned());
        let lost = Input::Answer(creation.expect("a Pod is made"), Err(lost));
        world.replica.handle(lost, world.now);
        world.answer_all();
        assert_ne!(world.lease["spec"]["holderIdentity"], "one");
        assert!(world.replica.is_idle());
    }

    /// Returns a Job with many Pods, in a namespace of its own.
    fn wide_job(number: usize, namespace: &str) -> Value {
        let labels = json!({"l": "j"});
        json!({
            "metadata": {"name": "j", "namespace": namespace, "resourceVersion": "5", "generation": 1,
                "uid": format!("00000000-0000-0000-0000-{number:012}")},
            "spec": {"parallelism": 20, "completions": 20, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never"}}},
            "status": {}
        })
    }

    #[test]
    fn ranges_share_the_in_flight_limit_and_each_gets_its_responses() {
        let namespaces = [0, 1].map(|range| namespaces_of(range).next().expect("one"));
        let each = namespaces.iter().enumerate();
        let jobs: Vec<Value> = each.map(|(at, name)| wide_job(at, name)).collect();
        let mut world = World::with(Some(PARTITION));
        let (mut creations, mut by_namespace) = (Vec::new(), [0, 0]);
        for number in 1..=12 {
            let new = world.answer_all_but_creations(&jobs);
            for (name, made) in namespaces.iter().zip(&mut by_namespace) {
                let path = paths::pods(Some(name));
                *made += new.iter().filter(|new| new.call.path == path).count();
            }
            creations.extend(new);
            assert!(creations.len() <= 8, "too many are in flight");
            world.create(creations.remove(0), number);
        }
        assert!(creations.len() >= 6, "places are left");
        assert!(
            by_namespace.iter().all(|made| *made >= 4),
            "{by_namespace:?}"
        );
    }

    #[test]
    fn a_range_of_many_jobs_leaves_places_to_the_other() {
        let small = namespaces_of(1).next().expect("one");
        let names: Vec<String> = namespaces_of(0).take(10).chain([small.clone()]).collect();
        let each = names.iter().enumerate();
        let jobs: Vec<Value> = each.map(|(at, name)| wide_job(at, name)).collect();
        let mut world = World::with(Some(PARTITION));
        let mut creations = world.answer_all_but_creations(&jobs);
        let path = paths::pods(Some(&small));
        let is_of_small = |creation: &Request| creation.call.path == path;
        assert!(creations.len() == 8 && !creations.iter().any(is_of_small));
        // The ranges take turns: each of them gets one of the next two places.
        for number in 1..=2 {
            world.create(creations.remove(0), number);
            creations.extend(world.answer_all_but_creations(&jobs));
        }
        assert!(creations.iter().any(is_of_small));
    }
}
