//! `/ui`: a page that shows Jobs, and all indexes of one, as they change.
//!
//! The page is three files that are part of the program; it asks nobody else for anything. It is told of changes by
//! server-sent events ([`stream`]), and the controller is asked only while somebody looks. As `/debug/jobs`, it is for
//! who asks from this machine, such as by `kubectl port-forward`, under one of its names, and for no other page in a browser
//! here.
//!
//! Must not: know Jobs itself, or write anything to the cluster.

mod changes;
mod index;
mod stream;

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};

use crate::{cluster::Client, model::JobKey};

use super::{debug::is_from_this_machine, desk::Desk, records::of_index};

/// A body that may come piece by piece.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// What paths begin with.
const UI: &str = "/ui";

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// The page may load and ask for what is here, and nothing else; nobody may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Ui {
    desk: Arc<Desk>,
    client: Client,
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    File(&'static str, &'static str),
    Jobs,
    Job(JobKey),
    Index(JobKey, u32),
}

impl Ui {
    /// One that asks at this desk and, of single indexes, this server. Connections are opened by the runtime in which
    /// this is called.
    pub(super) fn new(desk: Arc<Desk>, client: &Client) -> Self {
        Self {
            desk,
            client: client.with_own_connections(None),
        }
    }

    /// Answers a request from this address, if it is for the page.
    pub(super) async fn answer(
        &self,
        request: &Parts,
        from: IpAddr,
    ) -> Option<Response<ResponseBody>> {
        let path = request.uri.path();
        let rest = path.strip_prefix(UI)?;
        if !(rest.is_empty() || rest.starts_with('/')) {
            return None;
        }
        if !is_from_this_machine(request, from) || is_of_another_page(request) {
            let why = "only for who asks from this machine, as by kubectl port-forward";
            return Some(whole(StatusCode::FORBIDDEN, "text/plain", why));
        }
        let Some(wanted) = wanted(rest) else {
            return Some(whole(StatusCode::NOT_FOUND, "text/plain", "not found"));
        };
        Some(match wanted {
            Wanted::File(kind, text) => whole(StatusCode::OK, kind, text),
            Wanted::Jobs => events(stream::jobs(Arc::clone(&self.desk))),
            Wanted::Job(key) => events(stream::job(Arc::clone(&self.desk), key)),
            Wanted::Index(key, index) => {
                let record = of_index(&self.desk, &key, index).await;
                match index::tries(&self.client, &key, index, record).await {
                    Ok(tries) => whole(StatusCode::OK, "application/json", tries),
                    Err(error) => whole(StatusCode::BAD_GATEWAY, "text/plain", error.to_string()),
                }
            }
        })
    }
}

/// Whether another page has made the browser ask: its own address is none of ours, whatever it is called.
fn is_of_another_page(request: &Parts) -> bool {
    let site = request.headers.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

/// What a path after `/ui` asks for.
fn wanted(rest: &str) -> Option<Wanted> {
    let words: Vec<&str> = rest.split('/').skip(1).collect();
    let key = |namespace: &str, name: &str| JobKey {
        namespace: namespace.into(),
        name: name.into(),
    };
    Some(match words[..] {
        [] | [""] => Wanted::File("text/html; charset=utf-8", PAGE),
        ["page.js"] => Wanted::File("text/javascript; charset=utf-8", SCRIPT),
        ["page.css"] => Wanted::File("text/css; charset=utf-8", STYLE),
        ["jobs"] => Wanted::Jobs,
        ["jobs", namespace, name] => Wanted::Job(key(namespace, name)),
        ["jobs", namespace, name, "indexes", index] => {
            Wanted::Index(key(namespace, name), index.parse().ok()?)
        }
        _ => return None,
    })
}

fn whole(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<ResponseBody> {
    let body = Full::new(text.into()).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    secured(response, kind)
}

fn events(body: ResponseBody) -> Response<ResponseBody> {
    secured(Response::new(body), stream::EVENT_STREAM)
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
    use http::Request;

    use super::*;

    fn parts(path: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn paths_are_wishes() {
        let key = || JobKey {
            namespace: "a".into(),
            name: "b".into(),
        };
        assert!(matches!(wanted(""), Some(Wanted::File(_, PAGE))));
        assert!(matches!(wanted("/"), Some(Wanted::File(_, PAGE))));
        assert_eq!(wanted("/jobs"), Some(Wanted::Jobs));
        assert_eq!(wanted("/jobs/a/b"), Some(Wanted::Job(key())));
        let index = wanted("/jobs/a/b/indexes/7");
        assert_eq!(index, Some(Wanted::Index(key(), 7)));
        for nothing in ["/jobs/a", "/jobs/a/b/indexes/x", "/other", "/jobs/a/b/c"] {
            assert_eq!(wanted(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn what_another_page_makes_a_browser_ask_is_known() {
        let from = |site: &str| is_of_another_page(&parts("/ui", &[("sec-fetch-site", site)]));
        assert!(from("cross-site") && from("same-site"));
        assert!(!from("same-origin") && !from("none"));
        // Who says nothing is no browser.
        assert!(!is_of_another_page(&parts("/ui", &[])));
    }
}
