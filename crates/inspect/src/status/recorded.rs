//! Reads the controller's record of indexes whose last Pod failed and is gone. The API server does not have it, so the
//! controller itself is queried.
//!
//! Must not: request anything from the API server, or use a record of another Job of the same name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use lakh_client::{Client, Result, configure_url};
use lakh_model::IndexSet;
use lakh_wire::ApiError;

use crate::{
    Problem,
    ask::Unseen,
    failures::FailureCause,
    one_job::{JobSight, Waits},
};

use super::report::{FailureReport, FailureTeller, IndexState, Indexes};

/// Rows of one request: the controller's maximum.
const PAGE: u32 = 4096;

/// The cause of an index that the controller has no record of.
const NOT_KNOWN: &str = "unknown";

/// The recorded failures of indexes without a failed Pod.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedReport {
    /// The start of the record. Earlier failures are unknown.
    pub(super) since: String,
    /// The last causes of the indexes, the most frequent first.
    pub(super) causes: Vec<RecordedCause>,
    /// The last failure of each index.
    pub(super) failures: Vec<FailureReport>,
}

/// The controller's record, or why it could not be read.
pub(super) type Recorded = std::result::Result<RecordedReport, Unseen>;

/// Indexes with the same last cause of failure.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedCause {
    pub(super) cause: String,
    pub(super) indexes: Indexes,
}

#[derive(Deserialize)]
struct RawPage {
    uid: String,
    since: String,
    indexes: Vec<RawRow>,
    next: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRow {
    index: u32,
    #[serde(default)]
    tries: u32,
    last: Option<RawLast>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawLast {
    outcome: String,
    exit_code: Option<i32>,
    reason: Option<String>,
    node: Option<String>,
    ended: Option<String>,
}

/// Creates a client for a controller, by the address of its `--listen`.
pub(super) fn controller(url: &str) -> std::result::Result<Client, Problem> {
    if !(url.starts_with("http://") || url.starts_with("https://")) {
        return Err(
            format!("--controller {url}: must be a URL such as http://127.0.0.1:8080").into(),
        );
    }
    let client = configure_url(url.trim_end_matches('/'));
    client.map_err(|error| format!("--controller {url}: {error}").into())
}

/// Queries the controller for its record.
pub(super) async fn look(sight: &JobSight, controller: &Client) -> Recorded {
    ask(sight, controller).await.map_err(|error| Unseen {
        what: format!("record of the indexes at {}", controller.url()),
        why: error.message,
    })
}

async fn ask(sight: &JobSight, controller: &Client) -> Result<RecordedReport> {
    let (key, uid) = (&sight.job.job.key, sight.job.job.uid.to_string());
    let waits = Waits::of(&sight.job, &sight.pods, sight.now);
    let teller = FailureTeller::of(sight, &waits);
    let mut with_pods = IndexSet::default();
    for index in sight.pods.failed.iter().filter_map(|pod| pod.index) {
        with_pods.insert(index);
    }
    let mut recorded = RecordedReport::default();
    let mut from = Some(0);
    while let Some(first) = from {
        let path = format!(
            "/debug/jobs/{}/{}/indexes?last=failed&from={first}&limit={PAGE}",
            key.namespace, key.name
        );
        let answer = controller.get(&path).await?;
        let page: RawPage = serde_json::from_slice(&answer)
            .map_err(|error| ApiError::no_answer(format!("invalid response: {error}")))?;
        if page.uid != uid {
            let why = "this controller has another Job of that name; check that it belongs to this cluster";
            return Err(ApiError::no_answer(why));
        }
        recorded.since = page.since;
        let rows = page.indexes.into_iter();
        let rows = rows.filter(|row| !with_pods.contains(row.index));
        let told = rows.map(|row| {
            let state = teller.index_state(row.index);
            row.told(state)
        });
        recorded.failures.extend(told);
        from = page.next.filter(|next| *next > first);
    }
    recorded.causes = by_cause(&recorded.failures);
    Ok(recorded)
}

impl RawRow {
    fn told(self, state: IndexState) -> FailureReport {
        let last = self.last;
        let cause = last
            .as_ref()
            .map_or_else(|| NOT_KNOWN.to_owned(), RawLast::cause);
        let part = |of: fn(&RawLast) -> &Option<String>| {
            let part = last.as_ref().and_then(|last| of(last).clone());
            part.unwrap_or_default()
        };
        FailureReport {
            index: Some(self.index),
            pod: String::new(),
            state: Some(state),
            tries: self.tries,
            cause,
            exit_code: last.as_ref().and_then(|last| last.exit_code),
            reason: last.as_ref().and_then(|last| last.reason.clone()),
            node: part(|last| &last.node),
            at: part(|last| &last.ended),
            message: None,
            until: None,
        }
    }
}

impl RawLast {
    fn cause(&self) -> String {
        if self.outcome == "gone" {
            return "deleted before its result was known".to_owned();
        }
        let cause = FailureCause {
            exit_code: self.exit_code,
            reason: self.reason.as_deref().unwrap_or_default().into(),
            ..FailureCause::default()
        };
        cause.to_string()
    }
}

fn by_cause(failures: &[FailureReport]) -> Vec<RecordedCause> {
    let mut causes: BTreeMap<&str, IndexSet> = BTreeMap::new();
    for failure in failures {
        let indexes = causes.entry(&failure.cause).or_default();
        if let Some(index) = failure.index {
            indexes.insert(index);
        }
    }
    let causes = causes.into_iter();
    let mut causes: Vec<RecordedCause> = causes
        .map(|(cause, indexes)| RecordedCause {
            cause: cause.to_owned(),
            indexes: Indexes::of(&indexes),
        })
        .collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.indexes.count));
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_grouped_by_their_last_failure() {
        let rows = r#"[{"index":0,"state":"failed","known":true,"tries":3,"last":{"outcome":"failed",
            "exitCode":137,"reason":"OOMKilled","node":"n-1","started":null,"ended":"2026-11-26T02:59:00Z"}},
            {"index":4,"state":"failed","known":false},
            {"index":5,"state":"failed","known":true,"tries":1,"last":{"outcome":"failed","exitCode":137,
            "reason":"OOMKilled","node":null,"started":null,"ended":null}},
            {"index":6,"state":"failed","known":true,"tries":1,"last":{"outcome":"gone","exitCode":null,
            "reason":null,"node":null,"started":null,"ended":null}}]"#;
        let rows: Vec<RawRow> = serde_json::from_str(rows).expect("good rows");
        let failures: Vec<FailureReport> = rows
            .into_iter()
            .map(|row| row.told(IndexState::Failed))
            .collect();
        let first = &failures[0];
        assert_eq!((first.tries, first.node.as_str()), (3, "n-1"));
        assert_eq!(first.at, "2026-11-26T02:59:00Z");
        let causes = by_cause(&failures);
        let causes: Vec<_> = causes
            .iter()
            .map(|cause| (cause.cause.as_str(), cause.indexes.list.as_str()))
            .collect();
        let expected = [
            ("exit code 137 (OOMKilled)", "0,5"),
            ("deleted before its result was known", "6"),
            ("unknown", "4"),
        ];
        assert_eq!(causes, expected);
    }

    #[test]
    fn a_controller_url_needs_a_scheme() {
        let told = controller("127.0.0.1:8080").map(|_| ());
        let why = told.expect_err("no URL").to_string();
        assert!(why.contains("--controller 127.0.0.1:8080"), "{why}");
    }
}
