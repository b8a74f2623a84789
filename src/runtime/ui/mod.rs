//! Serves `/ui`, a live page with Jobs, CronJobs and the indexes of a Job.
//!
//! The page consists of embedded files ([`files`]) and loads nothing from other hosts. Server-sent events ([`stream`])
//! carry the changes; the controller is queried only while a page is open. [`auth`] decides which clients see which
//! namespaces: one instance serves loopback clients, one serves clients with a token. All of it runs on its own
//! [`thread`].
//!
//! Must not: keep Jobs, or write anything to the cluster but TokenReviews and SubjectAccessReviews.

mod access_reviews;
mod auth;
mod changes;
mod cron_jobs;
mod failures;
mod files;
mod index;
mod object;
mod pods;
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
use access_reviews::ListedKind;
use auth::{Auth, Denied, Principal};
use stream::EVENT_STREAM;

pub(super) use thread::UiThread;
pub use thread::{UiError, UiOptions};

/// Prefix of all paths.
const UI: &str = "/ui";

/// Content security policy: the page loads from its own origin only, and cannot be framed.
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

/// Maximum number of lists of failed Pods in progress: each may have thousands of Pods.
const READERS: usize = 2;

/// Timeout for the API server's version, shown in the page's header.
const VERSION_WAIT: Duration = Duration::from_secs(2);

/// The sources of all responses.
#[derive(Debug)]
struct PageSources {
    desk: Arc<Desk>,
    client: Client,
    clock: Clock,
    readers: Semaphore,
}

/// The page on one port, with that port's authentication.
#[derive(Clone, Debug)]
pub(super) struct Ui {
    sources: Arc<PageSources>,
    auth: Auth,
    /// Permits for streams.
    streams: Arc<Semaphore>,
    /// The runtime of the page's thread.
    runtime: tokio::runtime::Handle,
}

/// The resource that a path names.
#[derive(Debug, PartialEq, Eq)]
enum Resource {
    File(&'static str, &'static str),
    Principal,
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
        if !Self::is_ui_path(request.uri().path()) {
            return response(StatusCode::NOT_FOUND, TEXT, "not found; the page is at /ui");
        }
        let ui = self.clone();
        let answer = async move { ui.answer_here(request, from).await };
        let answer = self.runtime.spawn(answer).await;
        answer.unwrap_or_else(|_| {
            let why = "the controller is shutting down";
            response(StatusCode::SERVICE_UNAVAILABLE, TEXT, why)
        })
    }
}

