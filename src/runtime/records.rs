//! Serves `/debug/jobs/NAMESPACE/NAME/indexes`: the record of a Job's indexes, as pages of JSON, or as JSON lines or
//! CSV of all of them.
//!
//! An export is read and sent page by page, so it takes little memory, and little time of the controller at once. The
//! same clients are allowed as for `/debug/jobs`.
//!
//! Must not: know how records are stored.

use std::{fmt::Write as _, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    model::{INDEX_RECORD, JobKey, Time},
    shard::{JobDescription, MapState, Question, RecordPage, RecordQuery, RecordRow, WantedRows},
};

use super::{desk::Desk, serving::ResponseBody};

/// Default number of rows of a JSON page.
const PAGE: u32 = 1000;

/// Number of rows that an export reads at once: some hundred KiB.
const PIECE: u32 = 4096;

/// Maximum number of concurrent exports, of all Jobs. Each keeps a connection for as long as its reader takes, and has
/// a page in memory; a person has one, a script a few.
pub(super) const EXPORTS: usize = 8;

/// A request for a Job's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordWish {
    form: RecordForm,
    query: RecordQuery,
}

/// The form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordForm {
    /// One object, with some rows.
    Page,
    /// An object for each index.
    Lines,
    Csv,
}

/// Status code and reason of a refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordRefusal(pub(super) StatusCode, pub(super) String);

impl RecordWish {
    /// Parses the last segment of a path and the query; none if the segment does not name a record.
    pub(super) fn read(
        key: JobKey,
        word: &str,
        query: Option<&str>,
    ) -> Option<Result<Self, RecordRefusal>> {
        let form = match word {
            "indexes" => RecordForm::Page,
            "indexes.jsonl" => RecordForm::Lines,
            "indexes.csv" => RecordForm::Csv,
            _ => return None,
        };
        Some(read_query(key, form, query.unwrap_or_default()))
    }

    /// Answers the request.
    pub(super) async fn answer(
        self,
        desk: &Arc<Desk>,
        exports: &Arc<Semaphore>,
    ) -> Result<Response<ResponseBody>, RecordRefusal> {
        let Self { form, query } = self;
        if form == RecordForm::Page {
            let page = page(desk, &query).await?;
            let whole = format!("{:#}\n", page_object(&query, &page));
            let body = Full::new(Bytes::from(whole)).boxed_unsync();
            return Ok(response(body, "application/json", page.since));
        }
        let permit = Arc::clone(exports).try_acquire_owned();
        let permit = permit.map_err(|_| {
            let why = format!("{EXPORTS} exports are in progress; retry when one has finished");
            RecordRefusal(StatusCode::SERVICE_UNAVAILABLE, why)
        })?;
        let first = page(desk, &query).await?;
        let kind = match form {
            RecordForm::Csv => "text/csv; charset=utf-8",
            RecordForm::Lines | RecordForm::Page => "application/jsonl",
        };
        let since = first.since;
        let body = export(Arc::clone(desk), form, query, first, permit);
        Ok(response(body, kind, since))
    }
}

/// Returns the record of one index, for the page; none if there is none.
pub(super) async fn of_index(desk: &Desk, key: &JobKey, index: u32) -> Option<Value> {
    let query = RecordQuery {
        key: key.clone(),
        uid: None,
        from: index,
        limit: 1,
        rows: WantedRows::All,
    };
    let page = page(desk, &query).await.ok()?;
    let row = page.rows.first()?;
    row.tries.map(|_| row_object(row))
}

fn read_query(key: JobKey, form: RecordForm, query: &str) -> Result<RecordWish, RecordRefusal> {
    let odd = |why: String| Err(RecordRefusal(StatusCode::BAD_REQUEST, why));
    let mut wish = RecordWish {
        form,
        query: RecordQuery {
            key,
            uid: None,
            from: 0,
            limit: if form == RecordForm::Page {
                PAGE
            } else {
                PIECE
            },
            rows: WantedRows::All,
        },
    };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let query = &mut wish.query;
        match (name, value.parse::<u32>(), value) {
            ("state", _, "failed") => query.rows = WantedRows::Failed,
            ("last", _, "failed") => query.rows = WantedRows::LastFailed,
            ("state" | "last", ..) => {
                return odd(format!("{name}={value}: must be failed"));
            }
            ("from" | "limit" | "index", ..) if form != RecordForm::Page => {
                return odd(format!(
                    "{name}: not allowed for an export, which has all indexes"
                ));
            }
            ("from", Ok(number), _) => query.from = number,
            ("limit", Ok(number @ 1..), _) => query.limit = number,
            ("index", Ok(number), _) => (query.from, query.limit) = (number, 1),
            ("from" | "limit" | "index", ..) => {
                return odd(format!("{name}={value}: invalid number"));
            }
            _ => {
                return odd(format!(
                    "{name}: state, last, from, limit and index are known"
                ));
            }
        }
    }
    Ok(wish)
}

