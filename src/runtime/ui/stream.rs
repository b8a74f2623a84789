//! Sends server-sent events to the page: about all Jobs and CronJobs, or about one Job with its indexes.
//!
//! Each stream polls the controller and sends the changes that its principal may see. It ends when the browser
//! disconnects, or when the principal loses all access. A slow controller is polled less often.
//!
//! Must not: know the content of the page.

use std::{
    collections::{BTreeSet, HashMap},
    convert::Infallible,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use compact_str::CompactString;
use futures::{Stream, StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::sleep};

use crate::{
    clock::instant,
    model::{CronJob, JobKey},
    shard::{IndexMap, JobDescription, Question},
};

use super::{
    PageSources, ResponseBody, Streaming,
    access_reviews::ListedKind,
    auth::{Denied, Principal, VisibleNamespaces},
    changes::changes,
    cron_jobs::Outlooks,
};

/// Content type of a stream.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// Polling interval for one Job: short enough to look like motion.
const LOOK: Duration = Duration::from_millis(250);

/// Polling interval for all Jobs.
const LOOK_AT_ALL: Duration = Duration::from_secs(1);

/// The pause after a poll is at least this many times as long as the poll, so that a page costs the controller little.
const SHARE: u32 = 20;

/// Interval of keep-alives without changes, so that both sides notice a lost connection.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// Maximum number of Jobs in one event: a browser parses it within a few milliseconds.
const JOBS_IN_EVENT: usize = 500;

/// The result of a poll.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    News(Bytes),
    /// The stream ends after this.
    Last(Bytes),
}

impl Said {
    fn of(bytes: Option<Bytes>) -> Self {
        bytes.map_or(Self::Nothing, Self::News)
    }

    /// The event for a denied principal, or for failed reviews.
    fn refused(refused: &Denied) -> Self {
        let why = refused.to_string().into();
        match refused.is_final() {
            true => Self::Last(event("refused", &why)),
            false => Self::News(event("busy", &why)),
        }
    }

    fn busy() -> Self {
        Self::News(event("busy", &Value::Null))
    }
}

/// Streams all Jobs and CronJobs: first all of them, then changed and deleted ones.
pub(super) fn jobs(
    sources: Arc<PageSources>,
    viewer: Principal,
    streaming: Streaming,
) -> ResponseBody {
    body(LOOK_AT_ALL, streaming, Table::default(), move |table| {
        let (sources, viewer) = (Arc::clone(&sources), viewer.clone());
        async move { table.look(&sources, &viewer).await }
    })
}

/// The state of a list of Jobs that the page has.
#[derive(Debug, Default)]
struct Table {
    jobs: Option<HashMap<String, Value>>,
    cron_jobs: Option<HashMap<String, Value>>,
    outlooks: Outlooks,
    /// The visible namespaces.
    seen: Option<Value>,
}

impl Table {
    async fn look(mut self, sources: &PageSources, viewer: &Principal) -> (Said, Self) {
        let desk = &sources.desk;
        let asked = tokio::join!(desk.ask(&Question::Jobs), desk.ask(&Question::CronJobs));
        let (Ok(jobs), Ok(cron_jobs)) = asked else {
            return (Said::busy(), self);
        };
        let jobs: Vec<Value> = jobs.into_iter().map(|told| told.job).collect();
        let cron_jobs = cron_jobs
            .into_iter()
            .filter_map(|told| Some((*told.cron_job?, told.job)));
        let cron_jobs: Vec<(CronJob, Value)> = cron_jobs.collect();
        let of_jobs = jobs.iter().filter_map(|job| job["namespace"].as_str());
        let of_jobs: BTreeSet<CompactString> = of_jobs.map(CompactString::from).collect();
        let of_cron_jobs = cron_jobs.iter().map(|(it, _)| it.key.namespace.clone());
        let of_cron_jobs: BTreeSet<CompactString> = of_cron_jobs.collect();
        // Access to Events matters only for Jobs with an Event's message.
        let of_events = jobs.iter().filter(|job| has_message(job));
        let of_events = of_events.filter_map(|job| job["namespace"].as_str());
        let of_events: BTreeSet<CompactString> = of_events.map(CompactString::from).collect();
        let shown = tokio::try_join!(
            viewer.visible(ListedKind::Jobs, of_jobs),
            viewer.visible(ListedKind::CronJobs, of_cron_jobs),
            viewer.visible(ListedKind::Events, of_events),
        );
        match shown {
            Err(refused) => (Said::refused(&refused), self),
            Ok((shown, of_cron, of_events)) => {
                let in_one = |seen: &VisibleNamespaces, job: &Value| {
                    let namespace = job["namespace"].as_str();
                    namespace.is_some_and(|namespace| seen.has(namespace))
                };
                let jobs = jobs.into_iter().filter(|job| in_one(&shown, job));
                let jobs = jobs.map(|mut job| {
                    if has_message(&job) && !in_one(&of_events, &job) {
                        forget_message(&mut job);
                    }
                    job
                });
                let is_seen = |it: &(CronJob, Value)| of_cron.has(&it.0.key.namespace);
                let mut cron_jobs: Vec<_> = cron_jobs.into_iter().filter(is_seen).collect();
                // The last Job of a CronJob is not for a viewer who may not list Jobs.
                for (cron_job, last_job) in &mut cron_jobs {
                    if !shown.has(&cron_job.key.namespace) {
                        *last_job = Value::Null;
                    }
                }
                let now = sources.clock.now().wall;
                let said = self.tell(jobs, &cron_jobs, [&shown, &of_cron], now);
                (Said::of(said), self)
            }
        }
    }

