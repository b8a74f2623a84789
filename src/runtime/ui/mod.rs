//! `/ui`: a page that shows Jobs and CronJobs, and all indexes of one Job, as they change.
//!
//! The page is some files that are part of the program ([`files`]); it asks nobody else for anything. It is told of changes
//! by server-sent events ([`stream`]), and the controller is asked only while somebody looks. Who may look is asked at a
//! [`door`]; there is one for who asks from this machine, and one for who brings a token. All of it is done on a
//! [`thread`] of its own.
//!
//! Must not: know Jobs itself, or write anything to the cluster but reviews of tokens and rights.

mod changes;
mod cron_jobs;
mod door;
mod failures;
mod files;
mod index;
mod object;
mod pods;
mod reviews;
mod stream;
mod thread;

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts,
};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{client::Client, clock::Clock, model::JobKey};

use super::{
    desk::Desk,
    records::of_index,
    serving::{Answers, ResponseBody},
};
use door::{Door, Refused, Viewer};
use reviews::ListedKind;
use stream::EVENT_STREAM;

pub(super) use thread::UiThread;
pub use thread::{UiError, UiOptions};

/// What paths begin with.
const UI: &str = "/ui";

/// The page may load and ask for what is here, and nothing else; nobody may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

const JSON: &str = "application/json";

const TEXT: &str = "text/plain; charset=utf-8";

/// How many lists of failed Pods are read at once, whoever looks: each may have thousands of Pods.
const READERS: usize = 2;

/// The longest wait for the API server's version, which the page's header shows.
const VERSION_WAIT: Duration = Duration::from_secs(2);

/// What the answers are made of.
#[derive(Debug)]
struct PageSources {
    desk: Arc<Desk>,
    client: Client,
    clock: Clock,
    readers: Semaphore,
}

/// See the module's text: who comes in by one door.
#[derive(Clone, Debug)]
pub(super) struct Ui {
    sources: Arc<PageSources>,
    door: Door,
    /// How many pages more may be told of changes.
    streams: Arc<Semaphore>,
    /// Where all of it is done.
    runtime: tokio::runtime::Handle,
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    File(&'static str, &'static str),
    Viewer,
    Cluster,
    Jobs,
    Job(JobKey),
    Object(JobKey),
    Pods(JobKey),
    Index(JobKey, u32),
    Failures(JobKey),
}

impl Answers for Ui {
    async fn answer(&self, request: Request<Incoming>, from: IpAddr) -> Response<ResponseBody> {
        if !Self::is_asked(request.uri().path()) {
            return whole(StatusCode::NOT_FOUND, TEXT, "not found: see /ui");
        }
        let ui = self.clone();
        let answer = async move { ui.answer_here(request, from).await };
        let answer = self.runtime.spawn(answer).await;
        answer.unwrap_or_else(|_| {
            let why = "the page is not answered any more";
            whole(StatusCode::SERVICE_UNAVAILABLE, TEXT, why)
        })
    }
}

