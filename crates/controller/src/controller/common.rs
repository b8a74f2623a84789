//! Runs the parts that a controller's shards share: the informers and, with leader election, the candidate.
//!
//! On standby the informers run, so that the caches are warm. A new leader lists everything again before it writes,
//! because its caches may be older than the last writes of the previous leader. At the start the informers wait for the
//! candidate's first response, so that the first leader lists once.
//!
//! Where replicas share ranges, each range's shard gets notices of its own ([`super::ranges`]). After a range is gained
//! everything is listed again, and the other shards continue without a pause.
//!
//! Must not: decide which replica leads, or know the work of shards.

use std::borrow::Cow;

use lakh_core::election::Role;
use lakh_model::{Monotonic, Now, Timeout};

use crate::{
    informer::{Informers, News, Notice, ReadRanges, is_informers},
    machine::{CallId, Input, Request},
};

use super::{
    candidate::{Candidate, is_candidates},
    ranges::Ranges,
};

/// Returns true if the request is not from a shard.
pub(super) fn is_common(id: CallId) -> bool {
    is_informers(id) || is_candidates(id)
}

/// Informers and candidate of a controller. It turns changes of the candidate's role and ranges into notices for the
/// shards.
#[derive(Debug)]
pub struct Common {
    informers: Informers,
    candidate: Option<Candidate>,
    /// The ranges, if replicas share them.
    ranges: Option<Ranges>,
    /// The informers have sent a first request.
    has_begun: bool,
    is_stopped: bool,
}

impl Common {
    /// Creates it. Without a candidate there is no election, and the shards may always write.
    pub fn new(informers: Informers, candidate: Option<Candidate>) -> Self {
        let partition = candidate.as_ref().and_then(Candidate::partition);
        let extents = || informers.extents().cloned().collect();
        let ranges = partition.map(|it| Ranges::new(it.ranges as usize, extents()));
        Self {
            informers,
            candidate,
            ranges,
            has_begun: false,
            is_stopped: false,
        }
    }