    fn tell(
        &mut self,
        jobs: impl Iterator<Item = Value>,
        cron_jobs: &[(CronJob, Value)],
        [of_jobs, of_cron_jobs]: [&VisibleNamespaces; 2],
        now: crate::model::Time,
    ) -> Option<Bytes> {
        let mut said = Vec::new();
        let seen = json!({"jobs": words(of_jobs), "cronJobs": words(of_cron_jobs)});
        if self.seen.as_ref() != Some(&seen) {
            said.extend_from_slice(&event("seen", &seen));
            self.seen = Some(seen);
        }
        let jobs = jobs.map(|job| (identity(&job).to_owned(), job)).collect();
        tell_changes("jobs", &mut self.jobs, jobs, &mut said);
        let cron_jobs = self.outlooks.update(cron_jobs, now);
        tell_changes("cronjobs", &mut self.cron_jobs, cron_jobs, &mut said);
        (!said.is_empty()).then(|| said.into())
    }
}

/// Returns the visible namespaces as JSON; null for all.
fn words(shown: &VisibleNamespaces) -> Value {
    match shown {
        VisibleNamespaces::All => Value::Null,
        VisibleNamespaces::Some(namespaces, are_many) => {
            json!({"namespaces": namespaces, "areMany": are_many})
        }
    }
}

/// Appends the events for changed and deleted objects. The first time there is an event even without objects.
fn tell_changes(
    name: &str,
    known: &mut Option<HashMap<String, Value>>,
    now: HashMap<String, Value>,
    said: &mut Vec<u8>,
) {
    let nothing = HashMap::new();
    let before = known.as_ref().unwrap_or(&nothing);
    let gone = before.keys().filter(|uid| !now.contains_key(*uid));
    let gone: Vec<&String> = gone.collect();
    let is_new = |(uid, told): &(&String, &Value)| before.get(*uid) != Some(*told);
    let new = now.iter().filter(is_new).map(|(_, told)| told);
    let mut new: Vec<&Value> = new.collect();
    // In the page's default order: it need not sort thousands, and the first rows stay.
    new.sort_by_key(|told| ["namespace", "name"].map(|of| told[of].as_str()));
    if known.is_none() || !gone.is_empty() || !new.is_empty() {
        let all = new.len().div_ceil(JOBS_IN_EVENT).max(1);
        for number in 0..all {
            let new = new.iter().skip(number * JOBS_IN_EVENT);
            let new: Vec<&&Value> = new.take(JOBS_IN_EVENT).collect();
            let gone = if number == 0 { gone.as_slice() } else { &[] };
            let more = number + 1 < all;
            said.extend_from_slice(&event(
                name,
                &json!({"new": new, "gone": gone, "more": more}),
            ));
        }
    }
    *known = Some(now);
}

/// Streams one Job: its state, and the indexes that changed their state.
pub(super) fn job(
    sources: Arc<PageSources>,
    viewer: Principal,
    key: JobKey,
    streaming: Streaming,
) -> ResponseBody {
    body(LOOK, streaming, ShownJob::default(), move |known| {
        let (sources, viewer, key) = (Arc::clone(&sources), viewer.clone(), key.clone());
        async move { known.look(&sources, &viewer, key).await }
    })
}

/// The state of a Job that the page has.
#[derive(Debug, Default)]
struct ShownJob {
    job: Value,
    indexes: Option<IndexMap>,
    has_heard: bool,
}

