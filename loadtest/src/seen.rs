//! Records the events of the Jobs and Pods under test, with their times.
//!
//! A time is the arrival of a server's event, whichever controller runs, so all controllers are measured by the same
//! rules. Only a tenant's latencies start at its request. A Pod is *finished* when its phase is Succeeded or Failed. It
//! is *counted* when it then no longer carries a finalizer of Job tracking.
//!
//! Must not: write anything.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use lakh::{
    client::Client,
    embedded::{
        apiserver::{EventType, Kind, Stored},
        serve::{LogReader, SharedApi},
    },
    model::COMPLETION_INDEX,
    wire::paths,
};
use serde::Deserialize;
use tokio::{sync::mpsc, time::sleep};

use crate::{
    follow::{Followed, News, follow},
    latency::Latencies,
    report::Waits,
    scenario::MAIN_JOB,
};

/// Label with the name of a Pod's Job.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";

/// Suffix of the finalizers of Job tracking, of any controller.
const TRACKING: &str = "/job-tracking";

/// Maximum number of events per read of the embedded server's log.
const EVENTS_AT_ONCE: usize = 2048;

/// Time to gather events, so that reading them stays cheap. It is the resolution of all latencies on the embedded
/// cluster.
const GATHER: Duration = Duration::from_millis(1);

/// Polling interval of a wait.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The observations of a run.
#[derive(Debug)]
pub(crate) struct Seen {
    started: Instant,
    state: Mutex<State>,
}

/// The state observed so far.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) counts: Counts,
    pub(crate) finished_to_counted: Latencies,
    pub(crate) created_to_first_pod: Latencies,
    /// When each index of the main Job succeeded, in seconds from the start; NaN if not yet.
    pub(crate) index_done: Vec<f32>,
    pods: HashMap<String, Pod>,
    jobs: HashMap<String, JobSeen>,
}

/// Numbers of Pods and Jobs per state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Pods that ever existed.
    pub(crate) created: u32,
    /// Pods that exist and have not finished.
    pub(crate) active: u32,
    /// Pods that have succeeded.
    pub(crate) succeeded: u32,
    /// Pods that have failed.
    pub(crate) failed: u32,
    /// Finished Pods that are counted.
    pub(crate) counted: u32,
    /// Pods that exist.
    pub(crate) present: u32,
    /// Jobs that are Complete.
    pub(crate) complete: u32,
    /// Jobs that are Failed.
    pub(crate) failed_jobs: u32,
    /// Jobs that are suspended now.
    pub(crate) suspended: u32,
    /// Jobs that were deleted.
    pub(crate) deleted: u32,
}

#[derive(Debug, Default)]
struct Pod {
    finished: Option<Instant>,
    counted: bool,
}

#[derive(Debug, Default)]
struct JobSeen {
    first: Option<Instant>,
    first_pod: Option<Instant>,
    is_timed: bool,
    ended: Option<Instant>,
    suspended: bool,
}

/// The facts about a Pod in an event.
struct PodFacts<'a> {
    uid: &'a str,
    job: &'a str,
    index: Option<usize>,
    phase: &'a str,
    is_held: bool,
}

/// The fields read of a Pod that arrived over HTTP.
#[derive(Deserialize)]
struct PodView {
    metadata: PodMeta,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
struct PodMeta {
    uid: String,
    #[serde(default)]
    labels: HashMap<String, String>,
    #[serde(default)]
    finalizers: Vec<String>,
}

#[derive(Default, Deserialize)]
struct PodStatus {
    #[serde(default)]
    phase: String,
}

/// The fields read of a Job.
#[derive(Deserialize)]
struct JobView {
    metadata: JobMeta,
    #[serde(default)]
    status: JobStatus,
}

#[derive(Deserialize)]
struct JobMeta {
    name: String,
}

#[derive(Default, Deserialize)]
struct JobStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Seen {
    /// Creates an empty record, for a main Job with this number of indexes.
    pub(crate) fn new(indexes: Option<u32>) -> Self {
        let state = State {
            index_done: vec![f32::NAN; indexes.unwrap_or(0) as usize],
            ..State::default()
        };
        Self {
            started: Instant::now(),
            state: Mutex::new(state),
        }
    }

