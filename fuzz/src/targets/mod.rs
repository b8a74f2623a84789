//! Defines the fuzz targets: functions that read external input and must not panic or hang.
//!
//! Responsible for: the meaning of an input, and the invariants of every response. Must not: know the fuzzer;
//! `tests/rules/fuzz_corpus.rs` runs the same functions.

mod cluster;

use cluster::{Cluster, JOBS, NOW, PODS, Send};
use lakh_embedded::{
    apiserver::JSON,
    manifest::{self, Source},
};
use lakh_model::cron::{Schedule, explain};

/// A function that takes any bytes.
pub(crate) type Target = fn(&[u8]);

/// All targets; each has a folder of this name in `fuzz/corpus`.
pub(crate) const TARGETS: [(&str, Target); 7] = [
    ("request", request),
    ("patch", patch),
    ("selector", selector),
    ("continue", continue_token),
    ("protobuf", protobuf),
    ("manifest", manifest),
    ("cron", cron),
];

const MERGE: &str = "application/merge-patch+json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// One to eight requests, separated by a line `%%`. A request has a line with method and path, lines with headers, an
/// empty line, and a body.
fn request(input: &[u8]) {
    let mut cluster = Cluster::new();
    let mut rest = Some(input);
    for _ in 0..8 {
        let Some(text) = rest else { break };
        let (text, after) = cut(text, b"\n%%\n");
        rest = after;
        let (head, body) = cut(text, b"\n\n");
        let Ok(head) = std::str::from_utf8(head) else {
            return;
        };
        let (first, headers) = head.split_once('\n').unwrap_or((head, ""));
        let (method, path) = first.split_once(' ').unwrap_or((first, "/"));
        let header = |name: &str| {
            let mut headers = headers.lines().filter_map(|line| line.split_once(": "));
            let found = headers.find(|(have, _)| *have == name);
            found.map_or("", |(_, value)| value)
        };
        cluster.send(&Send {
            method,
            path,
            accept: header("Accept"),
            media: header("Content-Type"),
            body: body.unwrap_or_default(),
        });
    }
    cluster.collect_garbage();
}

/// A line that names the object and the kind of patch, then the patch. A second, empty patch must change nothing.
fn patch(input: &[u8]) {
    let (head, body) = cut(input, b"\n");
    let Ok(head) = std::str::from_utf8(head) else {
        return;
    };
    let (object, kind) = head.split_once(' ').unwrap_or((head, ""));
    let path = match object {
        "job" => format!("{JOBS}/j"),
        "job/status" => format!("{JOBS}/j/status"),
        "pod" => format!("{PODS}/p"),
        "pod/status" => format!("{PODS}/p/status"),
        _ => return,
    };
    let media = match kind {
        "json" => "application/json-patch+json",
        "merge" => MERGE,
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        _ => return,
    };
    let query = if kind == "apply" {
        "?fieldManager=fuzz&force=true"
    } else {
        ""
    };
    let mut cluster = Cluster::new();
    let mut send = |path: &str, media: &str, body: &[u8]| {
        let method = "PATCH";
        cluster.send(&Send {
            method,
            path,
            accept: JSON,
            media,
            body,
        })
    };
    let (status, patched) = send(&format!("{path}{query}"), media, body.unwrap_or_default());
    // A Pod that is being deleted disappears with its last finalizer; nothing here deletes.
    if status == 200 {
        let again = send(&path, MERGE, b"{}");
        assert_eq!(again, (200, patched), "a patch without content changes");
    }
}

/// A line with a label selector and a line with a field selector. A watch must begin with the items of the list.
fn selector(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let (labels, fields) = text.split_once('\n').unwrap_or((text, ""));
    let query = format!(
        "labelSelector={}&fieldSelector={}",
        escape(labels),
        escape(fields)
    );
    let mut cluster = Cluster::new();
    for path in [JOBS, PODS, "/api/v1/nodes", "/api/v1/events"] {
        let (status, list) = cluster.get(&format!("{path}?{query}"));
        let (watched, events) = cluster.get(&format!("{path}?watch=1&{query}"));
        assert_eq!(status, watched, "{list}");
        assert!(matches!(status, 200 | 400), "{status}: {list}");
        let items = list["items"].as_array().into_iter().flatten();
        let listed: Vec<_> = items.map(|item| &item["metadata"]["name"]).collect();
        let events = events.as_array().into_iter().flatten();
        let seen: Vec<_> = events
            .map(|event| &event["object"]["metadata"]["name"])
            .collect();
        assert_eq!(listed, seen, "{path}");
    }
}

/// A continue token; after `plain `, the text that the token encodes.
fn continue_token(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let token = match text.strip_prefix("plain ") {
        Some(plain) => base64(plain.as_bytes()),
        None => escape(text),
    };
    let mut cluster = Cluster::new();
    for path in [JOBS, PODS] {
        let (status, answer) = cluster.get(&format!("{path}?limit=1&continue={token}"));
        assert!(matches!(status, 200 | 400 | 410), "{status}: {answer}");
    }
}

/// A protobuf body without its magic number, as objects and as options.
fn protobuf(input: &[u8]) {
    let body = [b"k8s\0", input].concat();
    let mut cluster = Cluster::new();
    for (method, path) in [
        ("POST", JOBS),
        ("POST", PODS),
        ("POST", "/api/v1/namespaces"),
        ("POST", "/api/v1/namespaces/default/configmaps"),
        ("POST", "/apis/batch/v1/namespaces/default/cronjobs"),
        ("POST", "/api/v1/namespaces/default/pods/p/eviction"),
        ("DELETE", "/apis/batch/v1/namespaces/default/jobs/j"),
    ] {
        cluster.send(&Send {
            method,
            path,
            accept: "application/vnd.kubernetes.protobuf,application/json",
            media: PROTOBUF,
            body: &body,
        });
    }
}

/// A manifest. Its documents are sent to the server.
fn manifest(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let documents = match manifest::load(&[Source::new("a.yaml", text)]) {
        Ok(documents) => documents,
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("a.yaml"), "no file is named: {error}");
            return;
        }
    };
    let mut cluster = Cluster::new();
    for document in documents.iter().take(8) {
        let Ok(Some(path)) = manifest::resource_path(document, "default") else {
            continue;
        };
        cluster.send(&Send {
            method: "POST",
            path: &format!("{}?fieldValidation=Strict", path.collection),
            accept: JSON,
            media: JSON,
            body: document.body.to_string().as_bytes(),
        });
    }
}

/// A schedule, and its runs: each later than the one before.
fn cron(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let Ok(schedule) = Schedule::parse(text) else {
        return;
    };
    assert!(!explain(&schedule).is_empty());
    let mut time = NOW;
    for _ in 0..4 {
        let Some(next) = schedule.next(time) else {
            return;
        };
        assert!(next > time, "{text:?}: after {time:?} comes {next:?}");
        time = next;
    }
    // Few schedules are too dense to count. Here it matters only that none hangs.
    let _ = schedule.due(NOW, time);
}

/// The bytes before and after the first `mark`.
fn cut<'a>(bytes: &'a [u8], mark: &[u8]) -> (&'a [u8], Option<&'a [u8]>) {
    let found = bytes.windows(mark.len()).position(|window| window == mark);
    match found {
        Some(place) => (&bytes[..place], Some(&bytes[place + mark.len()..])),
        None => (bytes, None),
    }
}

/// Percent-encodes any text as a query value.
fn escape(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// URL-safe base64 without padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| usize::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..=chunk.len() {
            text.push(char::from(LETTERS[bits >> (18 - 6 * place) & 63]));
        }
    }
    text
}