impl ShownJob {
    async fn look(self, sources: &PageSources, viewer: &Principal, key: JobKey) -> (Said, Self) {
        if let Err(refused) = viewer.require(ListedKind::Jobs, &key.namespace).await {
            return (Said::refused(&refused), self);
        }
        let sees_events = match viewer.may_list(ListedKind::Events, &key.namespace).await {
            Ok(may) => may,
            Err(refused) => return (Said::refused(&refused), self),
        };
        match sources.desk.ask(&Question::Indexes(key)).await {
            Err(_) => (Said::busy(), self),
            Ok(mut told) => {
                if !sees_events {
                    told.iter_mut().for_each(forget_events);
                }
                let (said, known) = self.hear(told);
                (Said::of(said), known)
            }
        }
    }

    fn hear(mut self, told: Vec<JobDescription>) -> (Option<Bytes>, Self) {
        // If several Jobs had this name, the deleted ones only have Pods left.
        let is_there = |told: &&JobDescription| told.job["state"] != "gone";
        let there = told.iter().find(is_there).or(told.first()).cloned();
        let Some(JobDescription { job, indexes, .. }) = there else {
            let is_news = !self.has_heard || !self.job.is_null();
            self = Self {
                has_heard: true,
                ..Self::default()
            };
            return (is_news.then(|| event("gone", &Value::Null)), self);
        };
        let is_other = identity(&self.job) != identity(&job);
        if is_other {
            self.indexes = None;
        }
        let completions = indexes.as_ref().map(|indexes| indexes.completions);
        let known = self.indexes.as_ref().map(|known| known.completions);
        let changes = indexes
            .as_ref()
            .map(|now| changes(self.indexes.as_ref(), now));
        let changes = changes.unwrap_or_default();
        let said = (job != self.job || !changes.is_empty()).then(|| {
            let anew = is_other || known != completions;
            let said =
                json!({"job": job, "completions": completions, "anew": anew, "came": changes});
            event("job", &said)
        });
        let shown = Self {
            job,
            indexes,
            has_heard: true,
        };
        (said, shown)
    }
}

fn identity(job: &Value) -> &str {
    job["uid"].as_str().unwrap_or_default()
}

fn event(name: &str, data: &Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

/// Removes the texts of Events, for a principal that may not list Events.
fn forget_events(told: &mut JobDescription) {
    if let Some(job) = told.job.as_object_mut() {
        job.remove("warnings");
    }
    forget_message(&mut told.job);
}

/// Returns true if the Job's description has an Event's message.
fn has_message(job: &Value) -> bool {
    job["blocked"]["message"].is_string()
}

fn forget_message(job: &mut Value) {
    if has_message(job) {
        job["blocked"]["message"] = Value::Null;
    }
}

/// Returns a response body that polls and sends the changes.
fn body<S, F>(
    every: Duration,
    streaming: Streaming,
    known: S,
    look: impl Fn(S) -> F + Send + Sync + 'static,
) -> ResponseBody
where
    S: Send + 'static,
    F: Future<Output = (Said, S)> + Send + 'static,
{
    // A bounded channel: a slow client slows the polling down.
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _until_the_end = streaming;
        let mut looks = pin!(looks(every, known, look));
        loop {
            tokio::select! {
                () = sender.closed() => return,
                said = looks.next() => match said {
                    None => return,
                    // An error means that the client has disconnected.
                    Some(said) => drop(sender.send(said).await),
                },
            }
        }
    });
    let taken = stream::unfold(receiver, |mut receiver| async {
        let bytes: Bytes = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), receiver))
    });
    StreamBody::new(taken).boxed_unsync()
}

