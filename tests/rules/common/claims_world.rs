//! Drives the claims on Pods with random events and responses, and simulates the server.
//!
//! Users change labels and owners, and delete Pods and Jobs. Some users create Pods that name a Job's UID from another
//! namespace or with another name. The watch lags and repeats events. Patches are refused, or their responses come
//! late. Relists happen. Each request of the claims is checked against the server's state or the delivered events. Read
//! first: [`ClaimsWorld::step`].

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use hashbrown::HashSet;
use lakh::{
    model::{
        Controller, DecodedPod, Exponential, Job, JobId, JobKey, Limits, Monotonic,
        TRACKING_FINALIZER, Uid,
    },
    ownership::{Claims, Orphan, PatchAnswer, Round},
    wire::{Object, PodDecoder, decode_job},
};
use serde_json::json;

use super::world::Dice;

const RETRY: Exponential = Exponential {
    base: Duration::from_secs(1),
    max: Duration::from_secs(60),
};

/// The labels in the selectors of Jobs and on Pods.
const APPS: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug, Default)]
struct Pod {
    app: Option<usize>,
    owner: Option<Uid>,
    /// A controller that is no Job owns it.
    foreign: bool,
    /// It is in another namespace than all Jobs, whatever owner it names.
    elsewhere: bool,
    /// Its owner reference has the wrong name.
    misnamed: bool,
    finalizer: bool,
    deleting: bool,
    version: u64,
}

impl Pod {
    fn namespace(&self) -> &'static str {
        if self.elsewhere { "team-b" } else { "default" }
    }

    /// The Job that owns it.
    fn owner(&self) -> Option<Uid> {
        self.owner.filter(|_| !self.elsewhere && !self.misnamed)
    }
}

#[derive(Clone, Debug)]
struct TrueJob {
    app: usize,
    deleting: bool,
    version: u64,
}

/// An event that the watch has not delivered yet.
#[derive(Clone, Debug)]
enum News {
    Job(Uid, Option<TrueJob>),
    Pod(Uid, Option<Pod>),
}

/// Patches in flight.
#[derive(Debug)]
enum Flight {
    Round(Round),
    Free(Orphan),
}

/// The claims under test and a simulated server. `step` makes a random event happen; `rest` ends the faults, runs
/// everything to its end and checks the result.
pub(crate) struct ClaimsWorld {
    dice: Dice,
    claims: Claims,
    jobs: BTreeMap<Uid, TrueJob>,
    pods: BTreeMap<Uid, Pod>,
    /// All Pods that were ever in another namespace.
    elsewhere: BTreeSet<Uid>,
    /// Undelivered events in order, Jobs and Pods apart.
    news: [VecDeque<News>; 2],
    flights: Vec<Flight>,
    /// The last delivered state of each Pod.
    known: BTreeMap<Uid, Pod>,
    /// Pairs of a Pod and its owner that some event has delivered.
    told_owners: BTreeSet<(Uid, Uid)>,
    told_jobs: BTreeMap<Uid, TrueJob>,
    /// The Job that adopted a Pod last, by the responses to the claims.
    adopted: BTreeMap<Uid, Uid>,
    version: u64,
    uids: u128,
    now: Monotonic,
    refused: u64,
    /// The earliest time of a Job's next round after a refusal.
    not_before: BTreeMap<Uid, Monotonic>,
}

impl ClaimsWorld {
    pub(crate) fn new(dice: Dice) -> Self {
        let mut dice = dice;
        let refused = [0, 30][dice.below(2) as usize];
        Self {
            dice,
            claims: Claims::new(RETRY),
            jobs: BTreeMap::new(),
            pods: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
            news: [VecDeque::new(), VecDeque::new()],
            flights: Vec::new(),
            known: BTreeMap::new(),
            told_owners: BTreeSet::new(),
            told_jobs: BTreeMap::new(),
            adopted: BTreeMap::new(),
            version: 0,
            uids: 0,
            now: Monotonic::from_secs(1_000_000),
            refused,
            not_before: BTreeMap::new(),
        }
    }

    /// Makes a random event happen.
    pub(crate) fn step(&mut self) {
        match self.dice.below(100) {
            0..20 => self.people(),
            20..45 => self.watch(0),
            45..70 => self.watch(1),
            70..85 => self.answer(),
            85..90 => {
                self.now = self.now + Duration::from_millis(self.dice.below(5000));
                self.claims.handle_timeout(self.now);
            }
            90..92 => self.list(),
            _ => self.poll(),
        }
    }

