//! Random histories of several tenants over a real shard. They check invariants of its store after every step. Requests
//! reach the server ([`Server`]) late, and so do its responses; some are lost.
//!
//! The simulation (docs/simulator.md) covers more, but sees the shard only from outside. Here tenants create Pods with
//! the UID of any Job, from any namespace and under any name. They change owners and indexes, and delete and recreate
//! objects under the same names. The watch lags and repeats old events; lists come in between. Read first:
//! [`World::step`], then [`World::check`] and [`World::rest`]. A failure prints its seed; `LAKH_SEED` repeats it.

mod server;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher as _, RandomState},
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use lakh_model::{JobId, JobKey, TRACKING_FINALIZER, Time};
use lakh_wire::{ApiError, Call, Object, PodDecoder, decode_job};

use crate::{
    informer::Kinds,
    machine::{CallId, Input, Machine as _},
    metrics::Metrics,
    shard::{Limiter, Rate, Settings},
};

use server::{
    JOBS, PODS, Place, Server, has_ended, is_deleting, is_held, owner, place, text, uid, version,
};

#[test]
fn a_list_that_was_given_up_on_its_way_shows_nothing() {
    let pods = || Extent {
        kind: Kind::Pod,
        namespace: None,
    };
    let mut listed = Listed::default();
    listed.shown(pods(), 5, Uid::from_u128(1));
    listed.shown(pods(), 7, Uid::from_u128(2));
    let shown = listed.complete(&pods(), 7);
    assert!(shown.len() == 1 && shown.contains(&Uid::from_u128(2)));
}

/// Seeds that always run.
const FIXED: std::ops::Range<u64> = 1..9;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Identity of a Pod in events: its place and UID.
type Told = (Place, Uid);

/// A response of the server.
struct Answer {
    id: CallId,
    result: Result<Bytes, ApiError>,
    /// The Pod at that time, if the response is about one.
    pod: Option<Value>,
    /// The shard only reads the version from it.
    is_ack: bool,
}

struct World {
    seed: u64,
    now: Now,
    server: Server,
    /// All Jobs that ever existed.
    all_jobs: Vec<JobId>,
    /// Past events of the Pod watch.
    old_news: Vec<Value>,
    shard: Shard,
    sent: Vec<(CallId, Call)>,
    answers: Vec<Answer>,
    told: BTreeSet<Told>,
    /// The owner of each Pod in its latest event, and its version.
    owners: BTreeMap<Uid, (Option<JobId>, u64)>,
    first_indexes: BTreeMap<(Uid, JobId), u64>,
}

fn reference(name: &str, uid: Uid) -> Value {
    json!([{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid.to_string(),
        "controller": true}])
}

/// The scope of all objects of a kind.
fn extent(kind: usize) -> Extent {
    Extent {
        kind: [Kind::Job, Kind::Pod][kind],
        namespace: None,
    }
}

fn news(kind: usize, change: Change, object: &Value) -> News<'static> {
    let json = object.to_string();
    let object = match kind {
        JOBS => Observed::Job(Box::new(decode_job(&json).expect("a good Job"))),
        _ => {
            let finalizer = TRACKING_FINALIZER;
            let pod = PodDecoder { finalizer }.decode(Object::Json(&json));
            Observed::Pod(pod.expect("a good Pod").into_owned())
        }
    };
    News { change, object }
}

impl World {
    fn new(seed: u64) -> Self {
        let settings = Settings::of_jobs(96);
        let limiter = Arc::new(Limiter::new(Rate { qps: 0, burst: 0 }));
        let mut shard = Shard::new(settings, &limiter, Arc::new(Metrics::default()));
        shard.notice(&Notice::History {
            number: 0,
            known: Kinds::ALL,
            is_heard: true,
            round: 0,
            listed: Kinds::ALL,
        });
        Self {
            seed,
            now: Now::at(Time::from_secs(1_000_000)),
            server: Server::default(),
            all_jobs: Vec::new(),
            old_news: Vec::new(),
            shard,
            sent: Vec::new(),
            answers: Vec::new(),
            told: BTreeSet::new(),
            owners: BTreeMap::new(),
            first_indexes: BTreeMap::new(),
        }
    }