    /// Returns the start of the observation.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Locks the state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // The state is counters: no panic can leave a half-done change behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current counts.
    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Waits until the counts meet the condition.
    pub(crate) async fn until(&self, wanted: impl Fn(Counts) -> bool) {
        while !wanted(self.counts()) {
            sleep(LOOK_EVERY).await;
        }
    }

    /// Records that a client creates a Job now; its latencies count from here, not from its first event.
    pub(crate) fn asked_for(&self, job: &str) {
        self.lock().job(job).first = Some(Instant::now());
    }

    /// Returns true if a Job is Complete or Failed.
    pub(crate) fn has_ended(&self, job: &str) -> bool {
        let state = self.lock();
        state.jobs.get(job).is_some_and(|job| job.ended.is_some())
    }

    fn pod_json(&self, json: &[u8], is_gone: bool) {
        // A Pod that cannot be decoded is not one under test.
        let Ok(pod) = serde_json::from_slice::<PodView>(json) else {
            return;
        };
        let labels = &pod.metadata.labels;
        let facts = PodFacts::new(
            &pod.metadata.uid,
            &pod.status.phase,
            |name| labels.get(name).map(String::as_str),
            pod.metadata.finalizers.iter().map(String::as_str),
        );
        self.pod(&facts, is_gone);
    }

    fn pod_stored(&self, pod: &Stored, is_gone: bool) {
        let label = |name: &str| {
            let found = pod.labels.iter().find(|(label, _)| label == name);
            found.map(|(_, value)| value.as_str())
        };
        let finalizers = pod.finalizers.iter().map(|name| name.as_str());
        let facts = PodFacts::new(&pod.uid, &pod.phase, label, finalizers);
        self.pod(&facts, is_gone);
    }

    fn pod(&self, facts: &PodFacts<'_>, is_gone: bool) {
        if !facts.job.starts_with(MAIN_JOB) {
            return;
        }
        let (now, since_start) = (Instant::now(), self.started.elapsed().as_secs_f32());
        let state = &mut *self.lock();
        if !state.pods.contains_key(facts.uid) {
            if is_gone {
                return;
            }
            state.pods.insert(facts.uid.to_owned(), Pod::default());
            state.counts.created += 1;
            state.counts.active += 1;
            state.counts.present += 1;
            state.job(facts.job).has_pod(now);
            state.time_first_pod(facts.job);
        }
        let pod = state.pods.entry(facts.uid.to_owned()).or_default();
        let has_ended = matches!(facts.phase, "Succeeded" | "Failed");
        if has_ended && pod.finished.is_none() {
            pod.finished = Some(now);
            state.counts.active -= 1;
            if facts.phase == "Failed" {
                state.counts.failed += 1;
            } else {
                state.counts.succeeded += 1;
                let done = facts
                    .index
                    .and_then(|index| state.index_done.get_mut(index));
                if let Some(done) = done.filter(|_| facts.job == MAIN_JOB) {
                    *done = done.min(since_start);
                }
            }
        }
        if let Some(finished) = pod.finished
            && !pod.counted
            && (!facts.is_held || is_gone)
        {
            pod.counted = true;
            state.counts.counted += 1;
            state.finished_to_counted.push(now - finished);
        }
        if is_gone && let Some(pod) = state.pods.remove(facts.uid) {
            state.counts.present -= 1;
            state.counts.active -= u32::from(pod.finished.is_none());
        }
    }