    /// Ends the faults and user actions, runs everything to its end, and checks the result.
    pub(crate) fn rest(&mut self) {
        self.refused = 0;
        for _ in 0..10_000 {
            while self.news.iter().any(|news| !news.is_empty()) {
                self.watch(0);
                self.watch(1);
            }
            self.poll();
            if !self.flights.is_empty() {
                self.answer();
            } else if let Some(at) = self.claims.poll_timeout() {
                self.now = self.now.max(at);
                self.claims.handle_timeout(self.now);
            } else if self.news.iter().all(VecDeque::is_empty) {
                self.check_rest();
                return;
            }
        }
        panic!("no rest");
    }

    fn check_rest(&mut self) {
        for (uid, pod) in &self.pods {
            let means = |job: &TrueJob| !job.deleting && pod.app == Some(job.app) && !pod.elsewhere;
            let wanted = !pod.deleting && self.jobs.values().any(means);
            let nobodys = pod.owner.is_none() && !pod.foreign;
            assert!(!(nobodys && wanted), "{uid} was not adopted: {pod:?}");
            assert!(!(nobodys && pod.finalizer), "{uid} was not freed: {pod:?}");
            let owner = pod.owner().and_then(|job| self.jobs.get(&job));
            let strays = owner.is_some_and(|job| !job.deleting && !means(job));
            assert!(!strays, "{uid} was not released: {pod:?}");
        }
        let held: Vec<&Uid> = self
            .jobs
            .keys()
            .filter(|job| self.claims.holds(&id(**job)))
            .collect();
        assert!(held.is_empty(), "{held:?} are held");
        // Repeated events must have no effect.
        for (uid, pod) in self.pods.clone() {
            self.tell(News::Pod(uid, Some(pod)));
        }
        assert_eq!(self.claims.poll_round(), None, "a second look");
        assert_eq!(self.claims.poll_free(), None, "a second look");
        for uid in self.pods.keys().copied().collect::<Vec<_>>() {
            self.tell(News::Pod(uid, None));
        }
        for uid in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.tell(News::Job(uid, None));
        }
        assert!(
            self.claims.is_empty(),
            "something is left: {:?}",
            self.claims
        );
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn change_pod(&mut self, uid: Uid, change: impl FnOnce(&mut Pod)) -> u64 {
        let version = self.next_version();
        let pod = self.pods.get_mut(&uid).expect("it is there");
        change(pod);
        pod.version = version;
        let gone = pod.deleting && !pod.finalizer;
        let news = News::Pod(uid, Some(pod.clone()).filter(|_| !gone));
        if gone {
            self.pods.remove(&uid);
        }
        self.news[1].push_back(news);
        version
    }

    fn people(&mut self) {
        let jobs: Vec<Uid> = self.jobs.keys().copied().collect();
        let pods: Vec<Uid> = self.pods.keys().copied().collect();
        let app = [None, Some(0), Some(1), Some(2)][self.dice.below(4) as usize];
        let job = self.dice.pick(&jobs).copied();
        let pod = self.dice.pick(&pods).copied();
        match (self.dice.below(9), job, pod) {
            (0..2, ..) if jobs.len() < 6 => {
                let job = TrueJob {
                    app: app.unwrap_or(0),
                    deleting: false,
                    version: self.next_version(),
                };
                self.uids += 1;
                let uid = Uid::from_u128(self.uids);
                self.jobs.insert(uid, job.clone());
                self.news[0].push_back(News::Job(uid, Some(job)));
            }
            (2, Some(uid), _) => {
                let version = self.next_version();
                let job = self.jobs.get_mut(&uid).expect("just picked");
                let gone = std::mem::replace(&mut job.deleting, true);
                job.version = version;
                let news = News::Job(uid, Some(job.clone()).filter(|_| !gone));
                if gone {
                    self.jobs.remove(&uid);
                }
                self.news[0].push_back(news);
            }
            (3..5, ..) if pods.len() < 12 => {
                self.uids += 1;
                let uid = Uid::from_u128(self.uids);
                // A Pod that a Job creates matches its selector, and appears only once the Job is known.
                let made = job.filter(|job| self.told_jobs.contains_key(job));
                let made = made.filter(|_| self.dice.percent(50));
                let pod = Pod {
                    app: made.map_or(app, |job| Some(self.jobs[&job].app)),
                    owner: made,
                    finalizer: made.is_some() || self.dice.percent(30),
                    ..Pod::default()
                };
                let pod = self.or_a_strangers(pod, job);
                if pod.elsewhere {
                    self.elsewhere.insert(uid);
                }
                self.pods.insert(uid, pod);
                self.change_pod(uid, |_| {});
            }
            (5, _, Some(uid)) => drop(self.change_pod(uid, |pod| pod.app = app)),
            (6, _, Some(uid)) => drop(self.change_pod(uid, |pod| pod.owner = None)),
            (7, job, Some(uid)) => {
                let is_free = self.pods[&uid].owner.is_none();
                self.change_pod(uid, |pod| match job.filter(|_| is_free) {
                    Some(_) => pod.foreign = !pod.foreign,
                    None => pod.deleting = true,
                });
            }
            (_, _, Some(uid)) => drop(self.change_pod(uid, |pod| pod.deleting = true)),
            _ => {}
        }
    }