    /// Returns pseudorandom numbers determined by the seed (SplitMix64).
    fn below(&mut self, end: usize) -> usize {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.seed;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % end.max(1) as u64) as usize
    }

    fn pick<T: Clone>(&mut self, from: impl IntoIterator<Item = T>) -> Option<T> {
        let all: Vec<T> = from.into_iter().collect();
        let at = self.below(all.len());
        all.get(at).cloned()
    }

    /// Runs a random action.
    fn step(&mut self) {
        match self.below(100) {
            0..16 => self.people(),
            16..30 => self.kubelet(),
            30..34 => self.watch(JOBS),
            34..52 => self.watch(PODS),
            52..55 => self.tell_again(),
            55..57 => {
                let kind = self.below(2);
                self.list(kind);
            }
            57..74 => drop(self.poll()),
            74..85 => self.serve(),
            85..97 => self.answer(),
            _ => self.pass(Duration::from_millis(1500)),
        }
        self.check();
    }

    fn people(&mut self) {
        let namespace = ["a", "b"][self.below(2)];
        let pods: Vec<Place> = self.server.pods.keys().cloned().collect();
        let pod = self.pick(pods);
        let job = self.pick(self.all_jobs.clone());
        match (self.below(12), job, pod) {
            (0..2, ..) => self.make_job(namespace),
            (2, Some(job), _) if self.below(4) == 0 => self.delete_job(&job),
            (3, Some(job), _) => {
                let at = (job.key.namespace.into(), job.key.name.into());
                let Some(mut job) = self.server.jobs.get(&at).cloned() else {
                    return;
                };
                let suspend = job["spec"]["suspend"] == json!(true);
                job["spec"]["suspend"] = json!(!suspend);
                job["metadata"]["generation"] = json!(self.server.version);
                self.server.put(JOBS, job);
            }
            (4..7, Some(job), pod) if self.server.pods.len() < 30 => {
                self.forge(namespace, &job, pod)
            }
            (7, _, Some(at)) => {
                let index = self.below(4).to_string();
                self.server.change_pod(&at, |pod| {
                    pod["metadata"]["annotations"] = json!({INDEX: index});
                });
            }
            (8, Some(job), Some(at)) => {
                self.server.change_pod(&at, |pod| {
                    pod["metadata"]["ownerReferences"] = reference(&job.key.name, job.uid);
                });
            }
            (9, _, Some(at)) => {
                self.server
                    .change_pod(&at, |pod| pod["metadata"]["finalizers"] = json!([]));
            }
            (10, _, Some(at)) => drop(self.server.delete_pod(&at)),
            (11, ..) => self.snatch(),
            _ => {}
        }
    }

    fn make_job(&mut self, namespace: &str) {
        let name = ["j", "k"][self.below(2)];
        let at = (namespace.to_owned(), name.to_owned());
        if self.server.jobs.contains_key(&at) {
            return;
        }
        let mode = ["Indexed", "NonIndexed"][self.below(2)];
        let (id, size) = (self.server.next_uid(), self.below(4));
        let job = json!({
            "metadata": {"name": name, "namespace": namespace, "uid": id.to_string(), "generation": 1},
            "spec": {"parallelism": size, "completions": size, "completionMode": mode, "backoffLimit": 2,
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never"}}},
            "status": {},
        });
        self.server.put(JOBS, job);
        let (namespace, name) = (namespace.into(), name.into());
        self.all_jobs.push(JobId {
            uid: id,
            key: JobKey { namespace, name },
        });
    }

    /// Deletes a Job with its dependents, and with all objects that name it.
    fn delete_job(&mut self, job: &JobId) {
        let at = (job.key.namespace.to_string(), job.key.name.to_string());
        let Some(mut found) = self.server.jobs.get(&at).cloned() else {
            return;
        };
        if uid(&found) != job.uid {
            return;
        }
        found["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
        self.server.put(JOBS, found);
        let named = |pod: &&Value| owner(pod).is_some_and(|owner| owner.uid == job.uid);
        let pods: Vec<Place> = self.server.pods.values().filter(named).map(place).collect();
        pods.iter().for_each(|at| drop(self.server.delete_pod(at)));
    }

    /// Deletes a Pod before the response to its creation arrives; often only a list shows that.
    fn snatch(&mut self) {
        let answers = self.answers.iter().filter_map(|answer| answer.pod.as_ref());
        let answers: Vec<Uid> = answers.map(uid).collect();
        let pod = self.pick(answers);
        let found = self
            .server
            .pods
            .values()
            .find(|found| Some(uid(found)) == pod);
        if let Some(at) = found.filter(|pod| !has_ended(pod)).map(place) {
            self.server.change_pod(&at, |pod| {
                pod["metadata"]["finalizers"] = json!([]);
                pod["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
                pod["status"]["phase"] = json!("Failed");
            });
            if self.below(2) == 0 {
                self.list(PODS);
            }
        }
    }

    /// Creates a Pod with arbitrary claims, under a name that may exist elsewhere.
    fn forge(&mut self, namespace: &str, job: &JobId, other: Option<Place>) {
        let name = match other.filter(|_| self.below(3) == 0) {
            Some((_, name)) => name,
            None => format!("{}-{}", job.key.name, self.below(50)),
        };
        let at = (namespace.to_owned(), name.clone());
        if self.server.pods.contains_key(&at) {
            return;
        }
        let called = self.pick(["j", "k", "other", job.key.name.as_str()]);
        let phase = self.pick(["Running", "Succeeded", "Failed"]);
        let held = [json!([]), json!([TRACKING_FINALIZER])][self.below(2)].clone();
        let pod = json!({
            "metadata": {
                "name": name, "namespace": namespace, "uid": self.server.next_uid().to_string(),
                "annotations": {INDEX: self.below(4).to_string()}, "finalizers": held,
                "ownerReferences": reference(called.expect("four"), job.uid),
            },
            "spec": {}, "status": {"phase": "Pending"},
        });
        self.server.put(PODS, pod);
        self.server
            .change_pod(&at, |pod| pod["status"]["phase"] = json!(phase));
    }

    /// Advances the state of a Pod.
    fn kubelet(&mut self) {
        let pods = self.server.pods.iter().filter(|(_, pod)| !has_ended(pod));
        let pods: Vec<Place> = pods.map(|(at, _)| at.clone()).collect();
        let Some(at) = self.pick(pods) else { return };
        let next = match text(&self.server.pods[&at], "/status/phase") {
            "Pending" => "Running",
            _ => ["Succeeded", "Succeeded", "Failed"][self.below(3)],
        };
        self.server
            .change_pod(&at, |pod| pod["status"]["phase"] = json!(next));
    }

    /// Records the event of a Pod for the checks.
    fn hear(&mut self, pod: &Value) {
        let (id, owner) = (uid(pod), owner(pod));
        let known = self.owners.get(&id).map_or(0, |(_, version)| *version);
        if version(pod) < known {
            return;
        }
        if let Some(owner) = &owner {
            self.told.insert((place(pod), id));
            let index = pod["metadata"]["annotations"][INDEX].as_str();
            let index = index.and_then(|index| index.parse().ok());
            let before = self.owners.get(&id).and_then(|(owner, _)| owner.as_ref());
            let key = (id, owner.clone());
            if before != Some(owner) {
                // The Pod is new, or comes back.
                self.first_indexes.remove(&key);
            }
            if let Some(index) = index {
                self.first_indexes.entry(key).or_insert(index);
            }
        }
        self.owners.insert(id, (owner, version(pod)));
    }

    /// Sends the next event of a kind's watch.
    fn watch(&mut self, kind: usize) {
        let Some((event, object)) = self.server.news[kind].pop_front() else {
            return;
        };
        if kind == PODS {
            match event {
                "DELETED" => {
                    self.owners.remove(&uid(&object));
                    self.old_news.retain(|old| uid(old) != uid(&object));
                }
                _ => {
                    self.hear(&object);
                    self.old_news.push(object.clone());
                }
            }
        }
        self.tell(kind, event, &object);
    }

    fn tell(&mut self, kind: usize, event: &str, object: &Value) {
        let change = match event {
            "DELETED" => Change::Deleted,
            _ => Change::Applied,
        };
        self.shard.hear(news(kind, change, object), self.now);
        let notice = Notice::Seen(extent(kind), version(object));
        self.shard.notice(&notice);
    }

    /// Repeats an old event of an existing Pod.
    fn tell_again(&mut self) {
        if let Some(old) = self.pick(self.old_news.clone()) {
            self.tell(PODS, "MODIFIED", &old);
        }
    }

    /// Sends a complete list, which includes the events that the watch has not sent yet.
    fn list(&mut self, kind: usize) {
        self.server.news[kind].clear();
        let all = if kind == JOBS {
            &self.server.jobs
        } else {
            &self.server.pods
        };
        let objects: Vec<Value> = all.values().cloned().collect();
        if kind == PODS {
            let listed: BTreeSet<Uid> = objects.iter().map(uid).collect();
            let version = self.server.version;
            // The watch has yet to show Pods that a late response returned in a newer version.
            self.owners
                .retain(|uid, (_, seen)| listed.contains(uid) || *seen > version);
            self.old_news.clear();
            objects.iter().for_each(|pod| self.hear(pod));
        }
        let version = self.server.version;
        for object in &objects {
            let news = news(kind, Change::Listed(version), object);
            self.shard.hear(news, self.now);
        }
        assert_eq!(
            self.shard.poll_report(),
            None,
            "the server was not restored"
        );
        let notice = Notice::Complete(extent(kind), version);
        self.shard.notice(&notice);
    }

    /// Polls the shard for a request. Returns false if there was none.
    fn poll(&mut self) -> bool {
        let Some(request) = self.shard.poll_request(self.now) else {
            return false;
        };
        let call = request.call;
        self.check_call(&call);
        self.sent.push((request.id, call));
        true
    }

    /// Checks that no write targets a Pod without an event in that namespace with that UID.
    fn check_call(&self, call: &Call) {
        let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let (path, _) = call.path.split_once('?').unwrap_or((&call.path, ""));
        let meant = match call.method.as_str() {
            "DELETE" => text(&body, "/preconditions/uid"),
            "PATCH" if path.contains("/pods/") => text(&body, "/metadata/uid"),
            _ => return,
        };
        let parts: Vec<&str> = path.split('/').collect();
        let [.., namespace, "pods", name] = parts[..] else {
            panic!("{call:?}");
        };
        let place = (namespace.to_owned(), name.to_owned());
        let told = (place, Uid::parse(meant).expect("a write names a UID"));
        assert!(self.told.contains(&told), "nobody told of {told:?}");
    }

    /// Delivers a request to the server, or loses it or its response.
    fn serve(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let at = self.below(self.sent.len());
        let (id, call) = self.sent.swap_remove(at);
        let fate = self.below(20);
        let refused = |code| ApiError::from_response(code, b"", None);
        let result = match fate {
            0 => Err(refused(403)),
            1 => Err(refused(500)),
            _ => self.server.handle(&call),
        };
        if let Ok(job) = &result
            && call.path.ends_with("/status")
        {
            self.check_status(job);
        }
        let (result, pod) = match result {
            _ if fate == 2 => (Err(ApiError::no_answer("a lost answer")), None),
            Ok(object) => {
                let pod = call.path.contains("/pods").then(|| object.clone());
                (Ok(Bytes::from(object.to_string())), pod)
            }
            Err(error) => (Err(error), None),
        };
        self.answers.push(Answer {
            id,
            result,
            pod,
            is_ack: call.method != "GET" && call.method != "POST",
        });
    }

    /// Checks that no status counts more Pods than existed.
    fn check_status(&self, job: &Value) {
        let (namespace, name) = place(job);
        let id = JobId {
            uid: uid(job),
            key: JobKey {
                namespace: namespace.into(),
                name: name.into(),
            },
        };
        let succeeded = self.server.succeeded.iter();
        let really = succeeded.filter(|(job, ..)| *job == id).count();
        let told = job["status"]["succeeded"].as_u64().unwrap_or(0);
        assert!(told <= really as u64, "{told} of {really} Pods of {id:?}");
    }

    /// Returns the cached version of a Pod.
    fn version_known(&self, pod: Uid) -> Option<u64> {
        Some(self.shard.store.pod(pod)?.resource_version)
    }

    /// Delivers a response.
    fn answer(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        let at = self.below(self.answers.len());
        let answer = self.answers.swap_remove(at);
        let pod = answer.pod.as_ref();
        let before = pod.and_then(|pod| self.version_known(uid(pod)));
        let input = Input::Answer(answer.id, answer.result);
        self.shard.handle(input, self.now);
        let Some(pod) = answer.pod else { return };
        let known = self.version_known(uid(&pod));
        if known == before || known != Some(version(&pod)) {
            return;
        }
        // The shard applies it, so earlier events are stale.
        match self.owners.get_mut(&uid(&pod)) {
            Some((_, seen)) if answer.is_ack => *seen = version(&pod),
            _ => self.hear(&pod),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// Checks the store's invariants that hold at any time.
    fn check(&self) {
        let gone = |uid_of: Uid| {
            let mut news = self.server.news[1].iter();
            news.any(|(event, pod)| *event == "DELETED" && uid(pod) == uid_of)
        };
        let there: BTreeSet<Uid> = self.server.pods.values().map(uid).collect();
        for key in self.shard.store.actors() {
            let state = self.shard.store.get(key).expect("it is there");
            let job = &state.id;
            for (_, pod) in state.pods.iter() {
                let told = self.owners.get(&pod.uid);
                let (owner, version) = told.unwrap_or_else(|| panic!("{} came back", pod.uid));
                assert_eq!(
                    owner.as_ref(),
                    Some(&**job),
                    "{} is another actor's",
                    pod.uid
                );
                assert!(pod.resource_version >= *version, "{} is old", pod.uid);
                let ghost = !there.contains(&pod.uid) && !gone(pod.uid);
                assert!(!ghost, "{} is a ghost", pod.uid);
                let first = self.first_indexes.get(&(pod.uid, (**job).clone()));
                let index = pod.index.map(|index| u64::from(index.get()));
                assert_eq!(index, first.copied(), "the index of {}", pod.uid);
            }
        }
    }

    /// Stops all tenants, and checks the final state.
    fn rest(&mut self) {
        for _ in 0..60 {
            while self.poll()
                || self.server.news.iter().any(|news| !news.is_empty())
                || !(self.sent.is_empty() && self.answers.is_empty())
            {
                self.watch(JOBS);
                self.watch(PODS);
                self.serve();
                self.answer();
                self.check();
            }
            self.pass(Duration::from_secs(30));
        }
        let job_of = |pod: &Value| owner(pod).unwrap_or_default();
        for key in self.shard.store.actors() {
            let state = self.shard.store.get(key).expect("it is there");
            let job = &state.id;
            let known = state
                .pods
                .iter()
                .map(|(_, pod)| (pod.uid, pod.resource_version));
            let truth = self.server.pods.values().filter(|pod| job_of(pod) == **job);
            let truth: BTreeMap<Uid, u64> = truth.map(|pod| (uid(pod), version(pod))).collect();
            assert_eq!(known.collect::<BTreeMap<_, _>>(), truth, "{job:?}");
            let there = self.server.jobs.values().any(|found| uid(found) == job.uid);
            let is_left = !there && truth.is_empty();
            assert!(!is_left, "{job:?} is no more, and its actor is there");
        }
        for pod in self.server.pods.values().filter(|pod| is_held(pod)) {
            let job = job_of(pod);
            let there = self.server.jobs.values().any(|found| {
                uid(found) == job.uid && text(found, "/metadata/name") == job.key.name
            });
            let here = there && self.all_jobs.contains(&job);
            assert!(here || !is_deleting(pod), "nobody frees {pod}");
        }
    }
}

fn history(seed: u64) -> (usize, usize) {
    let mut world = World::new(seed);
    (0..700).for_each(|_| world.step());
    world.rest();
    (world.server.written, world.server.succeeded.len())
}

#[test]
fn no_tenant_reaches_over_a_wall() {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    if let Some(seed) = number("LAKH_SEED") {
        history(seed);
        return;
    }
    let fresh = RandomState::new().hash_one("a fresh seed");
    let count = number("LAKH_HISTORIES").unwrap_or(60);
    let fresh = (0..count).map(|at| fresh.wrapping_add(at));
    let (mut written, mut succeeded) = (0, 0);
    for seed in FIXED.chain(fresh) {
        let run = catch_unwind(AssertUnwindSafe(|| history(seed)));
        let (writes, ends) = run.unwrap_or_else(|_| panic!("replay with LAKH_SEED={seed}"));
        written += writes;
        succeeded += ends;
    }
    assert!(
        written > 100 && succeeded > 100,
        "{written} writes, {succeeded} ends"
    );
}
