//! The parts of a controller of several shards: the informers, and each shard.
//!
//! Must not: decide anything; it passes on.

use std::collections::VecDeque;

use crate::{
    informer::{News, Notice},
    machine::{CallId, Input, Machine, Request},
    model::{Monotonic, Now, Timeout, stable_hash},
    shard::{JobDescription, Question, Shard},
};

use super::{Message, Part, Recipient, common::Common};

/// What several shards have in common.
#[derive(Debug)]
pub struct Feed {
    common: Common,
    /// Of each shard, whether it is to hear of its namespaces.
    hears: Vec<bool>,
    outbox: VecDeque<(Recipient, Message)>,
}

impl Feed {
    /// Informers that tell so many shards, and the candidate.
    pub fn new(common: Common, shards: usize) -> Self {
        Self {
            hears: (0..shards).map(|shard| common.hears(shard)).collect(),
            common,
            outbox: VecDeque::new(),
        }
    }

    fn pass_on(&mut self) {
        while let Some((shard, notice)) = self.common.poll_notice_to_one() {
            self.hears[shard] = self.common.hears(shard);
            self.tell(shard, notice);
        }
        while let Some(notice) = self.common.poll_notice() {
            for shard in 0..self.hears.len() {
                let notice = self.common.narrowed(shard, &notice);
                self.tell(shard, notice);
            }
        }
    }

    fn tell(&mut self, shard: usize, notice: Notice) {
        let message = Message::Notice(notice);
        self.outbox.push_back((Recipient::Shard(shard), message));
    }
}

impl Machine for Feed {
    fn handle(&mut self, input: Input, now: Now) {
        let (hears, outbox) = (&self.hears, &mut self.outbox);
        let mut tell = |news: News<'_>| {
            let shard = shard_of(news.object.namespace(), hears.len());
            if hears[shard] {
                let message = Message::News(Box::new(news.into_owned()));
                outbox.push_back((Recipient::Shard(shard), message));
            }
        };
        self.common.handle(input, now, &mut tell);
        self.pass_on();
    }

    fn poll_request(&mut self, now: Now) -> Option<Request> {
        let request = self.common.poll_request(now);
        self.pass_on();
        request
    }

    fn poll_timeout(&self) -> Timeout {
        self.common.poll_timeout()
    }

    fn poll_abandoned(&mut self) -> Option<CallId> {
        self.common.poll_abandoned()
    }

    /// The shards have stopped before.
    fn close(&mut self, now: Now) {
        self.common.stop(now);
    }

    fn is_idle(&self) -> bool {
        !self.common.is_stopped() || self.common.is_over()
    }
}

impl Part for Feed {
    fn receive(&mut self, message: Message, now: Now) {
        match message {
            Message::HistoryEnded(number) => self.common.history_ends(number),
            Message::Retired(number) => self.common.retired(number, now),
            Message::News(_) | Message::Notice(_) => {}
        }
        self.pass_on();
    }

    fn poll_message(&mut self) -> Option<(Recipient, Message)> {
        self.outbox.pop_front()
    }

    fn missing(&self) -> Option<Vec<&'static str>> {
        Some(self.common.missing())
    }

    fn leads_until(&self, shard: usize) -> Option<Monotonic> {
        self.common.leads_until(shard)
    }
}

/// A shard hears by messages.
impl Part for Shard {
    fn receive(&mut self, message: Message, now: Now) {
        match message {
            Message::News(news) => self.hear(*news, now),
            Message::Notice(notice) => self.notice(&notice),
            Message::HistoryEnded(_) | Message::Retired(_) => {}
        }
    }

    fn poll_message(&mut self) -> Option<(Recipient, Message)> {
        let ended = self.poll_report().map(Message::HistoryEnded);
        let message = ended.or_else(|| self.poll_retired().map(Message::Retired))?;
        Some((Recipient::Feed, message))
    }

    fn answer_question(&self, question: &Question, now: Now) -> Vec<JobDescription> {
        Self::answer_question(self, question, now)
    }
}

