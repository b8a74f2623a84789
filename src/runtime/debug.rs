//! Serves `/debug/jobs` and `/debug/jobs/NAMESPACE/NAME`: the controller's view of Jobs, as JSON.
//!
//! Names, indexes and Events of Jobs are not public to every client that reaches the port. So only clients on this
//! machine, such as `kubectl port-forward`, get an answer, unless the operator exposes it. A web page cannot get one
//! through a browser on this machine under another name (DNS rebinding).
//!
//! Must not: know Jobs itself.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use http::{Response, StatusCode, header, request::Parts, uri::Authority};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    model::JobKey,
    shard::{JobDescription, Question},
};

use super::{
    desk::Desk,
    records::{EXPORTS, RecordRefusal, RecordWish},
    serving::ResponseBody,
};

/// Handler of `/debug/jobs`. It authorizes a request, and passes its question to the loops.
#[derive(Clone, Debug)]
pub(super) struct DebugJobs {
    desk: Arc<Desk>,
    /// One permit per export that is being sent.
    exports: Arc<Semaphore>,
    /// All clients get an answer.
    is_exposed: bool,
}

/// Prefix of the paths.
const JOBS: &str = "/debug/jobs";

impl DebugJobs {
    pub(super) fn new(desk: Arc<Desk>, is_exposed: bool) -> Self {
        Self {
            desk,
            exports: Arc::new(Semaphore::new(EXPORTS)),
            is_exposed,
        }
    }

    /// Answers a request from this address, if it is about Jobs.
    pub(super) async fn answer(
        &self,
        request: &Parts,
        from: IpAddr,
    ) -> Option<(StatusCode, String)> {
        let question = question(request.uri.path())?;
        if !self.may_ask(request, from) {
            return Some((StatusCode::FORBIDDEN, ELSEWHERE.to_owned()));
        }
        let Some(question) = question else {
            let why = format!("{JOBS}, {JOBS}/NAMESPACE/NAME or {JOBS}/NAMESPACE/NAME/indexes");
            return Some((StatusCode::NOT_FOUND, why));
        };
        Some(match self.desk.ask(&question).await {
            Err(error) => (StatusCode::GATEWAY_TIMEOUT, error.to_string()),
            Ok(told) => answer(&question, told),
        })
    }

    /// Answers a request for the records of a Job's indexes, if it is one.
    pub(super) async fn answer_records(
        &self,
        request: &Parts,
        from: IpAddr,
    ) -> Option<Result<Response<ResponseBody>, RecordRefusal>> {
        let words = words(request.uri.path())?;
        let [namespace, name, word] = words[..] else {
            return None;
        };
        let key = JobKey {
            namespace: namespace.into(),
            name: name.into(),
        };
        let wish = RecordWish::read(key, word, request.uri.query())?;
        if !self.may_ask(request, from) {
            let refusal = RecordRefusal(StatusCode::FORBIDDEN, ELSEWHERE.to_owned());
            return Some(Err(refusal));
        }
        Some(match wish {
            Ok(wish) => wish.answer(&self.desk, &self.exports).await,
            Err(refusal) => Err(refusal),
        })
    }

    fn may_ask(&self, request: &Parts, from: IpAddr) -> bool {
        self.is_exposed || is_from_this_machine(request, from)
    }
}

/// Answer to other clients.
const ELSEWHERE: &str =
    "only told to who asks from this machine, as by kubectl port-forward: see --expose-debug";

/// Returns the question that a path asks; an inner none if the path is about Jobs and asks nothing known.
#[allow(
    clippy::option_option,
    reason = "the outer one says whether it is about Jobs"
)]
fn question(path: &str) -> Option<Option<Question>> {
    let words = words(path)?;
    Some(match words[..] {
        [] => Some(Question::Jobs),
        [namespace, name] => Some(Question::Job(JobKey {
            namespace: namespace.into(),
            name: name.into(),
        })),
        _ => None,
    })
}

/// Returns the segments of a path that is about Jobs.
fn words(path: &str) -> Option<Vec<&str>> {
    let rest = path.strip_prefix(JOBS)?;
    if !(rest.is_empty() || rest.starts_with('/')) {
        return None;
    }
    Some(rest.split('/').filter(|word| !word.is_empty()).collect())
}

/// Returns true for a request made on this machine, except by a foreign page in a local browser, or through a proxy. A
/// service mesh's sidecar connects from a loopback address (Istio's from 127.0.0.6).
pub(super) fn is_from_this_machine(request: &Parts, from: IpAddr) -> bool {
    let is_local = match from.to_canonical() {
        IpAddr::V4(from) => from == Ipv4Addr::LOCALHOST,
        IpAddr::V6(from) => from == Ipv6Addr::LOCALHOST,
    };
    is_local && is_asked_as_local(request) && !is_handed_on(request)
}

