//! Random histories of several tenants over a real shard: what it hears, its store, work queue and turns. The server is a
//! map of objects; what writes bring goes back as answers give it back, late.
//!
//! Tenants make Pods that name any Job's UID, from any namespace and by any name; they change owners and
//! indexes, delete and make again under the same names. The watch lags and tells some of it once more when
//! it is old; lists come in between. Read first: [`World::step`], then [`World::check`] and
//! [`World::rest`]. A failure prints its seed; `LAKH_SEED` repeats it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::{BuildHasher as _, RandomState},
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use serde_json::{Value, json};

use super::*;
use crate::{
    decide::{CreateError, NewPod, Outcome},
    metrics::Metrics,
    model::{
        CompactIndex, JobId, JobKey, Limits, PodFlags, PodName, PodRecord, TRACKING_FINALIZER, Time,
    },
    ownership::Mode,
    shard::{Controllers, Limiter, Rate, Settings, actor::Rules, writes::Op},
    wire::{self, Object, PodDecoder, decode_job},
};

/// Seeds that always run.
const FIXED: std::ops::Range<u64> = 1..9;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Where something is: namespace and name.
type Place = (String, String);

/// A Pod as somebody may have been told of it: where it is, who it is, whose it says it is.
type Told = (Place, Uid, JobId);

/// What the server answered.
enum Answer {
    Created(PodRecord),
    /// It was done, as of this version, or there was nothing to do it to.
    Done(Option<u64>),
    Refused,
}

/// A write that a turn asked for.
#[derive(Debug)]
struct Sent {
    actor: ActorKey,
    job: Arc<JobId>,
    op: Op,
}

struct World {
    seed: u64,
    now: Now,
    version: u64,
    uids: u128,
    jobs: BTreeMap<Place, Value>,
    pods: BTreeMap<Place, Value>,
    /// All Jobs that ever were.
    all_jobs: Vec<JobId>,
    /// What the watches of Jobs and of Pods have yet to tell.
    news: [VecDeque<(&'static str, Value)>; 2],
    /// What they told.
    old_news: Vec<Value>,
    shard: Shard,
    sent: Vec<Sent>,
    answers: Vec<(Sent, Answer)>,
    told: BTreeSet<Told>,
    /// Whose each Pod is, by the last news, and their version.
    owners: BTreeMap<Uid, (Option<JobId>, u64)>,
    first_indexes: BTreeMap<(Uid, JobId), u64>,
    /// Pods that ended well while they were a Job's.
    succeeded: BTreeSet<(JobId, Uid)>,
    /// How many Pods of Jobs were deleted and freed.
    written: usize,
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("")
}

fn place(object: &Value) -> Place {
    let name = |of| text(object, of).to_owned();
    (name("/metadata/namespace"), name("/metadata/name"))
}

fn uid(object: &Value) -> Uid {
    Uid::parse(text(object, "/metadata/uid")).expect("a UID")
}

fn version(object: &Value) -> u64 {
    let version = text(object, "/metadata/resourceVersion").parse();
    version.expect("a version")
}

/// Whose a Pod is, by its namespace and what it says itself.
fn owner(pod: &Value) -> Option<JobId> {
    Some(JobId {
        uid: Uid::parse(text(pod, "/metadata/ownerReferences/0/uid"))?,
        key: JobKey {
            namespace: text(pod, "/metadata/namespace").into(),
            name: text(pod, "/metadata/ownerReferences/0/name").into(),
        },
    })
}

fn reference(name: &str, uid: Uid) -> Value {
    json!([{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid.to_string(),
        "controller": true}])
}

fn is_held(pod: &Value) -> bool {
    !pod["metadata"]["finalizers"]
        .as_array()
        .is_none_or(Vec::is_empty)
}

fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, change) in members {
        match change {
            Value::Null => drop(target.as_object_mut().and_then(|all| all.remove(key))),
            change => merge(&mut target[key], change),
        }
    }
}

/// Of Jobs (0) or of Pods (1).
fn extent(kind: usize) -> Extent {
    Extent {
        kind: [Kind::Job, Kind::Pod][kind],
        namespace: None,
    }
}