fn looks<S, F>(
    every: Duration,
    known: S,
    look: impl Fn(S) -> F + Send + Sync + 'static,
) -> impl Stream<Item = Bytes> + Send
where
    S: Send + 'static,
    F: Future<Output = (Said, S)> + Send + 'static,
{
    // The state, the pause before the next poll, and the time since the last event; none after the end.
    let state = Some((known, look, Duration::ZERO, Duration::ZERO));
    stream::unfold(state, move |state| async move {
        let (mut known, look, mut pause, mut silent) = state?;
        loop {
            sleep(pause).await;
            silent += pause;
            let begun = instant();
            let (said, knows) = look(known).await;
            known = knows;
            pause = every.max(begun.elapsed() * SHARE);
            let sign = || Said::News(Bytes::from_static(b":\n\n"));
            let said = match said {
                Said::Nothing if silent >= SIGN_OF_LIFE => sign(),
                said => said,
            };
            match said {
                Said::Nothing => {}
                Said::News(bytes) => {
                    return Some((bytes, Some((known, look, pause, Duration::ZERO))));
                }
                Said::Last(bytes) => return Some((bytes, None)),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::shard::MapState;

    use super::*;

    fn told(uid: &str, state: &str, indexes: Option<IndexMap>) -> JobDescription {
        let job = json!({"uid": uid, "state": state});
        JobDescription {
            job,
            indexes,
            records: None,
            cron_job: None,
        }
    }

    fn said(bytes: Option<Bytes>) -> Option<(String, Value)> {
        let text = String::from_utf8(bytes?.to_vec()).expect("text");
        let (name, data) = text.trim_end().split_once('\n').expect("two lines");
        let name = name.strip_prefix("event: ").expect("a name");
        let data = data.strip_prefix("data: ").expect("data");
        Some((name.to_owned(), serde_json::from_str(data).expect("JSON")))
    }

    #[test]
    fn a_job_is_sent_when_it_changes_and_anew_when_its_uid_changes() {
        let map = |text| Some(IndexMap::with(4, &[(MapState::Running, text)]));
        let (first, known) = ShownJob::default().hear(vec![told("a", "at work", map("0"))]);
        let (name, data) = said(first).expect("news");
        assert_eq!(name, "job");
        assert_eq!(
            (&data["anew"], &data["completions"]),
            (&json!(true), &json!(4))
        );
        let (nothing, known) = known.hear(vec![told("a", "at work", map("0"))]);
        assert_eq!(said(nothing), None);
        let (more, known) = known.hear(vec![told("a", "at work", map("0,1"))]);
        let (_, data) = said(more).expect("news");
        assert_eq!(data["anew"], false);
        assert_eq!(data["came"].as_object().expect("states").len(), 1);
        let gone = told("a", "gone", map("0"));
        let (other, known) = known.hear(vec![gone, told("b", "at work", map("0"))]);
        let (_, data) = said(other).expect("news");
        assert_eq!(
            (&data["job"]["uid"], &data["anew"]),
            (&json!("b"), &json!(true))
        );
        let (name, _) = said(known.hear(vec![]).0).expect("news");
        assert_eq!(name, "gone");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_stream_sends_keep_alives() {
        let looked = |count: u32| async move {
            let said = match count {
                3 => Said::News("x".into()),
                _ => Said::Nothing,
            };
            (said, count + 1)
        };
        let begun = tokio::time::Instant::now();
        let mut looks = Box::pin(looks(LOOK, 0, looked));
        assert_eq!(looks.next().await.expect("it goes on"), "x");
        assert_eq!(begun.elapsed(), LOOK * 3);
        assert_eq!(looks.next().await.expect("it goes on"), ":\n\n");
        assert!(begun.elapsed() >= SIGN_OF_LIFE + LOOK * 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_denied_stream_ends_with_the_reason() {
        let looked = |(): ()| async { (Said::refused(&Denied::InvalidToken), ()) };
        let said: Vec<Bytes> = looks(LOOK, (), looked).collect().await;
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with(b"event: refused\n"));
        let unknown = Denied::ReviewFailed("no answer".to_owned());
        assert!(matches!(Said::refused(&unknown), Said::News(_)));
    }

    #[test]
    fn many_jobs_come_in_several_events() {
        let jobs = |state: &str| -> HashMap<String, Value> {
            let job = |uid| {
                let name = format!("job-{uid:04}");
                json!({"uid": uid, "namespace": "a", "name": name, "state": state})
            };
            let jobs = (0..1_200).map(|uid| (uid.to_string(), job(uid)));
            jobs.collect()
        };
        let (mut known, mut text) = (None, Vec::new());
        tell_changes("jobs", &mut known, jobs("at work"), &mut text);
        let text = String::from_utf8(text).expect("text");
        let events: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
            .collect();
        let counts = events
            .iter()
            .map(|event| event["new"].as_array().map(Vec::len));
        assert_eq!(
            counts.collect::<Vec<_>>(),
            [Some(500), Some(500), Some(200)]
        );
        let uids = events
            .iter()
            .flat_map(|event| event["new"].as_array().expect("Jobs"));
        let uids = uids.map(|job| job["uid"].as_i64().expect("a number"));
        assert!(uids.eq(0..1_200), "they come as they are sorted");
        let more: Vec<&Value> = events.iter().map(|event| &event["more"]).collect();
        assert_eq!(more, [true, true, false]);
        let mut nothing = Vec::new();
        tell_changes("jobs", &mut known, jobs("at work"), &mut nothing);
        assert!(nothing.is_empty());
        tell_changes("jobs", &mut known, HashMap::new(), &mut nothing);
        let gone = String::from_utf8(nothing).expect("text");
        assert_eq!(gone.matches("event: jobs").count(), 1);
    }
}