impl Ui {
    /// Returns true if the path belongs to the page.
    pub(super) fn is_ui_path(path: &str) -> bool {
        let rest = path.strip_prefix(UI);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Handles a request on the page's thread.
    async fn answer_here(
        &self,
        request: Request<Incoming>,
        from: IpAddr,
    ) -> Response<ResponseBody> {
        let (request, body) = request.into_parts();
        let rest = request.uri.path().strip_prefix(UI).unwrap_or_default();
        if let Err(denied) = self.auth.check_origin(&request, from) {
            return denied_response(&denied);
        }
        if request.method == Method::POST {
            return self.auth.answer_post(rest, &request, body).await;
        }
        if request.method != Method::GET && request.method != Method::HEAD {
            return response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET or HEAD");
        }
        match resource(rest) {
            None => response(StatusCode::NOT_FOUND, TEXT, "not found"),
            Some(Resource::File(kind, text)) => response(StatusCode::OK, kind, text),
            Some(resource) => {
                let answer = self.answer_viewer(resource, &request).await;
                answer.unwrap_or_else(|denied| denied_response(&denied))
            }
        }
    }

    async fn answer_viewer(
        &self,
        resource: Resource,
        request: &Parts,
    ) -> Result<Response<ResponseBody>, Denied> {
        let principal = self.auth.authenticate(request).await?;
        let sources = Arc::clone(&self.sources);
        match resource {
            Resource::File(kind, text) => Ok(response(StatusCode::OK, kind, text)),
            Resource::Principal => {
                let body = serde_json::json!({"user": principal.name().await?});
                Ok(response(StatusCode::OK, JSON, body.to_string()))
            }
            Resource::Cluster => {
                let body = cluster(&sources).await.to_string();
                Ok(response(StatusCode::OK, JSON, body))
            }
            Resource::Jobs => {
                let permit = self.stream_for(&principal)?;
                Ok(events(stream::jobs(sources, principal, permit)))
            }
            Resource::Job(key) => {
                principal.require(ListedKind::Jobs, &key.namespace).await?;
                let permit = self.stream_for(&principal)?;
                Ok(events(stream::job(sources, principal, key, permit)))
            }
            Resource::Object(key) => {
                principal.require(ListedKind::Jobs, &key.namespace).await?;
                // The semaphore is never closed.
                let _one_of_few = sources.readers.acquire().await;
                Ok(json_response(object::describe(&sources.client, &key).await))
            }
            Resource::Pods(key) => {
                principal.require(ListedKind::Jobs, &key.namespace).await?;
                principal.require(ListedKind::Pods, &key.namespace).await?;
                // The semaphore is never closed.
                let _one_of_few = sources.readers.acquire().await;
                Ok(json_response(pods::of_job(&sources.client, &key).await))
            }
            Resource::Index(key, index) => {
                principal.require(ListedKind::Pods, &key.namespace).await?;
                let record = of_index(&sources.desk, &key, index).await;
                Ok(json_response(
                    index::tries(&sources.client, &key, index, record).await,
                ))
            }
            Resource::Failures(key) => {
                principal.require(ListedKind::Jobs, &key.namespace).await?;
                principal.require(ListedKind::Pods, &key.namespace).await?;
                // The semaphore is never closed.
                let _one_of_few = sources.readers.acquire().await;
                let from = request.uri.query().unwrap_or_default();
                Ok(json_response(
                    failures::page(&sources.client, &key, from).await,
                ))
            }
        }
    }

    /// Takes the permits of one stream.
    fn stream_for(&self, principal: &Principal) -> Result<Streaming, Denied> {
        let taken = Arc::clone(&self.streams).try_acquire_owned();
        let permit = taken.map_err(|_| Denied::TooManyStreams)?;
        Ok(Streaming(permit, principal.stream()?))
    }
}

/// The permits of one stream: one of the port, and one of the principal, if limited.
#[derive(Debug)]
struct Streaming(
    #[expect(dead_code, reason = "released on drop")] OwnedSemaphorePermit,
    #[expect(dead_code, reason = "released on drop")] Option<OwnedSemaphorePermit>,
);

/// Returns the resource for the rest of a path after `/ui`.
fn resource(rest: &str) -> Option<Resource> {
    let words: Vec<&str> = rest.split('/').skip(1).collect();
    let key = |namespace: &str, name: &str| JobKey {
        namespace: namespace.into(),
        name: name.into(),
    };
    // An invalid name matches nothing, and must not get into a path to the API server.
    if let ["jobs", namespace, name, ..] = words[..]
        && !(is_name(namespace) && is_name(name))
    {
        return None;
    }
    Some(match words[..] {
        [] | [""] => {
            let (kind, text) = files::page();
            Resource::File(kind, text)
        }
        ["viewer"] => Resource::Principal,
        ["cluster"] => Resource::Cluster,
        ["jobs"] => Resource::Jobs,
        ["jobs", namespace, name] => Resource::Job(key(namespace, name)),
        ["jobs", namespace, name, "object"] => Resource::Object(key(namespace, name)),
        ["jobs", namespace, name, "pods"] => Resource::Pods(key(namespace, name)),
        ["jobs", namespace, name, "failures"] => Resource::Failures(key(namespace, name)),
        ["jobs", namespace, name, "indexes", index] => {
            Resource::Index(key(namespace, name), index.parse().ok()?)
        }
        [name] => {
            let (kind, text) = files::of_name(name)?;
            Resource::File(kind, text)
        }
        _ => return None,
    })
}

/// Returns true if the text may be the name of a namespace or a Job.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    text.bytes().all(is_plain) && text.starts_with(|first: char| first != '.')
}

/// Describes the cluster for the page's header, with the controller's time.
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

/// Returns the result of an API request as a response.
fn json_response(result: crate::client::Result<Value>) -> Response<ResponseBody> {
    match result {
        Ok(body) => response(StatusCode::OK, JSON, body.to_string()),
        Err(error) => response(StatusCode::BAD_GATEWAY, TEXT, error.to_string()),
    }
}

fn denied_response(denied: &Denied) -> Response<ResponseBody> {
    response(denied.status(), TEXT, denied.to_string())
}

fn response(
    status: StatusCode,
    kind: &'static str,
    text: impl Into<Bytes>,
) -> Response<ResponseBody> {
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
    fn paths_name_resources() {
        let key = || JobKey {
            namespace: "a".into(),
            name: "b".into(),
        };
        let html = |rest: &str| match resource(rest) {
            Some(Resource::File(kind, _)) => kind.starts_with("text/html"),
            _ => false,
        };
        assert!(html("") && html("/"));
        assert!(matches!(resource("/page.js"), Some(Resource::File(..))));
        assert_eq!(resource("/jobs"), Some(Resource::Jobs));
        assert_eq!(resource("/jobs/a/b"), Some(Resource::Job(key())));
        let index = resource("/jobs/a/b/indexes/7");
        assert_eq!(index, Some(Resource::Index(key(), 7)));
        assert_eq!(resource("/cluster"), Some(Resource::Cluster));
        assert_eq!(resource("/jobs/a/b/object"), Some(Resource::Object(key())));
        assert_eq!(resource("/jobs/a/b/pods"), Some(Resource::Pods(key())));
        let failures = resource("/jobs/a/b/failures");
        assert_eq!(failures, Some(Resource::Failures(key())));
        for unknown in [
            "/jobs/a",
            "/jobs/a/b/indexes/x",
            "/other",
            "/jobs/a/b/c",
            "/jobs//b",
            "/jobs/../b",
            "/jobs/a/..",
            "/jobs/a%2Fb/c/failures",
        ] {
            assert_eq!(resource(unknown), None, "{unknown}");
        }
        assert!(Ui::is_ui_path("/ui") && Ui::is_ui_path("/ui/jobs") && !Ui::is_ui_path("/uix"));
    }
}