    fn job(&self, json: &[u8], is_gone: bool) {
        let Ok(job) = serde_json::from_slice::<JobView>(json) else {
            return;
        };
        let name = &job.metadata.name;
        if !name.starts_with(MAIN_JOB) {
            return;
        }
        let has = |kind: &str| {
            let mut conditions = job.status.conditions.iter();
            conditions.any(|condition| condition.kind == kind && condition.status == "True")
        };
        let state = &mut *self.lock();
        let seen = state.jobs.entry(name.clone()).or_default();
        seen.first.get_or_insert_with(Instant::now);
        let (complete, failed) = (has("Complete"), has("Failed"));
        if (complete || failed) && seen.ended.is_none() {
            seen.ended = Some(Instant::now());
            state.counts.complete += u32::from(complete);
            state.counts.failed_jobs += u32::from(failed);
        }
        let suspended = has("Suspended") && !is_gone;
        state.counts.suspended += u32::from(suspended);
        state.counts.suspended -= u32::from(std::mem::replace(&mut seen.suspended, suspended));
        state.counts.deleted += u32::from(is_gone);
        state.time_first_pod(name);
    }
}

impl JobSeen {
    /// Records a Pod of the Job. Job and Pod events may arrive out of step: a Job that has ended had its first Pod by
    /// then.
    fn has_pod(&mut self, now: Instant) {
        let by_then = self.ended.unwrap_or(now);
        self.first_pod.get_or_insert(by_then);
    }
}

impl State {
    fn job(&mut self, name: &str) -> &mut JobSeen {
        if !self.jobs.contains_key(name) {
            self.jobs.insert(name.to_owned(), JobSeen::default());
        }
        self.jobs.get_mut(name).expect("it was just put in")
    }

    /// Returns the latencies of the Jobs with `when` in their names; `None` if there are none.
    pub(crate) fn waits(&self, when: &str) -> Option<Waits> {
        let prefix = format!("{MAIN_JOB}-{when}-");
        let until = |moment: fn(&JobSeen) -> Option<Instant>| {
            let jobs = self.jobs.iter();
            let meant = jobs.filter(|(name, _)| name.starts_with(&prefix));
            let waits: Latencies = meant
                .filter_map(|(_, job)| Some(moment(job)?.saturating_duration_since(job.first?)))
                .collect();
            waits.since(0)
        };
        let waits = Waits {
            when: when.to_owned(),
            first_pod: until(|job| job.first_pod),
            end: until(|job| job.ended),
        };
        (waits.first_pod.count > 0).then_some(waits)
    }