    /// A user that may create Pods may write any owner into them.
    fn or_a_strangers(&mut self, pod: Pod, job: Option<Uid>) -> Pod {
        if !self.dice.percent(30) {
            return pod;
        }
        let elsewhere = self.dice.percent(50);
        Pod {
            owner: job.filter(|_| self.dice.percent(80)),
            finalizer: self.dice.percent(70),
            elsewhere,
            misnamed: !elsewhere || self.dice.percent(50),
            ..pod
        }
    }

    /// Delivers the next event of the watch of Jobs (0) or of Pods (1), sometimes twice.
    fn watch(&mut self, kind: usize) {
        let Some(news) = self.news[kind].pop_front() else {
            return;
        };
        if self.dice.percent(10) {
            self.tell(news.clone());
        }
        self.tell(news);
    }

    fn tell(&mut self, news: News) {
        let jobs = self.told_jobs.keys().copied();
        let held: Vec<Uid> = jobs.filter(|job| self.claims.holds(&id(*job))).collect();
        let told = match &news {
            News::Job(uid, None) => {
                self.told_jobs.remove(uid);
                self.claims.handle_job_gone(&id(*uid))
            }
            News::Job(uid, Some(job)) => {
                self.told_jobs.insert(*uid, job.clone());
                let (job, selector) = decoded_job(*uid, job);
                self.claims.handle_job(&job, selector.as_ref())
            }
            News::Pod(uid, None) => {
                let namespace = if self.elsewhere.contains(uid) {
                    "team-b"
                } else {
                    "default"
                };
                self.claims.handle_pod_gone(*uid, namespace)
            }
            News::Pod(uid, Some(pod)) => self.claims.handle_pod(&decoded_pod(*uid, pod)),
        };
        for job in held {
            assert!(
                self.claims.holds(&id(job)),
                "{job} goes on before the store knows"
            );
        }
        if let News::Pod(uid, pod) = news {
            let known = self.known.get(&uid).map_or(0, |known| known.version);
            match pod {
                Some(pod) if pod.version < known => {}
                Some(pod) => {
                    self.told_owners.extend(pod.owner().map(|job| (uid, job)));
                    self.known.insert(uid, pod);
                }
                None => drop(self.known.remove(&uid)),
            }
        }
        self.claims.settle(told);
        self.check_holds();
    }

    /// Checks that each Job is held that wants a Pod without owner. Only Pods count that were delivered in their
    /// current version, or that the Job has just adopted.
    fn check_holds(&self) {
        for job in self.told_jobs.keys() {
            let is_open = |(uid, known): &(&Uid, &Pod)| {
                let truth = self.pods.get(*uid);
                truth.is_some_and(|pod| pod.version == known.version || pod.owner() == Some(*job))
            };
            let mut pods = self.known.iter().filter(is_open);
            let waits = pods.any(|(pod, _)| self.wants(*job, *pod));
            assert!(
                !waits || self.claims.holds(&id(*job)),
                "{job} does not wait"
            );
        }
    }