/// Reads a page. Of several Jobs with one name, the existing one comes first.
async fn page(desk: &Desk, query: &RecordQuery) -> Result<RecordPage, RecordRefusal> {
    let key = &query.key;
    let told = desk.ask(&Question::Records(query.clone())).await;
    let told =
        told.map_err(|error| RecordRefusal(StatusCode::GATEWAY_TIMEOUT, error.to_string()))?;
    if told.is_empty() {
        let why = format!("this controller has no Job {key}");
        return Err(RecordRefusal(StatusCode::NOT_FOUND, why));
    }
    let pages = told
        .into_iter()
        .filter_map(|told: JobDescription| told.records);
    pages.min_by_key(|page| page.is_gone).ok_or_else(|| {
        let why = format!(
            "nothing is recorded of the indexes of Job {key}: annotate it with {INDEX_RECORD}=true, and look at its Events \
             if it is"
        );
        RecordRefusal(StatusCode::NOT_FOUND, why)
    })
}

fn response(body: ResponseBody, kind: &'static str, since: Time) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Ok(since) = HeaderValue::from_str(&since.to_rfc3339()) {
        headers.insert("lakh-record-since", since);
    }
    response
}

/// Returns all rows, a page at a time.
fn export(
    desk: Arc<Desk>,
    form: RecordForm,
    query: RecordQuery,
    first: RecordPage,
    permit: OwnedSemaphorePermit,
) -> ResponseBody {
    let head = match form {
        RecordForm::Csv => CSV_HEAD,
        RecordForm::Lines | RecordForm::Page => "",
    };
    let query = RecordQuery {
        // A later Job with this name is another.
        uid: Some(first.uid),
        ..query
    };
    let begin = (Some(Ok(first)), query, desk);
    let pieces = stream::unfold(begin, move |(page, query, desk)| async move {
        let page: RecordPage = match page? {
            Ok(page) => page,
            Err(RecordRefusal(_, why)) => {
                return Some((unfinished(form, &why), (None, query, desk)));
            }
        };
        let text = rows_text(form, &page.rows);
        let next = match page.next {
            None => None,
            Some(from) => {
                let query = RecordQuery {
                    from,
                    ..query.clone()
                };
                Some(self::page(&desk, &query).await)
            }
        };
        Some((text, (next, query, desk)))
    });
    let head = stream::iter((!head.is_empty()).then(|| head.to_owned()));
    let pieces = head.chain(pieces);
    let frames = pieces.map(move |text| {
        let _until_the_end = &permit;
        Ok(Frame::data(Bytes::from(text)))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Returns the last line of an incomplete export, so that it cannot be mistaken for a complete one.
fn unfinished(form: RecordForm, why: &str) -> String {
    match form {
        RecordForm::Csv => format!("# not finished: {}\n", why.replace('\n', " ")),
        RecordForm::Lines | RecordForm::Page => format!("{}\n", json!({ "notFinished": why })),
    }
}

fn rows_text(form: RecordForm, rows: &[RecordRow]) -> String {
    let mut text = String::with_capacity(rows.len() * 128);
    for row in rows {
        match form {
            RecordForm::Csv => csv_row(row, &mut text),
            RecordForm::Lines | RecordForm::Page => {
                let _ = writeln!(text, "{}", row_object(row));
            }
        }
    }
    text
}

fn page_object(query: &RecordQuery, page: &RecordPage) -> Value {
    json!({
        "namespace": query.key.namespace.as_str(),
        "name": query.key.name.as_str(),
        "uid": page.uid.to_string(),
        "since": page.since.to_rfc3339(),
        "completions": page.completions,
        "known": page.known,
        "bytes": page.bytes,
        "indexes": page.rows.iter().map(row_object).collect::<Vec<_>>(),
        "next": page.next,
    })
}

fn time(time: Option<Time>) -> Option<String> {
    time.map(Time::to_rfc3339)
}

/// Returns an index as an object; `known` is false if nothing was recorded.
fn row_object(row: &RecordRow) -> Value {
    let state = row.verdict.map(MapState::as_str);
    let Some(tries) = row.tries else {
        return json!({"index": row.index, "state": state, "known": false});
    };
    let mut told = json!({"index": row.index, "state": state, "known": true, "tries": tries});
    if let Some(end) = &row.end {
        told["last"] = json!({
            "outcome": end.outcome.as_str(),
            "exitCode": end.cause.exit_code,
            "reason": some(&end.cause.reason),
            "node": some(&end.node),
            "started": time(end.started),
            "ended": time(end.ended),
        });
    }
    told
}

fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

const CSV_HEAD: &str = "index,state,known,tries,outcome,exit_code,reason,node,started,ended\n";

/// Appends a line. Words need no quotes: they are stored without such characters (`model::PodEnd`).
fn csv_row(row: &RecordRow, text: &mut String) {
    let state = row.verdict.map_or("", MapState::as_str);
    let tries = row
        .tries
        .map_or_else(String::new, |tries| tries.to_string());
    let _ = write!(
        text,
        "{},{state},{},{tries}",
        row.index,
        row.tries.is_some()
    );
    let Some(end) = &row.end else {
        text.push_str(",,,,,,\n");
        return;
    };
    let code = end.cause.exit_code;
    let code = code.map_or_else(String::new, |code| code.to_string());
    let [started, ended] = [end.started, end.ended].map(|at| time(at).unwrap_or_default());
    let (outcome, reason) = (end.outcome.as_str(), &end.cause.reason);
    let _ = writeln!(
        text,
        ",{outcome},{code},{reason},{},{started},{ended}",
        end.node
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::EndCause, record::IndexOutcome, shard::RowEnd};

    fn key() -> JobKey {
        JobKey {
            namespace: "a".into(),
            name: "b".into(),
        }
    }

    fn read(word: &str, query: &str) -> Option<Result<RecordQuery, String>> {
        let wish = RecordWish::read(key(), word, Some(query))?;
        Some(
            wish.map(|wish| wish.query)
                .map_err(|RecordRefusal(_, why)| why),
        )
    }

    fn query(from: u32, limit: u32, rows: WantedRows) -> RecordQuery {
        RecordQuery {
            key: key(),
            uid: None,
            from,
            limit,
            rows,
        }
    }

    #[test]
    fn paths_and_queries_are_parsed_or_refused_with_a_reason() {
        assert_eq!(read("events", ""), None);
        assert_eq!(
            read("indexes", ""),
            Some(Ok(query(0, PAGE, WantedRows::All)))
        );
        let page = read("indexes", "from=5&limit=7&state=failed");
        assert_eq!(page, Some(Ok(query(5, 7, WantedRows::Failed))));
        assert_eq!(
            read("indexes", "index=9"),
            Some(Ok(query(9, 1, WantedRows::All)))
        );
        let failed = read("indexes.csv", "last=failed");
        assert_eq!(failed, Some(Ok(query(0, PIECE, WantedRows::LastFailed))));
        for (word, odd, why) in [
            ("indexes", "from=x", "from=x: invalid number"),
            ("indexes", "limit=0", "limit=0: invalid number"),
            ("indexes", "state=odd", "state=odd: must be failed"),
            (
                "indexes",
                "form=1",
                "form: state, last, from, limit and index are known",
            ),
            (
                "indexes.jsonl",
                "from=1",
                "from: not allowed for an export, which has all indexes",
            ),
        ] {
            assert_eq!(read(word, odd), Some(Err(why.to_owned())), "{odd}");
        }
    }

    fn rows() -> [RecordRow; 3] {
        let end = |outcome, code, reason| RowEnd {
            outcome,
            cause: EndCause::new(code, reason),
            node: "node-1".into(),
            started: Some(Time::from_secs(60)),
            ended: None,
        };
        let row = |index, verdict, tries, end| RecordRow {
            index,
            verdict,
            tries,
            end,
        };
        let failed = end(IndexOutcome::Failed, Some(137), "OOMKilled");
        [
            row(0, Some(MapState::Failed), Some(3), Some(failed)),
            row(1, None, Some(1), None),
            row(2, Some(MapState::Succeeded), None, None),
        ]
    }

    #[test]
    fn a_row_has_the_same_in_each_form() {
        assert_eq!(
            rows_text(RecordForm::Csv, &rows()),
            "0,failed,true,3,failed,137,OOMKilled,node-1,1970-01-01T00:01:00Z,\n\
             1,,true,1,,,,,,\n\
             2,succeeded,false,,,,,,,\n"
        );
        let commas = |line: &str| line.matches(',').count();
        let text = rows_text(RecordForm::Csv, &rows());
        assert!(text.lines().all(|line| commas(line) == commas(CSV_HEAD)));
        let lines = rows_text(RecordForm::Lines, &rows());
        let lines: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(
            lines[0],
            json!({"index": 0, "state": "failed", "known": true, "tries": 3, "last": {
                "outcome": "failed", "exitCode": 137, "reason": "OOMKilled", "node": "node-1",
                "started": "1970-01-01T00:01:00Z", "ended": null,
            }})
        );
        assert_eq!(
            lines[2],
            json!({"index": 2, "state": "succeeded", "known": false})
        );
    }
}
