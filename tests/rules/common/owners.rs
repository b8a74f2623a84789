//! Drives the claims on Pods and the ownership state of Jobs through one step of a golden case, as the shell would. It
//! handles events, turns from the work queue, rounds, and freed Pods.
//!
//! ```text
//! mode    managed-by lakh.dev/jobs      instead of `replace`
//! jobs    j1 app=train                  a Job by its label, and its selector; then any of
//!                                       deleting, Complete, managedBy=example.com/other
//! pod     a app=train owner=j1 fin      a Pod by its label, with its state from now on; T: being deleted.
//!                                       Owners: a Job, `CronJob`, `acme/Job`; j1:j9: with the UID of j1 and
//!                                       the name j9; refers=j1: no controller; in=b: in that namespace;
//!                                       made-by=j1: its controller-uid label has the UID of j1
//! gone    a                             a Pod or Job is gone
//! restart                               another controller starts and lists everything
//! fake    adoptions refused             also: releases refused, frees refused, a refused, patches find
//!                                       nothing, j1 is being deleted, j1 is late, watch late,
//!                                       well
//! expect
//!   turn j1                             a turn of a Job, with its state in brackets if special
//!   look j1                             a live read of the Job
//!   adopt a by j1                       also: release a from j1, free a, fin a (finalizer removed in a turn)
//!   wake +1s                            the time of the next retry
//!   pod a owner=j1 fin                  the Pods at the end
//! ```

use std::{collections::BTreeMap, time::Duration};

use hashbrown::HashSet;
use lakh::{
    flow::WorkQueue,
    model::{Controller, DecodedPod, Job, JobId, JobKey, Limits, Now, Uid},
    ownership::{Claims, ManagerName, Mode, PatchAnswer, Round, Standing},
    wire::{Object, PodDecoder, decode_job},
};
use serde_json::{Value, json};

use super::{
    print,
    words::{START, millis},
};

/// A Pod on the server.
#[derive(Clone, Debug, Default)]
struct Pod {
    words: Vec<String>,
    version: u64,
}

/// Drives the claims of a golden case. `take_in` applies one input line; `run` runs the claims and the queue, and
/// returns the trace.
pub(crate) struct Owners {
    mode: Mode,
    claims: Claims,
    queue: WorkQueue<JobId>,
    uids: BTreeMap<String, Uid>,
    jobs: BTreeMap<JobId, Job>,
    /// The words of each Job, in order of appearance.
    job_words: Vec<(String, Vec<String>)>,
    gone: HashSet<JobId>,
    pods: BTreeMap<String, Pod>,
    /// The cached owner and state of each Pod.
    store: BTreeMap<Uid, (Option<JobId>, DecodedPod<'static>)>,
    fake: String,
    version: u64,
    now: Now,
    trace: Vec<String>,
}

impl Owners {
    pub(crate) fn new() -> Self {
        let retry = Limits::default().retry_backoff;
        Self {
            mode: Mode::Replace,
            claims: Claims::new(retry),
            queue: WorkQueue::new(retry),
            uids: BTreeMap::new(),
            jobs: BTreeMap::new(),
            job_words: Vec::new(),
            gone: HashSet::new(),
            pods: BTreeMap::new(),
            store: BTreeMap::new(),
            fake: "well".to_owned(),
            version: 1,
            now: Now::at(START),
            trace: Vec::new(),
        }
    }

    /// Applies one line of a step.
    pub(crate) fn take_in(&mut self, key: &str, rest: &str) {
        let mut words = rest.split(' ').map(ToOwned::to_owned);
        match key {
            "mode" => {
                let name = rest.strip_prefix("managed-by ").expect("mode managed-by");
                self.mode = Mode::ManagedBy(ManagerName::parse(name).expect("a good name"));
            }
            "jobs" => {
                let label = words.next().expect("a label");
                let words: Vec<String> = words.collect();
                self.job_news(&label, &words);
                self.job_words.retain(|(known, _)| *known != label);
                self.job_words.push((label, words));
            }
            "pod" => {
                let label = words.next().expect("a label");
                let version = self.next_version();
                let words = words.collect();
                self.pods.insert(label.clone(), Pod { words, version });
                self.pod_news(&label);
            }
            "gone" => self.gone(rest),
            "restart" => self.restart(),
            "fake" => {
                rest.clone_into(&mut self.fake);
                if rest == "well" {
                    let all: Vec<String> = self.pods.keys().cloned().collect();
                    all.iter().for_each(|label| self.pod_news(label));
                }
            }
            "at" => self.now = Now::at(START) + Duration::from_millis(millis(rest) as u64),
            other => panic!("unknown line {other} {rest}"),
        }
    }