/// Returns true if a proxy has added a header.
fn is_handed_on(request: &Parts) -> bool {
    let marks = ["x-forwarded-", "x-envoy-", "l5d-"];
    let mut names = request.headers.keys().map(header::HeaderName::as_str);
    names.any(|name| {
        matches!(name, "forwarded" | "via" | "x-real-ip")
            || marks.iter().any(|mark| name.starts_with(mark))
    })
}

/// Returns true if the `Host` header names this machine.
fn is_asked_as_local(request: &Parts) -> bool {
    let hosts = request.headers.get_all(header::HOST).iter();
    // An unreadable host is no local one. A request without a host is not from a browser.
    let mut hosts = hosts.map(|host| host.to_str().ok()?.parse::<Authority>().ok());
    hosts.all(|host| host.is_some_and(|host| is_this_machine(host.host())))
}

fn is_this_machine(host: &str) -> bool {
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

fn answer(question: &Question, told: Vec<JobDescription>) -> (StatusCode, String) {
    if let Question::Job(key) = question
        && told.is_empty()
    {
        return (
            StatusCode::NOT_FOUND,
            format!("this controller has no Job {key}"),
        );
    }
    // Several Jobs may have had one name: the deleted ones have Pods left.
    let mut jobs: Vec<Value> = told.into_iter().map(|told| told.job).collect();
    jobs.sort_by_cached_key(|job| ["namespace", "name", "uid"].map(|of| job[of].to_string()));
    let whole = json!({ "jobs": jobs });
    (StatusCode::OK, format!("{whole:#}\n"))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn paths_are_questions() {
        let job = |namespace: &str, name: &str| {
            Question::Job(JobKey {
                namespace: namespace.into(),
                name: name.into(),
            })
        };
        assert_eq!(question("/metrics"), None);
        assert_eq!(question("/debug/jobsx"), None);
        assert_eq!(question("/debug/jobs"), Some(Some(Question::Jobs)));
        assert_eq!(question("/debug/jobs/"), Some(Some(Question::Jobs)));
        assert_eq!(question("/debug/jobs/a/b"), Some(Some(job("a", "b"))));
        assert_eq!(question("/debug/jobs/a"), Some(None));
        assert_eq!(question("/debug/jobs/a/b/c"), Some(None));
    }

    #[tokio::test]
    async fn only_loopback_clients_with_a_loopback_host_are_answered() {
        let ask = async |is_exposed, from: &str, host: &str| {
            let debug = DebugJobs::new(Arc::default(), is_exposed);
            let request = Request::get("/debug/jobs").header(header::HOST, host);
            let (request, ()) = request.body(()).expect("a request").into_parts();
            let from = from.parse().expect("an address");
            let (status, _) = debug
                .answer(&request, from)
                .await
                .expect("it is about Jobs");
            status.as_u16()
        };
        for (from, host) in [
            ("127.0.0.1", "localhost:8080"),
            ("::1", "[::1]:8080"),
            ("::ffff:127.0.0.1", "127.0.0.1"),
            ("127.0.0.1", "LocalHost"),
        ] {
            assert_eq!(ask(false, from, host).await, 200, "{from} {host}");
        }
        assert_eq!(ask(false, "10.0.0.7", "127.0.0.1:8080").await, 403);
        // Istio's sidecar connects from here.
        assert_eq!(ask(false, "127.0.0.6", "127.0.0.1:8080").await, 403);
        for host in [
            "evil.example:8080",
            "localhost.evil.example",
            "user@",
            "a b",
            "",
        ] {
            assert_eq!(ask(false, "127.0.0.1", host).await, 403, "{host:?}");
        }
        assert_eq!(ask(true, "10.0.0.7", "lakh.example:8080").await, 200);
    }

    #[test]
    fn proxied_requests_are_not_loopback() {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let is_local = |name: &str| {
            let request = Request::get("/debug/jobs").header(header::HOST, "localhost:8080");
            let (request, ()) = request
                .header(name, "x")
                .body(())
                .expect("a request")
                .into_parts();
            is_from_this_machine(&request, here)
        };
        assert!(is_local("accept"));
        for name in [
            "x-forwarded-for",
            "x-forwarded-proto",
            "forwarded",
            "via",
            "x-envoy-peer-metadata",
            "l5d-client-id",
        ] {
            assert!(!is_local(name), "{name}");
        }
    }
}