impl Ui {
    /// Whether a path is the page's.
    pub(super) fn is_asked(path: &str) -> bool {
        let rest = path.strip_prefix(UI);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Answers a request from this address.
    async fn answer_here(
        &self,
        request: Request<Incoming>,
        from: IpAddr,
    ) -> Response<ResponseBody> {
        let (request, body) = request.into_parts();
        let rest = request.uri.path().strip_prefix(UI).unwrap_or_default();
        if let Err(refused) = self.door.look_at(&request, from) {
            return refusal(&refused);
        }
        if request.method == Method::POST {
            return self.door.answer_post(rest, &request, body).await;
        }
        if request.method != Method::GET && request.method != Method::HEAD {
            return whole(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET or HEAD");
        }
        match wanted(rest) {
            None => whole(StatusCode::NOT_FOUND, TEXT, "not found"),
            Some(Wanted::File(kind, text)) => whole(StatusCode::OK, kind, text),
            Some(wanted) => {
                let answer = self.answer_viewer(wanted, &request).await;
                answer.unwrap_or_else(|refused| refusal(&refused))
            }
        }
    }

    async fn answer_viewer(
        &self,
        wanted: Wanted,
        request: &Parts,
    ) -> Result<Response<ResponseBody>, Refused> {
        let viewer = self.door.viewer(request).await?;
        let sources = Arc::clone(&self.sources);
        match wanted {
            Wanted::File(kind, text) => Ok(whole(StatusCode::OK, kind, text)),
            Wanted::Viewer => {
                let told = serde_json::json!({"user": viewer.name().await?});
                Ok(whole(StatusCode::OK, JSON, told.to_string()))
            }
            Wanted::Cluster => {
                let told = cluster(&sources).await.to_string();
                Ok(whole(StatusCode::OK, JSON, told))
            }
            Wanted::Jobs => {
                let permit = self.stream_for(&viewer)?;
                Ok(events(stream::jobs(sources, viewer, permit)))
            }
            Wanted::Job(key) => {
                viewer.must(ListedKind::Jobs, &key.namespace).await?;
                let permit = self.stream_for(&viewer)?;
                Ok(events(stream::job(sources, viewer, key, permit)))
            }
            Wanted::Object(key) => {
                viewer.must(ListedKind::Jobs, &key.namespace).await?;
                // It is never closed.
                let _one_of_few = sources.readers.acquire().await;
                Ok(told(object::describe(&sources.client, &key).await))
            }
            Wanted::Pods(key) => {
                viewer.must(ListedKind::Jobs, &key.namespace).await?;
                viewer.must(ListedKind::Pods, &key.namespace).await?;
                // It is never closed.
                let _one_of_few = sources.readers.acquire().await;
                Ok(told(pods::of_job(&sources.client, &key).await))
            }
            Wanted::Index(key, index) => {
                viewer.must(ListedKind::Pods, &key.namespace).await?;
                let record = of_index(&sources.desk, &key, index).await;
                Ok(told(
                    index::tries(&sources.client, &key, index, record).await,
                ))
            }
            Wanted::Failures(key) => {
                viewer.must(ListedKind::Jobs, &key.namespace).await?;
                viewer.must(ListedKind::Pods, &key.namespace).await?;
                // It is never closed.
                let _one_of_few = sources.readers.acquire().await;
                let from = request.uri.query().unwrap_or_default();
                Ok(told(failures::page(&sources.client, &key, from).await))
            }
        }
    }

    /// Room for one more page that is told of changes.
    fn stream_for(&self, viewer: &Viewer) -> Result<Streaming, Refused> {
        let taken = Arc::clone(&self.streams).try_acquire_owned();
        let permit = taken.map_err(|_| Refused::Full)?;
        Ok(Streaming(permit, viewer.stream()?))
    }
}

/// The right to be told of changes: one of those that there are, and one of those that a viewer has, if that is limited.
#[derive(Debug)]
struct Streaming(
    #[expect(dead_code, reason = "it is given back at the end")] OwnedSemaphorePermit,
    #[expect(dead_code, reason = "it is given back at the end")] Option<OwnedSemaphorePermit>,
);

/// What a path after `/ui` asks for.
fn wanted(rest: &str) -> Option<Wanted> {
    let words: Vec<&str> = rest.split('/').skip(1).collect();
    let key = |namespace: &str, name: &str| JobKey {
        namespace: namespace.into(),
        name: name.into(),
    };
    // What is no name finds nothing, and must not become a part of a path to the API server.
    if let ["jobs", namespace, name, ..] = words[..]
        && !(is_name(namespace) && is_name(name))
    {
        return None;
    }
    Some(match words[..] {
        [] | [""] => {
            let (kind, text) = files::page();
            Wanted::File(kind, text)
        }
        ["viewer"] => Wanted::Viewer,
        ["cluster"] => Wanted::Cluster,
        ["jobs"] => Wanted::Jobs,
        ["jobs", namespace, name] => Wanted::Job(key(namespace, name)),
        ["jobs", namespace, name, "object"] => Wanted::Object(key(namespace, name)),
        ["jobs", namespace, name, "pods"] => Wanted::Pods(key(namespace, name)),
        ["jobs", namespace, name, "failures"] => Wanted::Failures(key(namespace, name)),
        ["jobs", namespace, name, "indexes", index] => {
            Wanted::Index(key(namespace, name), index.parse().ok()?)
        }
        [name] => {
            let (kind, text) = files::of_name(name)?;
            Wanted::File(kind, text)
        }
        _ => return None,
    })
}

/// Whether something may be the name of a namespace or a Job.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    text.bytes().all(is_plain) && text.starts_with(|first: char| first != '.')
}

/// Names the cluster for the page's header, with the controller's time.
async fn cluster(sources: &PageSources) -> Value {
    let version = timeout(VERSION_WAIT, sources.client.get("/version")).await;
    let version = version.ok().and_then(Result::ok);
    let version = version.and_then(|body| serde_json::from_slice::<Value>(&body).ok());
    serde_json::json!({
        "name": sources.client.cluster_name(),
        "server": sources.client.url(),
        "version": version.and_then(|it| it["gitVersion"].as_str().map(str::to_owned)),
        "lakh": lakh_inspect::VERSION,
        "now": sources.clock.now().wall.to_rfc3339(),
    })
}

/// What the API server told, or what is wrong with it.
fn told(answer: crate::client::Result<Value>) -> Response<ResponseBody> {
    match answer {
        Ok(told) => whole(StatusCode::OK, JSON, told.to_string()),
        Err(error) => whole(StatusCode::BAD_GATEWAY, TEXT, error.to_string()),
    }
}

fn refusal(refused: &Refused) -> Response<ResponseBody> {
    whole(refused.status(), TEXT, refused.to_string())
}

fn whole(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<ResponseBody> {
    let body = Full::new(text.into()).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    secured(response, kind)
}

fn events(body: ResponseBody) -> Response<ResponseBody> {
    secured(Response::new(body), EVENT_STREAM)
}

fn secured(mut response: Response<ResponseBody>, kind: &'static str) -> Response<ResponseBody> {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_wishes() {
        let key = || JobKey {
            namespace: "a".into(),
            name: "b".into(),
        };
        let html = |rest: &str| match wanted(rest) {
            Some(Wanted::File(kind, _)) => kind.starts_with("text/html"),
            _ => false,
        };
        assert!(html("") && html("/"));
        assert!(matches!(wanted("/page.js"), Some(Wanted::File(..))));
        assert_eq!(wanted("/jobs"), Some(Wanted::Jobs));
        assert_eq!(wanted("/jobs/a/b"), Some(Wanted::Job(key())));
        let index = wanted("/jobs/a/b/indexes/7");
        assert_eq!(index, Some(Wanted::Index(key(), 7)));
        assert_eq!(wanted("/cluster"), Some(Wanted::Cluster));
        assert_eq!(wanted("/jobs/a/b/object"), Some(Wanted::Object(key())));
        assert_eq!(wanted("/jobs/a/b/pods"), Some(Wanted::Pods(key())));
        let failures = wanted("/jobs/a/b/failures");
        assert_eq!(failures, Some(Wanted::Failures(key())));
        for nothing in [
            "/jobs/a",
            "/jobs/a/b/indexes/x",
            "/other",
            "/jobs/a/b/c",
            "/jobs//b",
            "/jobs/../b",
            "/jobs/a/..",
            "/jobs/a%2Fb/c/failures",
        ] {
            assert_eq!(wanted(nothing), None, "{nothing}");
        }
        assert!(Ui::is_asked("/ui") && Ui::is_asked("/ui/jobs") && !Ui::is_asked("/uix"));
    }
}