    /// Runs until nothing is left to do, and returns the trace.
    pub(crate) fn run(&mut self) -> Vec<String> {
        self.claims.handle_timeout(self.now.monotonic);
        loop {
            if let Some(job) = self.queue.take(self.now) {
                self.turn(job.clone());
                self.queue.done(&job);
            } else if let Some(round) = self.claims.poll_round() {
                self.round(&round);
            } else if let Some(orphan) = self.claims.poll_free() {
                let label = orphan.name.to_string();
                let refused = self.fake == "frees refused";
                self.tell("free", &label, refused);
                self.claims
                    .handle_freed(orphan.uid, !refused, self.now.monotonic);
                if !refused {
                    self.change(&label, |words| words.retain(|word| word != "fin"));
                }
            } else if let Some(job) = self.claims.poll_resumed() {
                self.queue.add(job);
            } else {
                break;
            }
        }
        if let Some(at) = self.claims.poll_timeout() {
            let at = START + at.since(Now::at(START).monotonic);
            self.trace
                .push(format!("wake {}", print::time(Some(at), START)));
        }
        for (label, pod) in &self.pods {
            let shown = format!("pod {label} {}", pod.words.join(" "));
            self.trace.push(shown.trim().to_owned());
        }
        std::mem::take(&mut self.trace)
    }

    fn turn(&mut self, job: JobId) {
        let label = label(&job);
        if self.claims.holds(&job) {
            self.trace.push(format!("turn {label} (held)"));
            return;
        }
        let standing = self.standing(&job);
        let special = match standing {
            Standing::AtWork => "",
            Standing::Finished => " (has ended)",
            Standing::Gone => " (is gone)",
            Standing::Unseen => " (was never seen)",
            Standing::External => " (is another's)",
        };
        self.trace.push(format!("turn {label}{special}"));
        let mut pods = self.store.values();
        let is_doubted = pods.any(|(owner, pod)| {
            owner.as_ref() == Some(&job) && standing.is_doubted_by(&pod.record)
        });
        if is_doubted && self.fake == format!("{label} is late") {
            self.trace.push(format!("look {label}"));
        } else if is_doubted {
            self.trace.push(format!("look {label}: not found"));
            self.gone.insert(job.clone());
            self.queue.add(job.clone());
        }
        let freed = self
            .store
            .values()
            .filter(|(owner, pod)| owner.as_ref() == Some(&job) && standing.frees(&pod.record));
        let freed: Vec<String> = freed.map(|(_, pod)| pod.name.to_string()).collect();
        for label in freed {
            self.trace.push(format!("fin {label}"));
            self.change(&label, |words| words.retain(|word| word != "fin"));
        }
    }

    fn standing(&self, job: &JobId) -> Standing {
        let known = self.jobs.get(job);
        let external = known.is_some_and(|job| !self.mode.manages(job));
        Standing::of(known, external, self.gone.contains(job))
    }