/// Which of so many shards a namespace belongs to.
pub fn shard_of(namespace: &str, shards: usize) -> usize {
    (stable_hash(namespace.bytes()) % shards.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::{
        controller::{Candidate, LeaderElection},
        election::LeaseTimings,
        informer::{Informers, Kind, Kinds, Watched},
        metrics::Metrics,
        model::{TRACKING_FINALIZER, Time},
        rate_limiter::{Limiter, Rate},
        wire::{ApiError, Encoding},
    };

    #[test]
    fn namespaces_are_shared_out_and_stay_where_they_are() {
        let mut counts = [0; 4];
        for number in 0..400 {
            let shard = shard_of(&format!("team-{number}"), 4);
            counts[shard] += 1;
        }
        assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
        assert_eq!(shard_of("default", 1), 0);
        assert_eq!(shard_of("default", 4), shard_of("default", 4));
    }

    /// What two ranges of Jobs have in common, in a replica called `one`.
    struct World {
        feed: Feed,
        now: Now,
        version: u64,
    }

    impl World {
        fn new() -> Self {
            let watched = Watched {
                kinds: vec![Kind::Job],
                namespaces: Vec::new(),
                finalizer: TRACKING_FINALIZER,
                api: None,
                summarizes_all: false,
            };
            let limiter = Arc::new(Limiter::new(Rate { qps: 0, burst: 0 }));
            let metrics = Arc::new(Metrics::default());
            let lease = LeaderElection {
                namespace: "kube-system".to_owned(),
                name: "lakh".to_owned(),
                identity: "one".to_owned(),
                timings: LeaseTimings::default(),
                ranges: Some(2),
            };
            let informers = Informers::new(&watched, &limiter, Arc::clone(&metrics));
            let common = Common::new(informers, Some(Candidate::new(lease, metrics)));
            Self {
                feed: Feed::new(common, 2),
                now: Now::at(Time::from_secs(1_000_000)),
                version: 0,
            }
        }

        fn asks(&mut self, what: &str) -> Request {
            let request = self.feed.poll_request(self.now).expect("a request");
            let is = format!("{} {}", request.call.method, request.call.path);
            assert!(is.contains(what), "{is}");
            request
        }

        fn hear(&mut self, input: Input) {
            self.feed.handle(input, self.now);
        }

        fn answer(&mut self, asked: &Request, answer: serde_json::Value) {
            let body = Bytes::from(answer.to_string());
            self.hear(Input::Answer(asked.id, Ok(body)));
        }

        /// The Lease is as was asked for; gives that.
        fn is_written(&mut self, what: &str) -> serde_json::Value {
            let asked = self.asks(what);
            let mut lease: serde_json::Value =
                serde_json::from_slice(&asked.call.body).expect("JSON");
            self.version += 1;
            lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
            self.answer(&asked, lease.clone());
            lease
        }

        /// What is told to each shard, in short.
        fn told(&mut self) -> Vec<(usize, String)> {
            let messages = std::iter::from_fn(|| self.feed.poll_message());
            let short = |(recipient, message)| {
                let Recipient::Shard(shard) = recipient else {
                    unreachable!("nobody else is told");
                };
                let text = match message {
                    Message::News(news) => format!("news of {}", news.object.namespace()),
                    Message::Notice(Notice::Forget(_)) => "forget".to_owned(),
                    Message::Notice(Notice::Complete(..)) => "complete".to_owned(),
                    Message::Notice(Notice::History { known, .. }) => {
                        format!("knows {}", known == Kinds::ALL)
                    }
                    Message::Notice(Notice::Lead(until)) => {
                        format!("leads {}", until > Monotonic::default())
                    }
                    Message::Notice(notice) => format!("{notice:?}"),
                    message => unreachable!("{message:?}"),
                };
                (shard, text)
            };
            messages.map(short).collect()
        }
    }

    fn job(namespace: &str, version: usize) -> serde_json::Value {
        json!({
            "metadata": {"name": "j", "namespace": namespace, "resourceVersion": version.to_string(),
                "uid": "00000000-0000-0000-0000-000000000001"},
            "spec": {"template": {"spec": {}}},
        })
    }

    fn roster(lease: &serde_json::Value) -> serde_json::Value {
        let text = lease["metadata"]["annotations"]["lakh.dev/replicas"].as_str();
        serde_json::from_str(text.expect("a roster")).expect("JSON")
    }

    #[test]
    fn a_range_is_told_of_as_it_comes_and_goes() {
        let namespace = |shard| {
            let mut names = (0..).map(|number| format!("team-{number}"));
            names.find(|name| shard_of(name, 2) == shard).expect("one")
        };
        let namespaces = [namespace(0), namespace(1)];
        let mut world = World::new();
        let look = world.asks("GET /apis/coordination.k8s.io");
        let none = ApiError::from_response(404, b"{}", None);
        world.hear(Input::Answer(look.id, Err(none)));
        let lease = world.is_written("POST");
        assert_eq!(roster(&lease)["one"]["ranges"], json!([0, 1]));
        let all_of = |what: &[&str]| -> Vec<(usize, String)> {
            let each = |shard| what.iter().map(move |what| (shard, (*what).to_owned()));
            (0..2).flat_map(each).collect()
        };
        let mut told = world.told();
        told.sort_by_key(|(shard, _)| *shard);
        assert_eq!(told, all_of(&["SharedOut(2)", "forget", "leads true"]));

        // Both take in what is theirs.
        let of_lease = world.asks("leases?watch=true");
        world.hear(Input::Opened(of_lease.id, Encoding::Json));
        let list = world.asks("jobs?limit=500");
        let items = namespaces.each_ref().map(|name| job(name, 5));
        world.answer(
            &list,
            json!({"metadata": {"resourceVersion": "9"}, "items": items}),
        );
        let told = world.told();
        for (shard, name) in namespaces.iter().enumerate() {
            let of_shard: Vec<&str> = told
                .iter()
                .filter(|(of, _)| *of == shard)
                .map(|(_, what)| what.as_str())
                .collect();
            assert_eq!(
                of_shard,
                [&*format!("news of {name}"), "complete", "knows true"]
            );
        }

        // Another joins: one range is finished and given up.
        let watch = world.asks("jobs?watch=true");
        world.hear(Input::Opened(watch.id, Encoding::Json));
        world.now = world.now + Duration::from_secs(2);
        let look = world.asks("GET /apis/coordination.k8s.io");
        let mut entries = roster(&lease);
        entries["two"] = json!({"beat": 1, "seconds": 15, "ranges": []});
        let mut joined = lease.clone();
        joined["metadata"]["annotations"]["lakh.dev/replicas"] = json!(entries.to_string());
        world.answer(&look, joined);
        let told = world.told();
        let (given, retirement) = told.first().cloned().expect("it is to be finished");
        assert_eq!((told.len(), retirement.as_str()), (1, "Retire(1)"));
        let lease = world.is_written("PUT");
        assert_eq!(roster(&lease)["one"]["ranges"], json!([0, 1]));
        world.told();
        assert!(world.feed.leads_until(given) > Some(Monotonic::default()));
        world.feed.receive(Message::Retired(1), world.now);
        assert_eq!(world.feed.leads_until(given), Some(Monotonic::default()));
        let told = world.told();
        let of_given = |what: &str| (given, what.to_owned());
        assert_eq!(told[..2], [of_given("leads false"), of_given("forget")]);
        let look = world.asks("GET /apis/coordination.k8s.io");
        world.answer(&look, lease);
        let lease = world.is_written("PUT");
        assert_eq!(roster(&lease)["one"]["ranges"], json!([1 - given]));
        world.told();

        // Of the other's namespaces nobody here hears any more.
        for (shard, name) in namespaces.iter().enumerate() {
            let event = json!({"type": "MODIFIED", "object": job(name, 20 + shard)});
            world.hear(Input::Piece(watch.id, format!("{event}\n").into()));
            let news = (shard, format!("news of {name}"));
            assert_eq!(world.told().contains(&news), shard != given);
        }
    }
}
