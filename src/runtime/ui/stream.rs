//! Server-sent events for the page: of all Jobs, and of one with its indexes.
//!
//! Each stream asks the controller again and again, and tells what is new. When the browser goes away, what it is told
//! next cannot be sent, and the stream ends. While the controller is slow to answer it is asked more rarely.
//!
//! Must not: know what the page shows.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    clock::instant,
    model::JobKey,
    shard::{IndexMap, JobDescription, Question},
};

use super::{Desk, ResponseBody, changes::changes};

/// What the streams are in.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// How often one Job is looked at: what a person sees as motion.
const LOOK: Duration = Duration::from_millis(250);

/// How often all Jobs are: what a person reads.
const LOOK_AT_ALL: Duration = Duration::from_secs(1);

/// A look may take this part of the time until the next, so that to be looked at costs the controller little.
const SHARE: u32 = 20;

/// How often something is sent where nothing is new, so that an end is noticed on either side.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// All Jobs: first each of them, then those that have changed or are gone.
pub(super) fn jobs(desk: Arc<Desk>) -> ResponseBody {
    let known: HashMap<String, Value> = HashMap::new();
    body(LOOK_AT_ALL, known, move |mut known| {
        let desk = Arc::clone(&desk);
        async move {
            let Ok(told) = desk.ask(&Question::Jobs).await else {
                return (Some(event("busy", &Value::Null)), known);
            };
            let now = told.into_iter().map(|told| told.job);
            let now: HashMap<String, Value> =
                now.map(|job| (identity(&job).to_owned(), job)).collect();
            let gone = known.keys().filter(|uid| !now.contains_key(*uid));
            let gone: Vec<&String> = gone.collect();
            let is_new = |(uid, job): &(&String, &Value)| known.get(*uid) != Some(*job);
            let new: Vec<&Value> = now.iter().filter(is_new).map(|(_, job)| job).collect();
            let is_news = known.is_empty() || !(gone.is_empty() && new.is_empty());
            let said = is_news.then(|| event("jobs", &json!({"jobs": new, "gone": gone})));
            known = now;
            (said, known)
        }
    })
}

/// One Job: how it is, and which indexes have come to which state.
pub(super) fn job(desk: Arc<Desk>, key: JobKey) -> ResponseBody {
    body(LOOK, Viewer::default(), move |known| {
        let desk = Arc::clone(&desk);
        let question = Question::Indexes(key.clone());
        async move {
            match desk.ask(&question).await {
                Ok(told) => known.hear(told),
                Err(_) => (Some(event("busy", &Value::Null)), known),
            }
        }
    })
}

/// What the page knows of a Job.
#[derive(Debug, Default)]
struct Viewer {
    job: Value,
    indexes: Option<IndexMap>,
    has_heard: bool,
}

impl Viewer {
    fn hear(mut self, told: Vec<JobDescription>) -> (Option<Bytes>, Self) {
        // Of several under one name those that are gone have only Pods left.
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

/// Looks again and again, and says what a look gave.
fn body<S, F>(every: Duration, known: S, look: impl Fn(S) -> F + Send + 'static) -> ResponseBody
where
    S: Send + 'static,
    F: Future<Output = (Option<Bytes>, S)> + Send + 'static,
{
    let frames = looks(every, known, look).map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
    StreamBody::new(frames).boxed_unsync()
}

fn looks<S, F>(
    every: Duration,
    known: S,
    look: impl Fn(S) -> F + Send + 'static,
) -> impl Stream<Item = Bytes> + Send
where
    S: Send + 'static,
    F: Future<Output = (Option<Bytes>, S)> + Send + 'static,
{
    // The pause before the next look, and for how long nothing was said.
    let state = (known, look, Duration::ZERO, Duration::ZERO);
    stream::unfold(
        state,
        move |(mut known, look, mut pause, mut silent)| async move {
            loop {
                sleep(pause).await;
                silent += pause;
                let begun = instant();
                let (said, knows) = look(known).await;
                known = knows;
                pause = every.max(begun.elapsed() * SHARE);
                let sign = || Bytes::from_static(b":\n\n");
                let sign = (silent >= SIGN_OF_LIFE).then(sign);
                if let Some(bytes) = said.or(sign) {
                    return Some((bytes, (known, look, pause, Duration::ZERO)));
                }
            }
        },
    )
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
    fn a_job_is_told_of_when_it_changes_and_anew_when_it_is_another() {
        let map = |text| Some(IndexMap::with(4, &[(MapState::Running, text)]));
        let (first, known) = Viewer::default().hear(vec![told("a", "at work", map("0"))]);
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
    async fn who_is_told_nothing_hears_a_sign_of_life() {
        let looked = |count: u32| async move { ((count == 3).then(|| "x".into()), count + 1) };
        let begun = tokio::time::Instant::now();
        let mut looks = Box::pin(looks(LOOK, 0, looked));
        assert_eq!(looks.next().await.expect("it goes on"), "x");
        assert_eq!(begun.elapsed(), LOOK * 3);
        assert_eq!(looks.next().await.expect("it goes on"), ":\n\n");
        assert!(begun.elapsed() >= SIGN_OF_LIFE + LOOK * 3);
    }
}