    fn round(&mut self, round: &Round) {
        let job = label(&round.job);
        let stays = self.fake != format!("{job} is being deleted");
        if !round.adopt.is_empty() {
            self.tell("look", &job, !stays);
        }
        let mut answers = Vec::new();
        let mut changed: Vec<String> = Vec::new();
        for pod in &round.adopt {
            let name = pod.name.to_string();
            let words = &self.pods[&name].words;
            let taken = words.iter().any(|word| word.starts_with("owner="));
            let answer = self.answer(&name, "adoptions refused", taken || !stays);
            if stays {
                self.tell_answer("adopt", &name, &format!("by {job}"), answer);
            }
            if let PatchAnswer::Done(version) = answer {
                let finalizer = "fin".to_owned();
                let pod = self.pods.get_mut(&name).expect("it is there");
                pod.words.retain(|word| *word != finalizer);
                pod.words.extend([format!("owner={job}"), finalizer]);
                pod.version = version;
                changed.push(name);
            }
            answers.push((pod.pod, answer));
        }
        for pod in &round.release {
            let name = pod.name.to_string();
            let answer = self.answer(&name, "releases refused", false);
            self.tell_answer("release", &name, &format!("from {job}"), answer);
            if let PatchAnswer::Done(version) = answer {
                let pod = self.pods.get_mut(&name).expect("it is there");
                pod.words
                    .retain(|word| word != "fin" && !word.starts_with("owner="));
                pod.version = version;
                changed.push(name);
            }
            answers.push((pod.pod, answer));
        }
        self.claims
            .handle_round(round, &answers, self.now.monotonic);
        if self.fake != "watch late" {
            changed.iter().for_each(|name| self.pod_news(name));
        }
    }

    fn answer(&mut self, label: &str, refusal: &str, refused: bool) -> PatchAnswer {
        let this_one = format!("{label} refused");
        match self.fake.as_str() {
            "patches find nothing" => PatchAnswer::Ignored,
            fake if refused || fake == refusal || fake == this_one => PatchAnswer::Failed,
            _ => PatchAnswer::Done(self.next_version()),
        }
    }

    fn tell_answer(&mut self, verb: &str, label: &str, whom: &str, answer: PatchAnswer) {
        let end = match answer {
            PatchAnswer::Done(_) => "",
            PatchAnswer::Ignored => ": not found",
            PatchAnswer::Failed => ": refused",
            PatchAnswer::Unknown => ": no answer",
        };
        self.trace.push(format!("{verb} {label} {whom}{end}"));
    }

    fn tell(&mut self, verb: &str, label: &str, refused: bool) {
        let end = if refused { ": refused" } else { "" };
        self.trace.push(format!("{verb} {label}{end}"));
    }