    /// Records the latency from a Job to its first Pod, once both have been seen. Job and Pod events may arrive out of
    /// step.
    fn time_first_pod(&mut self, name: &str) {
        let job = self.job(name);
        if let (Some(created), Some(pod), false) = (job.first, job.first_pod, job.is_timed) {
            job.is_timed = true;
            self.created_to_first_pod
                .push(pod.saturating_duration_since(created));
        }
    }
}

impl<'a> PodFacts<'a> {
    fn new(
        uid: &'a str,
        phase: &'a str,
        label: impl Fn(&str) -> Option<&'a str>,
        mut finalizers: impl Iterator<Item = &'a str>,
    ) -> Self {
        Self {
            uid,
            job: label(JOB_NAME).unwrap_or_default(),
            index: label(COMPLETION_INDEX).and_then(|index| index.parse().ok()),
            phase,
            is_held: finalizers.any(|name| name.ends_with(TRACKING)),
        }
    }
}

/// Follows the embedded server's logs, within the process.
pub(crate) fn follow_embedded(api: &Arc<SharedApi>, seen: &Arc<Seen>) {
    for kind in [Kind::Job, Kind::Pod] {
        tokio::spawn(read_log(LogReader::new(api, kind), Arc::clone(seen)));
    }
}

async fn read_log(mut log: LogReader, seen: Arc<Seen>) {
    loop {
        while let Some(news) = log.read(EVENTS_AT_ONCE) {
            for event in &news.events {
                let is_gone = event.event_type == EventType::Deleted;
                match log.kind() {
                    Kind::Pod => seen.pod_stored(&event.object, is_gone),
                    _ => seen.job(event.object.bytes(), is_gone),
                }
            }
            tokio::task::yield_now().await;
        }
        if log.changed().await.is_err() {
            return;
        }
        sleep(GATHER).await;
    }
}

/// Watches a namespace of any cluster over HTTP.
pub(crate) fn follow_remote(client: &Client, namespace: &str, seen: &Arc<Seen>) {
    for (is_pods, path) in [
        (false, paths::jobs(Some(namespace))),
        (true, paths::pods(Some(namespace))),
    ] {
        let (sender, mut news) = mpsc::channel(64);
        let all = Followed { path, fields: "" };
        tokio::spawn(follow(client.clone(), all, sender));
        let seen = Arc::clone(seen);
        tokio::spawn(async move {
            while let Some(news) = news.recv().await {
                for news in news {
                    let (json, is_gone) = match &news {
                        News::Applied(json) => (json, false),
                        News::Deleted(json) => (json, true),
                    };
                    if is_pods {
                        seen.pod_json(json.as_bytes(), is_gone);
                    } else {
                        seen.job(json.as_bytes(), is_gone);
                    }
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(seen: &Seen, uid: &str, index: usize, phase: &str, held: bool, is_gone: bool) {
        let finalizers = if held {
            r#""batch.kubernetes.io/job-tracking""#
        } else {
            ""
        };
        let json = format!(
            r#"{{"metadata":{{"uid":"{uid}","labels":{{"{JOB_NAME}":"load","{COMPLETION_INDEX}":"{index}"}},
                "finalizers":[{finalizers}]}},"status":{{"phase":"{phase}"}}}}"#
        );
        seen.pod_json(json.as_bytes(), is_gone);
    }

    fn job(seen: &Seen, condition: &str, is_gone: bool) {
        let json = format!(
            r#"{{"metadata":{{"name":"load"}},"status":{{"conditions":[{{"type":"{condition}","status":"True"}}]}}}}"#
        );
        seen.job(json.as_bytes(), is_gone);
    }

    #[test]
    fn a_pod_is_finished_then_counted_then_gone() {
        let seen = Seen::new(Some(2));
        pod(&seen, "a", 1, "Pending", true, false);
        pod(&seen, "b", 0, "Running", true, false);
        assert_eq!((seen.counts().created, seen.counts().active), (2, 2));
        pod(&seen, "a", 1, "Succeeded", true, false);
        assert_eq!((seen.counts().succeeded, seen.counts().counted), (1, 0));
        pod(&seen, "a", 1, "Succeeded", false, false);
        pod(&seen, "a", 1, "Succeeded", false, false);
        pod(&seen, "b", 0, "Failed", true, false);
        // The Pod disappeared together with its finalizer.
        pod(&seen, "b", 0, "Failed", true, true);
        pod(&seen, "b", 0, "Failed", true, true);
        let counts = seen.counts();
        assert_eq!((counts.active, counts.failed, counts.counted), (0, 1, 2));
        assert_eq!((counts.created, counts.present), (2, 1));
        let state = seen.lock();
        assert_eq!(state.finished_to_counted.len(), 2);
        assert!(state.index_done[0].is_nan() && state.index_done[1] >= 0.0);
    }

    #[test]
    fn a_job_is_timed_to_its_first_pod_once_whichever_is_seen_first() {
        let seen = Seen::new(None);
        pod(&seen, "a", 0, "Pending", true, false);
        assert_eq!(seen.lock().created_to_first_pod.len(), 0);
        job(&seen, "Suspended", false);
        assert_eq!(seen.counts().suspended, 1);
        job(&seen, "Complete", false);
        job(&seen, "Complete", true);
        pod(&seen, "b", 0, "Pending", true, false);
        assert_eq!(seen.lock().created_to_first_pod.len(), 1);
        let counts = seen.counts();
        assert_eq!(
            (counts.complete, counts.suspended, counts.deleted),
            (1, 0, 1)
        );
    }

    #[test]
    fn a_first_pod_is_no_later_than_the_end_whichever_is_seen_first() {
        let seen = Seen::new(None);
        job(&seen, "Complete", false);
        pod(&seen, "a", 0, "Succeeded", false, false);
        let state = seen.lock();
        let job = &state.jobs["load"];
        assert!(job.ended.is_some());
        assert_eq!(job.first_pod, job.ended);
    }

    #[test]
    fn strangers_are_not_counted() {
        let seen = Seen::new(None);
        seen.pod_json(br#"{"metadata":{"uid":"x"}}"#, false);
        seen.pod_json(b"nonsense", false);
        seen.job(br#"{"metadata":{"name":"other"}}"#, false);
        assert_eq!(seen.counts(), Counts::default());
    }
}