    /// Returns true if a Job selects a Pod that has no owner in the cache.
    fn wants(&self, job: Uid, pod: Uid) -> bool {
        let pod = self.known.get(&pod);
        let job = self.told_jobs.get(&job).filter(|job| !job.deleting);
        pod.zip(job).is_some_and(|(pod, job)| {
            let is_free = pod.owner.is_none() && !pod.foreign && !pod.elsewhere;
            is_free && !pod.deleting && pod.app == Some(job.app)
        })
    }

    /// Delivers a list of all objects, which replaces the undelivered events.
    fn list(&mut self) {
        let jobs = self.jobs.clone();
        let pods = self.pods.clone();
        self.news = [VecDeque::new(), VecDeque::new()];
        for (uid, job) in &jobs {
            self.tell(News::Job(*uid, Some(job.clone())));
        }
        let listed: HashSet<Uid> = jobs.keys().copied().collect();
        self.told_jobs.retain(|job, _| listed.contains(job));
        let told = self.claims.handle_job_list(None, &listed);
        self.claims.settle(told);
        for (uid, pod) in &pods {
            self.tell(News::Pod(*uid, Some(pod.clone())));
        }
        let listed: HashSet<Uid> = pods.keys().copied().collect();
        let told = self.claims.handle_pod_list(None, &listed, self.version);
        self.known.retain(|uid, _| listed.contains(uid));
        self.claims.settle(told);
    }

    fn poll(&mut self) {
        while let Some(job) = self.claims.poll_resumed() {
            self.not_before.remove(&job.uid);
        }
        while let Some(round) = self.claims.poll_round() {
            assert!(self.claims.holds(&round.job), "a Job goes on in its round");
            self.check_walls(&round);
            let early = self.not_before.get(&round.job.uid);
            assert!(early.is_none_or(|at| *at <= self.now), "too early again");
            self.flights.push(Flight::Round(round));
        }
        while let Some(orphan) = self.claims.poll_free() {
            let known = self.known.get(&orphan.uid);
            let told = known.map(|pod| (pod.namespace(), orphan.uid.to_string()));
            let meant = (orphan.namespace.as_str(), orphan.name.to_string());
            assert_eq!(told, Some(meant), "nobody told of such a Pod");
            let owner = self.pods.get(&orphan.uid).and_then(|pod| pod.owner());
            let adopted = owner.filter(|job| self.adopted.get(&orphan.uid) == Some(job));
            let kept = adopted.is_some_and(|job| self.claims.holds(&id(job)));
            assert!(!kept, "{} is freed and was adopted", orphan.uid);
            self.flights.push(Flight::Free(orphan));
        }
        let mut busy = BTreeSet::new();
        let mut at_work = BTreeSet::new();
        for flight in &self.flights {
            let once = match flight {
                Flight::Free(orphan) => busy.insert(orphan.uid),
                Flight::Round(round) => {
                    let mut pods = round.adopt.iter().chain(&round.release);
                    at_work.insert(&round.job) && pods.all(|pod| busy.insert(pod.pod))
                }
            };
            assert!(once, "two at once: {flight:?}");
        }
    }

    /// The server carries out or refuses a request, and responds.
    fn answer(&mut self) {
        if self.flights.is_empty() {
            return;
        }
        let at = self.dice.below(self.flights.len() as u64) as usize;
        match self.flights.swap_remove(at) {
            Flight::Free(orphan) => {
                let refused = self.dice.percent(self.refused);
                if let Some(pod) = self.pods.get(&orphan.uid).filter(|_| !refused) {
                    // The Pod may have an owner by now. The finalizer is removed only if no event delivered that owner.
                    let known = self.known.get(&orphan.uid);
                    let was_told = pod.owner.is_some()
                        && known.is_some_and(|known| known.owner == pod.owner)
                        && known.is_some_and(|known| known.version == pod.version);
                    if !was_told {
                        self.change_pod(orphan.uid, |pod| pod.finalizer = false);
                    }
                }
                self.claims.handle_freed(orphan.uid, !refused, self.now);
            }
            Flight::Round(round) => self.answer_round(&round),
        }
    }