fn news(kind: usize, change: Change, object: &Value) -> News<'static> {
    let json = object.to_string();
    match kind {
        0 => News::Job(change, Box::new(decode_job(&json).expect("a good Job"))),
        _ => {
            let finalizer = TRACKING_FINALIZER;
            let pod = PodDecoder { finalizer }.decode(Object::Json(&json));
            News::Pod(change, pod.expect("a good Pod").into_owned())
        }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let settings = Settings {
            controllers: Controllers {
                job: true,
                cronjob: false,
                ttl: false,
            },
            mode: Mode::Replace,
            limits: Limits::default(),
            namespaces: Vec::new(),
            max_in_flight: 96,
            concurrent_cron_job_syncs: 5,
            concurrent_ttl_syncs: 5,
            scheduling_api: None,
        };
        let limiter = Arc::new(Limiter::new(Rate { qps: 0, burst: 0 }));
        let mut shard = Shard::new(settings, &limiter, Arc::new(Metrics::default()));
        shard.notice(&Notice::History {
            number: 0,
            is_whole: true,
        });
        Self {
            seed,
            now: Now::at(Time::from_secs(1_000_000)),
            version: 100,
            uids: 0,
            jobs: BTreeMap::new(),
            pods: BTreeMap::new(),
            all_jobs: Vec::new(),
            news: Default::default(),
            old_news: Vec::new(),
            shard,
            sent: Vec::new(),
            answers: Vec::new(),
            told: BTreeSet::new(),
            owners: BTreeMap::new(),
            first_indexes: BTreeMap::new(),
            succeeded: BTreeSet::new(),
            written: 0,
        }
    }

    /// Numbers that the seed determines (SplitMix64).
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

    /// Something happens, anywhere.
    fn step(&mut self) {
        match self.below(100) {
            0..16 => self.people(),
            16..30 => self.kubelet(),
            30..34 => self.watch(0),
            34..52 => self.watch(1),
            52..55 => self.tell_again(),
            55..57 => {
                let kind = self.below(2);
                self.list(kind);
            }
            57..74 => drop(self.turn()),
            74..85 => self.serve(),
            85..97 => self.answer(),
            _ => self.pass(Duration::from_millis(1500)),
        }
        self.check();
    }

    fn next_uid(&mut self) -> Uid {
        self.uids += 1;
        Uid::from_u128(self.uids)
    }

    /// The server takes a version of an object, and the watch will tell.
    fn put(&mut self, kind: usize, mut object: Value) -> u64 {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let gone = is_deleting(&object)
            && (kind == 0 || !is_held(&object) && text(&object, "/status/phase") != "Running");
        let all = if kind == 0 {
            &mut self.jobs
        } else {
            &mut self.pods
        };
        if gone {
            all.remove(&place(&object));
        } else {
            all.insert(place(&object), object.clone());
        }
        let event = if gone { "DELETED" } else { "MODIFIED" };
        self.news[kind].push_back((event, object));
        self.version
    }

    fn change_pod(&mut self, at: &Place, change: impl FnOnce(&mut Value)) -> u64 {
        let mut pod = self.pods[at].clone();
        change(&mut pod);
        if let Some(owner) = owner(&pod).filter(|_| text(&pod, "/status/phase") == "Succeeded") {
            self.succeeded.insert((owner, uid(&pod)));
        }
        self.put(1, pod)
    }

    fn people(&mut self) {
        let namespace = ["a", "b"][self.below(2)];
        let pods: Vec<Place> = self.pods.keys().cloned().collect();
        let pod = self.pick(pods);
        let job = self.pick(self.all_jobs.clone());
        match (self.below(12), job, pod) {
            (0..2, ..) => self.make_job(namespace),
            (2, Some(job), _) if self.below(4) == 0 => self.delete_job(&job),
            (3, Some(job), _) => {
                let at = (job.key.namespace.into(), job.key.name.into());
                let Some(mut job) = self.jobs.get(&at).cloned() else {
                    return;
                };
                let suspend = job["spec"]["suspend"] == json!(true);
                job["spec"]["suspend"] = json!(!suspend);
                job["metadata"]["generation"] = json!(self.version);
                self.put(0, job);
            }
            (4..7, Some(job), pod) if self.pods.len() < 30 => self.forge(namespace, &job, pod),
            (7, _, Some(at)) => {
                let index = self.below(4).to_string();
                self.change_pod(&at, |pod| {
                    pod["metadata"]["annotations"] = json!({INDEX: index});
                });
            }
            (8, Some(job), Some(at)) => {
                self.change_pod(&at, |pod| {
                    pod["metadata"]["ownerReferences"] = reference(&job.key.name, job.uid);
                });
            }
            (9, _, Some(at)) => {
                self.change_pod(&at, |pod| pod["metadata"]["finalizers"] = json!([]));
            }
            (10, _, Some(at)) => self.delete_pod(&at),
            (11, ..) => self.snatch(),
            _ => {}
        }
    }

    fn make_job(&mut self, namespace: &str) {
        let name = ["j", "k"][self.below(2)];
        let at = (namespace.to_owned(), name.to_owned());
        if self.jobs.contains_key(&at) {
            return;
        }
        let mode = ["Indexed", "NonIndexed"][self.below(2)];
        let (id, size) = (self.next_uid(), self.below(4));
        let job = json!({
            "metadata": {"name": name, "namespace": namespace, "uid": id.to_string(), "generation": 1},
            "spec": {"parallelism": size, "completions": size, "completionMode": mode, "backoffLimit": 2,
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never"}}},
            "status": {},
        });
        self.put(0, job);
        let (namespace, name) = (namespace.into(), name.into());
        self.all_jobs.push(JobId {
            uid: id,
            key: JobKey { namespace, name },
        });
    }

    /// With all that is its own, and with whatever names it.
    fn delete_job(&mut self, job: &JobId) {
        let at = (job.key.namespace.to_string(), job.key.name.to_string());
        let Some(mut found) = self.jobs.get(&at).cloned() else {
            return;
        };
        if uid(&found) != job.uid {
            return;
        }
        found["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
        self.put(0, found);
        let named = |pod: &&Value| owner(pod).is_some_and(|owner| owner.uid == job.uid);
        let pods: Vec<Place> = self.pods.values().filter(named).map(place).collect();
        pods.iter().for_each(|at| self.delete_pod(at));
    }

    fn delete_pod(&mut self, at: &Place) {
        self.change_pod(at, |pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
        });
    }

    /// A Pod is gone before the answer to its creation comes; often only a list shows it.
    fn snatch(&mut self) {
        let created = self.answers.iter().filter_map(|(_, answer)| match answer {
            Answer::Created(record) => Some(record.uid),
            _ => None,
        });
        let created: Vec<Uid> = created.collect();
        let pod = self.pick(created);
        let found = self.pods.values().find(|found| Some(uid(found)) == pod);
        if let Some(at) = found.filter(|pod| !has_ended(pod)).map(place) {
            self.change_pod(&at, |pod| {
                pod["metadata"]["finalizers"] = json!([]);
                pod["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
                pod["status"]["phase"] = json!("Failed");
            });
            if self.below(2) == 0 {
                self.list(1);
            }
        }
    }

    /// A Pod that says of itself what its maker likes, under a name that may be another's elsewhere.
    fn forge(&mut self, namespace: &str, job: &JobId, other: Option<Place>) {
        let name = match other.filter(|_| self.below(3) == 0) {
            Some((_, name)) => name,
            None => format!("{}-{}", job.key.name, self.below(50)),
        };
        let at = (namespace.to_owned(), name.clone());
        if self.pods.contains_key(&at) {
            return;
        }
        let called = self.pick(["j", "k", "other", job.key.name.as_str()]);
        let phase = self.pick(["Running", "Succeeded", "Failed"]);
        let held = [json!([]), json!([TRACKING_FINALIZER])][self.below(2)].clone();
        let pod = json!({
            "metadata": {
                "name": name, "namespace": namespace, "uid": self.next_uid().to_string(),
                "annotations": {INDEX: self.below(4).to_string()}, "finalizers": held,
                "ownerReferences": reference(called.expect("four"), job.uid),
            },
            "spec": {}, "status": {"phase": "Pending"},
        });
        self.put(1, pod);
        self.change_pod(&at, |pod| pod["status"]["phase"] = json!(phase));
    }

    /// A Pod gets on with its life.
    fn kubelet(&mut self) {
        let pods = self.pods.iter().filter(|(_, pod)| !has_ended(pod));
        let pods: Vec<Place> = pods.map(|(at, _)| at.clone()).collect();
        let Some(at) = self.pick(pods) else { return };
        let next = match text(&self.pods[&at], "/status/phase") {
            "Pending" => "Running",
            _ => ["Succeeded", "Succeeded", "Failed"][self.below(3)],
        };
        self.change_pod(&at, |pod| pod["status"]["phase"] = json!(next));
    }

    /// The judge hears what the controller is told of a Pod.
    fn hear(&mut self, pod: &Value) {
        let (id, owner) = (uid(pod), owner(pod));
        let known = self.owners.get(&id).map_or(0, |(_, version)| *version);
        if version(pod) < known {
            return;
        }
        if let Some(owner) = &owner {
            self.told.insert((place(pod), id, owner.clone()));
            let index = pod["metadata"]["annotations"][INDEX].as_str();
            let index = index.and_then(|index| index.parse().ok());
            let before = self.owners.get(&id).and_then(|(owner, _)| owner.as_ref());
            let key = (id, owner.clone());
            if before != Some(owner) {
                // It comes, or comes back.
                self.first_indexes.remove(&key);
            }
            if let Some(index) = index {
                self.first_indexes.entry(key).or_insert(index);
            }
        }
        self.owners.insert(id, (owner, version(pod)));
    }

    /// The watch of Jobs (0) or of Pods (1) tells what is next.
    fn watch(&mut self, kind: usize) {
        let Some((event, object)) = self.news[kind].pop_front() else {
            return;
        };
        if kind == 1 {
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

    /// Something of a Pod that is there is told once more, and is old by now.
    fn tell_again(&mut self) {
        if let Some(old) = self.pick(self.old_news.clone()) {
            self.tell(1, "MODIFIED", &old);
        }
    }

    /// All there is, as lists tell it; what the watch had yet to tell is in it.
    fn list(&mut self, kind: usize) {
        self.news[kind].clear();
        let all = if kind == 0 { &self.jobs } else { &self.pods };
        let objects: Vec<Value> = all.values().cloned().collect();
        if kind == 1 {
            let listed: BTreeSet<Uid> = objects.iter().map(uid).collect();
            let version = self.version;
            // Of those that a late answer told of as newer, the watch is yet to tell.
            self.owners
                .retain(|uid, (_, seen)| listed.contains(uid) || *seen > version);
            self.old_news.clear();
            objects.iter().for_each(|pod| self.hear(pod));
        }
        let version = self.version;
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

    /// A Job has its turn; whether there was one whose turn it was.
    fn turn(&mut self) -> bool {
        let Some(key) = self.shard.queue.take(self.now) else {
            return false;
        };
        let rules = Rules {
            limits: Limits::default(),
            gangs: None,
            pods_seen: u64::MAX,
        };
        let (claims, now) = (&self.shard.rounds.claims, self.now);
        let actor = self.shard.store.get_mut(key);
        if let Some(actor) = actor.filter(|actor| !claims.holds(&actor.id)) {
            let turn = actor.turn(rules, now);
            let job = Arc::clone(&actor.id);
            assert!(!turn.panicked, "{job:?}");
            match turn.wake_at {
                Some(at) => self.shard.queue.add_at(key, at),
                None if turn.writes.is_empty() => self.shard.store.close_if_empty(key),
                None => {}
            }
            for op in turn.writes {
                let job = Arc::clone(&job);
                let sent = Sent {
                    actor: key,
                    job,
                    op,
                };
                self.check_write(&sent);
                self.sent.push(sent);
            }
        }
        self.shard.queue.done(&key);
        true
    }

    /// No write to an object that was not told of in that namespace under that UID, as that Job's.
    fn check_write(&self, write: &Sent) {
        let (Op::Delete(pod) | Op::RemoveFinalizer(pod, _)) = &write.op else {
            return;
        };
        let place = (write.job.key.namespace.to_string(), pod.name.to_string());
        let told = (place, pod.uid, (*write.job).clone());
        assert!(self.told.contains(&told), "nobody told of {told:?}");
    }

    /// The server carries out a write, or does not take it.
    fn serve(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let at = self.below(self.sent.len());
        let write = self.sent.swap_remove(at);
        let refused = self.below(10) == 0;
        let answer = match &write.op {
            _ if refused => Answer::Refused,
            Op::Create { template, pod, .. } => {
                let template = template.as_ref().as_ref().expect("a good template");
                let (name, body) = template.pod(pod.index, pod.failures, pod.suffix, None);
                self.create(&write.job.key, *pod, &name, &body)
            }
            Op::Delete(pod) => self.write_pod(&write.job.key, &pod.name, pod.uid, |pod| {
                pod["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
            }),
            Op::RemoveFinalizer(pod, _) => {
                self.write_pod(&write.job.key, &pod.name, pod.uid, |pod| {
                    pod["metadata"]["finalizers"] = json!([]);
                })
            }
            Op::Status {
                status, version, ..
            } => {
                let patch = wire::status_patch(status, write.job.uid, *version);
                self.write_status(&write.job.key, &patch)
            }
            Op::Gang(object) => panic!("{object:?}"),
        };
        self.answers.push((write, answer));
    }

    fn create(&mut self, key: &JobKey, new: NewPod, name: &str, body: &[u8]) -> Answer {
        let at = (key.namespace.to_string(), name.to_owned());
        if self.pods.contains_key(&at) {
            return Answer::Refused;
        }
        let mut pod: Value = serde_json::from_slice(body).expect("JSON");
        let id = self.next_uid();
        let made = json!({"metadata": {"namespace": at.0, "name": name, "uid": id.to_string()},
            "status": {"phase": "Pending"}});
        merge(&mut pod, &made);
        // Until the watch tells it is the Job's by its answer.
        self.put(1, pod);
        Answer::Created(PodRecord {
            uid: id,
            name: PodName::new(&key.name, name),
            resource_version: self.version,
            index: new.index.and_then(CompactIndex::new),
            flags: PodFlags::default().with(PodFlags::FINALIZER, true),
            ..PodRecord::default()
        })
    }

    /// A write that names the Pod by its UID: another one of that name is not touched.
    fn write_pod(
        &mut self,
        key: &JobKey,
        name: &str,
        meant: Uid,
        change: impl FnOnce(&mut Value),
    ) -> Answer {
        let at = (key.namespace.to_string(), name.to_owned());
        if self.pods.get(&at).is_none_or(|pod| uid(pod) != meant) {
            return Answer::Done(None);
        }
        self.written += 1;
        Answer::Done(Some(self.change_pod(&at, change)))
    }

    fn write_status(&mut self, key: &JobKey, patch: &[u8]) -> Answer {
        let at = (key.namespace.to_string(), key.name.to_string());
        let patch: Value = serde_json::from_slice(patch).expect("JSON");
        let Some(mut job) = self.jobs.get(&at).cloned() else {
            return Answer::Refused;
        };
        if uid(&job) != uid(&patch) || version(&job) != version(&patch) {
            return Answer::Refused;
        }
        merge(&mut job["status"], &patch["status"]);
        let id = JobId {
            uid: uid(&job),
            key: key.clone(),
        };
        let really = self.succeeded.iter().filter(|(job, _)| *job == id).count();
        let told = job["status"]["succeeded"].as_u64().unwrap_or(0);
        assert!(told <= really as u64, "{told} of {really} Pods of {id:?}");
        Answer::Done(Some(self.put(0, job)))
    }

    /// An answer comes back, as it is taken in.
    fn answer(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        let at = self.below(self.answers.len());
        let (write, answer) = self.answers.swap_remove(at);
        let (key, id) = (write.actor, Arc::clone(&write.job));
        let (store, owners) = (&mut self.shard.store, &mut self.owners);
        let mut done = |slot, uid, version: Option<u64>, flag, value| {
            store.pod_written(key, (slot, uid), version, |pod| {
                pod.flags.set(flag, value);
            });
            let actor = store.get(key);
            let written = actor.and_then(|actor| actor.pods.get(slot));
            let written = written.filter(|pod| pod.uid == uid);
            if let (Some(_), Some((_, seen))) = (written, owners.get_mut(&uid)) {
                // What is told of before is no longer true.
                *seen = version.unwrap_or(0).max(*seen);
            }
        };
        let outcome = match (write.op, answer) {
            (Op::Create { pod, .. }, Answer::Created(record)) => {
                self.created(key, &id, record);
                Outcome::PodCreated(pod.id())
            }
            (Op::Create { pod, .. }, _) => Outcome::PodNotCreated(pod.id(), CreateError::Refused),
            (Op::Delete(pod), Answer::Done(version)) => {
                done(pod.slot, pod.uid, version, PodFlags::DELETING, true);
                Outcome::PodDeleted(pod.slot)
            }
            (Op::Delete(pod), _) => Outcome::PodNotDeleted(pod.slot),
            (Op::RemoveFinalizer(pod, _), Answer::Done(version)) => {
                done(pod.slot, pod.uid, version, PodFlags::FINALIZER, false);
                Outcome::FinalizerRemoved(pod.slot)
            }
            (Op::RemoveFinalizer(pod, _), _) => Outcome::FinalizerNotRemoved(pod.slot),
            (Op::Status { status, .. }, Answer::Done(Some(version))) => {
                self.shard.store.job_status_written(key, *status, version);
                Outcome::StatusWritten
            }
            (Op::Status { .. }, _) => Outcome::StatusNotWritten,
            (Op::Gang(object), _) => panic!("{object:?}"),
        };
        if let Some(actor) = self.shard.store.get_mut(key) {
            actor.in_flight -= 1;
            actor.outcomes.push(outcome);
            self.shard.queue.add(key);
        }
    }

    /// The answer to a creation comes.
    fn created(&mut self, key: ActorKey, job: &Arc<JobId>, record: PodRecord) {
        let name = record.name.full(&job.key.name).to_string();
        let place = (job.key.namespace.to_string(), name);
        let (id, version) = (record.uid, record.resource_version);
        self.told.insert((place, id, (**job).clone()));
        self.shard.store.pod_created(key, record.clone());
        let actor = self.shard.store.get(key);
        let known = actor.is_some_and(|actor| actor.pods.iter().any(|(_, pod)| pod.uid == id));
        if known && !self.owners.contains_key(&id) {
            self.owners.insert(id, (Some((**job).clone()), version));
            if let Some(index) = record.index {
                let key = (id, (**job).clone());
                self.first_indexes.insert(key, u64::from(index.get()));
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// What must hold at any moment of what the store has.
    fn check(&self) {
        let gone = |uid_of: Uid| {
            let mut news = self.news[1].iter();
            news.any(|(event, pod)| *event == "DELETED" && uid(pod) == uid_of)
        };
        let there: BTreeSet<Uid> = self.pods.values().map(uid).collect();
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

    /// Nobody meddles any more; what must be in the end.
    fn rest(&mut self) {
        for _ in 0..60 {
            while self.news.iter().any(|news| !news.is_empty())
                || !(self.sent.is_empty() && self.answers.is_empty())
            {
                self.watch(0);
                self.watch(1);
                self.serve();
                self.answer();
                self.check();
            }
            while self.turn() {}
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
            let truth = self.pods.values().filter(|pod| job_of(pod) == **job);
            let truth: BTreeMap<Uid, u64> = truth.map(|pod| (uid(pod), version(pod))).collect();
            assert_eq!(known.collect::<BTreeMap<_, _>>(), truth, "{job:?}");
            let there = self.jobs.values().any(|found| uid(found) == job.uid);
            let is_left = !there && truth.is_empty();
            assert!(!is_left, "{job:?} is no more, and its actor is there");
        }
        for pod in self.pods.values().filter(|pod| is_held(pod)) {
            let job = job_of(pod);
            let there = self.jobs.values().any(|found| {
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
    (world.written, world.succeeded.len())
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