    pub(super) fn handle(&mut self, input: Input, now: Now, tell: &mut dyn FnMut(News<'_>)) {
        match &mut self.candidate {
            Some(candidate) if is_candidates(input.id()) => {
                candidate.handle(input, now);
                self.follow(true, now);
            }
            _ => self.informers.handle(input, now, tell),
        }
    }

    /// Applies changes of the candidate's role. The target owner of a range changes only with a Lease event or response
    /// (`heard`).
    fn follow(&mut self, heard: bool, now: Now) {
        let Some(candidate) = &mut self.candidate else {
            return;
        };
        let change = candidate.poll_change(now);
        if self.ranges.is_some() {
            if heard || change.is_some() {
                self.follow_ranges(now);
            }
            return;
        }
        let Some(before) = change else {
            return;
        };
        let leads_anew = before == Role::Standby && candidate.role() != Role::Stopped;
        if leads_anew && self.has_begun {
            self.informers.start_over();
        }
        let until = leads_until(candidate);
        self.informers.tell(Notice::Lead(until));
    }

    /// Notifies each shard of changes to its range.
    fn follow_ranges(&mut self, now: Now) {
        let (Some(candidate), Some(ranges)) = (&self.candidate, &mut self.ranges) else {
            return;
        };
        let Some(partition) = candidate.partition() else {
            return;
        };
        let untils = candidate.ranges(now.monotonic);
        let had: Vec<bool> = untils
            .iter()
            .enumerate()
            .map(|(range, _)| ranges.is_ours(range))
            .collect();
        let gained = ranges.follow(&untils);
        let ours: Vec<bool> = untils.iter().map(Option::is_some).collect();
        if ours != had || !self.has_begun {
            self.informers.read_only(ReadRanges::new(partition, ours));
        }
        for (range, (had, until)) in had.into_iter().zip(&untils).enumerate() {
            if had != until.is_some() {
                candidate.note_range(range, !had);
            }
        }
        if !gained.is_empty() {
            // No list was requested yet, so the first ones are new enough.
            let round = match self.has_begun {
                true => self.informers.list_anew(),
                false => self.informers.round(),
            };
            for range in gained {
                ranges.begin(range, round, self.informers.told_history());
            }
        }
        ranges.retire(candidate.surplus(now.monotonic));
    }

    /// Gives up a range after its shard has finished its requests.
    pub(super) fn retired(&mut self, retirement: u64, now: Now) {
        let (Some(candidate), Some(ranges)) = (&mut self.candidate, &self.ranges) else {
            return;
        };
        if let Some(range) = ranges.retired(retirement) {
            candidate.give_up(range, now);
            self.follow(true, now);
        }
    }

    /// Returns true if a shard gets the events of its namespaces.
    pub(super) fn hears(&self, shard: usize) -> bool {
        let ranges = self.ranges.as_ref();
        ranges.is_none_or(|ranges| ranges.is_ours(shard))
    }

    /// Returns the next notice for one shard. Poll it before the notices for all shards.
    pub(super) fn poll_notice_to_one(&mut self) -> Option<(usize, Notice)> {
        self.ranges.as_mut()?.poll_notice()
    }

    /// Adapts a notice for all shards to one shard.
    pub(super) fn narrowed<'a>(&mut self, shard: usize, notice: &'a Notice) -> Cow<'a, Notice> {
        match &mut self.ranges {
            Some(ranges) => Cow::Owned(ranges.narrowed(shard, notice.clone())),
            None => Cow::Borrowed(notice),
        }
    }

    pub(super) fn poll_request(&mut self, now: Now) -> Option<Request> {
        if let Some(candidate) = &mut self.candidate {
            let request = candidate.poll_request(now);
            let waits = !candidate.has_tried();
            self.follow(false, now);
            if request.is_some() || waits {
                return request;
            }
        }
        if self.is_stopped {
            return None;
        }
        let request = self.informers.poll_request(now);
        self.has_begun |= request.is_some();
        request
    }

    pub(super) fn poll_timeout(&self) -> Timeout {
        let candidate = self.candidate.as_ref();
        let candidate = candidate.map_or_else(Timeout::default, Candidate::poll_timeout);
        let informers = match &self.candidate {
            Some(candidate) if !candidate.has_tried() => Timeout::default(),
            _ => self.informers.poll_timeout(),
        };
        candidate.or(informers)
    }

    pub(super) fn poll_notice(&mut self) -> Option<Notice> {
        self.informers.poll_notice()
    }

    pub(super) fn poll_abandoned(&mut self) -> Option<CallId> {
        let own = self.candidate.as_mut().and_then(Candidate::poll_abandoned);
        own.or_else(|| self.informers.poll_abandoned())
    }

    pub(super) fn gathers(&self, id: CallId) -> bool {
        is_informers(id) && self.informers.gathers(id)
    }

    pub(super) fn history_ends(&mut self, number: u64) {
        self.informers.history_ends(number);
    }

    pub(super) fn missing(&self) -> Vec<&'static str> {
        self.informers.missing()
    }

    /// Releases the Lease after the last write.
    pub(super) fn stop(&mut self, now: Now) {
        self.is_stopped = true;
        if let Some(candidate) = &mut self.candidate {
            candidate.stop(now);
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Returns true if the Lease is released, or none is held.
    pub(super) fn is_over(&self) -> bool {
        self.candidate.as_ref().is_none_or(Candidate::is_over)
    }

    /// Returns the write deadline of a shard; none without a deadline.
    pub(super) fn leads_until(&self, shard: usize) -> Option<Monotonic> {
        match &self.ranges {
            Some(ranges) => Some(ranges.until(shard)),
            None => self.candidate.as_ref().map(leads_until),
        }
    }
}

/// Returns until when a candidate leads; the clock's start if it does not.
fn leads_until(candidate: &Candidate) -> Monotonic {
    match candidate.role() {
        Role::Leader(until) => until,
        Role::Standby | Role::Stopped => Monotonic::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::{
        controller::LeaderElection,
        informer::{Kind, Kinds, PageBounds, Watched},
        metrics::Metrics,
        rate_limiter::{Limiter, Rate},
    };
    use lakh_core::election::LeaseTimings;
    use lakh_model::{Division, Partition, TRACKING_FINALIZER, Time};
    use lakh_wire::{ApiError, Encoding};

    const PARTITION: Partition = Partition {
        ranges: 2,
        by: Division::Remainder,
    };

    /// Informers and candidate for two ranges of Jobs, in a replica with the identity `one`.
    struct World {
        common: Common,
        now: Now,
        version: u64,
        /// Events and notices of each range, abbreviated.
        told: Vec<(usize, String)>,
    }

    impl World {
        fn new() -> Self {
            Self::with(PARTITION)
        }

        fn with(partition: Partition) -> Self {
            let watched = Watched {
                kinds: vec![Kind::Job],
                namespaces: Vec::new(),
                finalizer: TRACKING_FINALIZER,
                api: None,
                summarizes_all: false,
                pages: PageBounds::default(),
            };
            let limiter = Arc::new(Limiter::new(Rate { qps: 0, burst: 0 }));
            let metrics = Arc::new(Metrics::default());
            let lease = LeaderElection {
                namespace: "kube-system".to_owned(),
                name: "lakh".to_owned(),
                identity: "one".to_owned(),
                timings: LeaseTimings::default(),
                partition: Some(partition),
            };
            let informers = Informers::new(&watched, &limiter, Arc::clone(&metrics));
            let common = Common::new(informers, Some(Candidate::new(lease, metrics)));
            Self {
                common,
                now: Now::at(Time::from_secs(1_000_000)),
                version: 0,
                told: Vec::new(),
            }
        }

        fn asks(&mut self, what: &str) -> Request {
            let request = self.common.poll_request(self.now).expect("a request");
            let is = format!("{} {}", request.call.method, request.call.path);
            assert!(is.contains(what), "{is}");
            request
        }

        fn hear(&mut self, input: Input) {
            let hears = [0, 1].map(|range| self.common.hears(range));
            let told = &mut self.told;
            self.common.handle(input, self.now, &mut |news| {
                let namespace = news.object.namespace();
                let range = PARTITION.range_of(namespace);
                if hears[range] {
                    told.push((range, format!("news of {namespace}")));
                }
            });
        }

        fn answer(&mut self, asked: &Request, answer: serde_json::Value) {
            let body = Bytes::from(answer.to_string());
            self.hear(Input::Answer(asked.id, Ok(body)));
        }

        /// Applies a Lease write. Returns the Lease.
        fn is_written(&mut self, what: &str) -> serde_json::Value {
            let asked = self.asks(what);
            let mut lease: serde_json::Value =
                serde_json::from_slice(&asked.call.body).expect("JSON");
            self.version += 1;
            lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
            lease["metadata"]["uid"] = json!("00000000-0000-0000-0000-0000000000aa");
            self.answer(&asked, lease.clone());
            lease
        }

        /// Returns the events and notices of each range since the last call, abbreviated.
        fn told(&mut self) -> Vec<(usize, String)> {
            let short = |notice: &Notice| match notice {
                Notice::Forget(_) => "forget".to_owned(),
                Notice::Complete(..) => "complete".to_owned(),
                Notice::History { known, .. } => format!("knows {}", *known == Kinds::ALL),
                Notice::Lead(until) => format!("leads {}", *until > Monotonic::default()),
                notice => format!("{notice:?}"),
            };
            let mut told = std::mem::take(&mut self.told);
            while let Some((range, notice)) = self.common.poll_notice_to_one() {
                told.push((range, short(&notice)));
            }
            while let Some(notice) = self.common.poll_notice() {
                for range in 0..2 {
                    let notice = self.common.narrowed(range, &notice);
                    told.push((range, short(&notice)));
                }
            }
            told
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
    fn a_range_is_reported_when_acquired_and_when_lost() {
        let namespace = |shard| {
            let mut names = (0..).map(|number| format!("team-{number}"));
            names
                .find(|name| PARTITION.range_of(name) == shard)
                .expect("one")
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
        assert_eq!(told, all_of(&["forget", "leads true"]));

        // Both shards get the events of their namespaces.
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

        // Another replica joins: one range is finished and given up.
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
        assert!(world.common.leads_until(given) > Some(Monotonic::default()));
        world.common.retired(1, world.now);
        assert_eq!(world.common.leads_until(given), Some(Monotonic::default()));
        let told = world.told();
        let of_given = |what: &str| (given, what.to_owned());
        assert_eq!(told[..2], [of_given("leads false"), of_given("forget")]);
        let look = world.asks("GET /apis/coordination.k8s.io");
        world.answer(&look, lease);
        let lease = world.is_written("PUT");
        assert_eq!(roster(&lease)["one"]["ranges"], json!([1 - given]));
        world.told();

        // Events of the other replica's namespaces are dropped.
        for (shard, name) in namespaces.iter().enumerate() {
            let event = json!({"type": "MODIFIED", "object": job(name, 20 + shard)});
            world.hear(Input::Piece(watch.id, format!("{event}\n").into()));
            let news = (shard, format!("news of {name}"));
            assert_eq!(world.told().contains(&news), shard != given);
        }
    }

    #[test]
    fn a_range_that_is_gained_is_read_from_then_on() {
        let partition = Partition {
            ranges: 2,
            by: Division::Interval,
        };
        let selects = |request: &Request, ranges: &[usize]| {
            let selector = partition.selector(ranges.iter().copied()).expect("one");
            let query = format!("&shardSelector={}", lakh_wire::paths::escaped(&selector));
            let path = &request.call.path;
            assert!(path.ends_with(&query), "{path} {ranges:?}");
        };
        // The Lease of another replica that is alive.
        let mut first = World::with(partition);
        let look = first.asks("GET /apis/coordination.k8s.io");
        let none = ApiError::from_response(404, b"{}", None);
        first.hear(Input::Answer(look.id, Err(none)));
        let mut lease = first.is_written("POST");
        let with = |lease: &mut serde_json::Value, entries: serde_json::Value| {
            lease["metadata"]["annotations"]["lakh.dev/replicas"] = json!(entries.to_string());
        };
        with(
            &mut lease,
            json!({"two": {"beat": 1, "seconds": 15, "ranges": []}}),
        );
        let mut world = World::with(partition);
        world.version = 10;
        let look = world.asks("GET /apis/coordination.k8s.io");
        world.answer(&look, lease);
        let mut lease = world.is_written("PUT");
        assert_eq!(roster(&lease)["one"]["ranges"], json!([1]));
        let of_lease = world.asks("leases?watch=true");
        world.hear(Input::Opened(of_lease.id, Encoding::Json));
        let list = world.asks("jobs?limit=500");
        selects(&list, &[1]);
        let nothing = json!({"metadata": {"resourceVersion": "9"}, "items": []});
        world.answer(&list, nothing);
        let watch = world.asks("jobs?watch=true");
        selects(&watch, &[1]);
        world.hear(Input::Opened(watch.id, Encoding::Json));

        // The other replica leaves.
        world.now = world.now + Duration::from_secs(2);
        let look = world.asks("GET /apis/coordination.k8s.io");
        let one = roster(&lease)["one"].clone();
        with(&mut lease, json!({"one": one}));
        world.answer(&look, lease);
        let lease = world.is_written("PUT");
        assert_eq!(roster(&lease)["one"]["ranges"], json!([0, 1]));
        selects(&world.asks("jobs?limit=500"), &[0, 1]);
    }
}