    /// Checks that a round stays in the Job's namespace. Its Pods were delivered there, and released Pods were
    /// delivered with the Job as their owner.
    fn check_walls(&self, round: &Round) {
        assert_eq!(round.job, id(round.job.uid), "it is called otherwise");
        for pod in round.adopt.iter().chain(&round.release) {
            let known = self.known.get(&pod.pod);
            let here = known.is_some_and(|pod| pod.namespace() == "default");
            assert!(
                here && pod.name == pod.pod.to_string(),
                "{pod:?} is elsewhere"
            );
        }
        for pod in &round.release {
            let owned = self.told_owners.contains(&(pod.pod, round.job.uid));
            assert!(owned, "{pod:?} was never the Job's");
        }
    }

    fn answer_round(&mut self, round: &Round) {
        let job = round.job.uid;
        let stays = self.jobs.get(&job).is_some_and(|job| !job.deleting);
        let mut answers = Vec::new();
        for (pod, adopts) in round
            .adopt
            .iter()
            .map(|pod| (pod.pod, true))
            .chain(round.release.iter().map(|pod| (pod.pod, false)))
        {
            let refused = self.dice.percent(self.refused) || (adopts && !stays);
            let answer = match self.pods.get(&pod) {
                _ if refused => PatchAnswer::Failed,
                None => PatchAnswer::Ignored,
                Some(found) if adopts && (found.owner.is_some() || found.foreign) => {
                    PatchAnswer::Failed
                }
                Some(found) if adopts && found.deleting && !found.finalizer => PatchAnswer::Failed,
                Some(_) if adopts => PatchAnswer::Done(self.change_pod(pod, |pod| {
                    pod.owner = Some(job);
                    pod.misnamed = false;
                    pod.finalizer = true;
                })),
                Some(_) => PatchAnswer::Done(self.change_pod(pod, |pod| {
                    if pod.owner() == Some(job) {
                        pod.owner = None;
                    }
                    pod.finalizer = false;
                })),
            };
            if matches!(answer, PatchAnswer::Done(_)) && adopts {
                self.adopted.insert(pod, job);
            }
            answers.push((pod, answer));
        }
        self.not_before.remove(&job);
        self.claims.handle_round(round, &answers, self.now);
        let failed = answers
            .iter()
            .any(|(_, answer)| *answer == PatchAnswer::Failed);
        if failed && self.claims.holds(&round.job) && answers.len() == 1 {
            let (pod, _) = answers[0];
            if self.wants(job, pod) {
                let at = self.now + Limits::default().retry_backoff.delay(1);
                self.not_before.insert(job, at);
            }
        }
    }
}

/// The name of a Job is its UID.
fn id(uid: Uid) -> JobId {
    JobId {
        uid,
        key: JobKey {
            namespace: "default".into(),
            name: uid.to_string().into(),
        },
    }
}

fn decoded_job(uid: Uid, job: &TrueJob) -> (Job, Option<std::sync::Arc<lakh::model::Selector>>) {
    let mut json = json!({
        "metadata": {
            "name": uid.to_string(), "namespace": "default", "uid": uid.to_string(),
            "resourceVersion": job.version.to_string(),
        },
        "spec": {"selector": {"matchLabels": {"app": APPS[job.app]}}, "template": {"spec": {}}},
        "status": {},
    });
    if job.deleting {
        json["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    }
    let decoded = decode_job(&json.to_string()).expect("a good Job");
    (decoded.job, decoded.selector)
}

fn decoded_pod(uid: Uid, pod: &Pod) -> DecodedPod<'static> {
    let mut json = json!({
        "metadata": {
            "name": uid.to_string(), "namespace": pod.namespace(), "uid": uid.to_string(),
            "resourceVersion": pod.version.to_string(),
        },
        "spec": {}, "status": {},
    });
    let meta = &mut json["metadata"];
    if let Some(app) = pod.app {
        meta["labels"] = json!({"app": APPS[app]});
    }
    if pod.finalizer {
        meta["finalizers"] = json!([TRACKING_FINALIZER]);
    }
    if pod.deleting {
        meta["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    }
    let decoder = PodDecoder {
        finalizer: TRACKING_FINALIZER,
    };
    let mut decoded = decoder
        .decode(Object::Json(&json.to_string()))
        .expect("a good Pod")
        .into_owned();
    decoded.controller = match pod.owner {
        _ if pod.foreign => Controller::Other,
        Some(uid) => {
            let mut id = id(uid);
            id.key.namespace = pod.namespace().into();
            if pod.misnamed {
                id.key.name = "another".into();
            }
            Controller::Job(id)
        }
        None => Controller::None,
    };
    decoded
}