    /// Changes a Pod on the server. The watch delivers the change.
    fn change(&mut self, label: &str, change: impl FnOnce(&mut Vec<String>)) {
        let version = self.next_version();
        let pod = self.pods.get_mut(label).expect("it is there");
        change(&mut pod.words);
        pod.version = version;
        self.pod_news(label);
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn uid(&mut self, label: &str) -> Uid {
        let next = Uid::from_u128(self.uids.len() as u128 + 1);
        *self.uids.entry(label.to_owned()).or_insert(next)
    }

    /// The Job of this label, in the default namespace.
    fn job(&mut self, label: &str) -> JobId {
        JobId {
            uid: self.uid(label),
            key: JobKey {
                namespace: "default".into(),
                name: label.into(),
            },
        }
    }

    fn job_news(&mut self, label: &str, words: &[String]) {
        let uid = self.uid(label);
        let mut job = json!({
            "metadata": {
                "name": label, "namespace": "default", "uid": uid.to_string(),
                "resourceVersion": self.next_version().to_string(), "generation": 1,
            },
            "spec": {"selector": {"matchLabels": {}}, "template": {"spec": {}}},
            "status": {},
        });
        for word in words {
            match word.split_once('=') {
                Some(("managedBy", name)) => job["spec"]["managedBy"] = json!(name),
                Some((key, value)) => job["spec"]["selector"]["matchLabels"][key] = json!(value),
                None if word == "deleting" => {
                    job["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
                }
                None => job["status"]["conditions"] = json!([{"type": word, "status": "True"}]),
            }
        }
        let decoded = decode_job(&job.to_string()).expect("a good Job");
        let ours = self.mode.manages(&decoded.job);
        let told = ours.then(|| {
            self.claims
                .handle_job(&decoded.job, decoded.selector.as_ref())
        });
        let id = decoded.job.id();
        self.jobs.insert(id.clone(), decoded.job);
        self.claims.settle(told.unwrap_or_default());
        self.queue.add(id);
    }

    /// Delivers an event with the server's state of a Pod.
    fn pod_news(&mut self, label: &str) {
        let pod = self.decoded(label);
        let uid = pod.record.uid;
        let told = self.claims.handle_pod(&pod);
        let owner = match &pod.controller {
            Controller::Job(job) => Some(job.clone()),
            Controller::Other | Controller::None => None,
        };
        let known = self.store.get(&uid).and_then(|(owner, _)| owner.clone());
        // Adds the previous and the current owner. The queue holds a key at most once.
        for job in known.into_iter().chain(owner.clone()) {
            self.queue.add(job);
        }
        self.store.insert(uid, (owner, pod));
        self.claims.settle(told);
    }

    fn decoded(&mut self, label: &str) -> DecodedPod<'static> {
        let pod = self.pods[label].clone();
        let mut json = json!({
            "metadata": {
                "name": label, "namespace": "default", "uid": self.uid(label).to_string(),
                "resourceVersion": pod.version.to_string(), "labels": {},
            },
            "spec": {}, "status": {"phase": "Running"},
        });
        for word in &pod.words {
            match word.split_once('=') {
                Some(("owner", owner)) => {
                    let owner = self.owner(owner, true);
                    json["metadata"]["ownerReferences"] = json!([owner]);
                }
                Some(("refers", owner)) => {
                    let owner = self.owner(owner, false);
                    json["metadata"]["ownerReferences"] = json!([owner]);
                }
                Some(("made-by", job)) => {
                    let uid = self.uid(job).to_string();
                    json["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = json!(uid);
                }
                Some(("in", namespace)) => json["metadata"]["namespace"] = json!(namespace),
                Some((key, value)) => json["metadata"]["labels"][key] = json!(value),
                None if word == "fin" => {
                    json["metadata"]["finalizers"] = json!([self.mode.finalizer()]);
                }
                None if word == "T" => {
                    json["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
                }
                None => json["status"]["phase"] = json!(word),
            }
        }
        let decoder = PodDecoder {
            finalizer: self.mode.finalizer(),
        };
        decoder
            .decode(Object::Json(&json.to_string()))
            .expect("a good Pod")
            .into_owned()
    }

    fn owner(&mut self, label: &str, controller: bool) -> Value {
        // The author of a reference can write any UID and name.
        let (label, name) = label.split_once(':').unwrap_or((label, label));
        let (version, kind) = match label {
            "CronJob" => ("batch/v1", "CronJob"),
            "acme/Job" => ("acme.io/v1", "Job"),
            _ => ("batch/v1", "Job"),
        };
        json!({
            "apiVersion": version, "kind": kind, "name": name,
            "uid": self.uid(label).to_string(), "controller": controller,
        })
    }

    fn gone(&mut self, label: &str) {
        let uid = self.uid(label);
        if self.pods.remove(label).is_some() {
            let told = self.claims.handle_pod_gone(uid, "default");
            if let Some((Some(job), _)) = self.store.remove(&uid) {
                self.queue.add(job);
            }
            self.claims.settle(told);
        } else {
            let job = self.job(label);
            let told = self.claims.handle_job_gone(&job);
            self.gone.insert(job.clone());
            self.claims.settle(told);
            self.queue.add(job);
        }
    }

    /// Starts another controller. It receives the Jobs first, then the Pods.
    fn restart(&mut self) {
        let retry = Limits::default().retry_backoff;
        self.claims = Claims::new(retry);
        self.queue = WorkQueue::new(retry);
        self.store.clear();
        for (label, words) in self.job_words.clone() {
            self.job_news(&label, &words);
        }
        let all: Vec<String> = self.pods.keys().cloned().collect();
        all.iter().for_each(|label| self.pod_news(label));
    }
}

/// The name of a Job in traces.
fn label(job: &JobId) -> String {
    match job.key.namespace.as_str() {
        "default" => job.key.name.to_string(),
        _ => job.key.to_string(),
    }
}
