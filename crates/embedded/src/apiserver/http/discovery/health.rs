//! Answers health checks: `/healthz`, `/livez`, `/readyz`, and the single checks below them.
//!
//! Responsible for: the responses. Must not: check anything; a server that responds is healthy.
//!
//! Different from a real server: checks of hooks that this server lacks are omitted.

use super::super::query::Query;
use crate::apiserver::{
    object::{ApiError, Result},
    print::{Response, TEXT},
};

/// The endpoints, each with its checks in output order.
const ENDPOINTS: [(&str, &[&str]); 3] = [
    ("healthz", &["ping", "log", "etcd"]),
    ("livez", &["ping", "log", "etcd"]),
    ("readyz", &["ping", "log", "informer-sync", "shutdown"]),
];

/// Answers a path that begins with the name of an endpoint; `None` for other paths.
pub(super) fn answer(parts: &[&str], query: &str) -> Option<Result<Response>> {
    let (name, rest) = parts.split_first()?;
    let (endpoint, checks) = ENDPOINTS.iter().find(|(known, _)| known == name)?;
    let text = match rest {
        [] => list(endpoint, checks, &Query::parse(query)),
        [check] if checks.contains(check) => "ok".to_owned(),
        _ => return Some(Err(ApiError::no_path())),
    };
    Some(Ok(Response::bytes(200, TEXT, text.into_bytes())))
}

/// The paths of all checks.
pub(super) fn paths() -> impl Iterator<Item = String> {
    ENDPOINTS.iter().flat_map(|(endpoint, checks)| {
        let below = checks
            .iter()
            .map(move |check| format!("/{endpoint}/{check}"));
        std::iter::once(format!("/{endpoint}")).chain(below)
    })
}

fn list(endpoint: &str, checks: &[&str], query: &Query) -> String {
    if query.get("verbose").is_none() {
        return "ok".to_owned();
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut text = String::new();
    for check in checks {
        let state = match excluded.contains(check) {
            true => "excluded: ok",
            false => "ok",
        };
        text += &format!("[+]{check} {state}\n");
    }
    let unknown = excluded.iter().filter(|name| !checks.contains(name));
    let mut unknown: Vec<String> = unknown.map(|name| format!("{name:?}")).collect();
    if !unknown.is_empty() {
        unknown.sort_unstable();
        let unknown = unknown.join(",");
        text += &format!("warn: some health checks cannot be excluded: no matches for {unknown}\n");
    }
    text + &format!("{endpoint} check passed\n")
}
