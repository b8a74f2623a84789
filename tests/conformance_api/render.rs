//! Renders responses as lines of text.
//!
//! Responsible for: selecting the parts of a response that are compared. Must not: leave out anything of a failure.

use http::HeaderMap;
use serde_json::{Map, Value, json};

use super::case::Line;

/// Headers that are part of an answer.
const HEADERS: [&str; 3] = ["content-type", "retry-after", "warning"];

/// The code and the relevant headers. The default `application/json` is omitted.
pub(crate) fn head(code: u16, headers: &HeaderMap) -> Vec<Line> {
    let mut lines = vec![code.to_string()];
    for name in HEADERS {
        for value in headers.get_all(name) {
            let value = value.to_str().unwrap();
            if value != "application/json" {
                lines.push(format!("{name}: {value}"));
            }
        }
    }
    lines
}

/// Renders an object, or the selected parts of it. A failure is always rendered as a whole.
pub(crate) fn object(code: u16, value: &Value, show: Option<&[String]>) -> Vec<Line> {
    if let Some((told, lines)) = failure(value)
        && told == code
    {
        return lines;
    }
    if let Some(paths) = show {
        let line = |path: &String| format!("{path} {}", at(value, path));
        return paths.iter().filter(|path| *path != "-").map(line).collect();
    }
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| format!(".{name} {value}"))
            .collect(),
        other => vec![other.to_string()],
    }
}

/// Renders an event of a watch in one line.
pub(crate) fn event(kind: &str, object: &Value, show: Option<&[String]>) -> Line {
    if let Some((code, lines)) = failure(object) {
        return format!("{kind} {code} {}", lines.join(" | "));
    }
    let Some(paths) = show else {
        return format!("{kind} {object}");
    };
    let shown = paths.iter().filter(|path| *path != "-");
    let shown: Vec<String> = shown
        .map(|path| format!("{path} {}", at(object, path)))
        .collect();
    format!("{kind} {}", shown.join(" ")).trim_end().to_owned()
}

/// Renders a body that is not JSON.
pub(crate) fn text(body: &str) -> Vec<Line> {
    body.lines().map(|line| format!("| {line}")).collect()
}

/// Splits a failure into its code and its other lines, if it is a `Status` with the usual members and no others.
fn failure(value: &Value) -> Option<(u16, Vec<Line>)> {
    let Value::Object(mut rest) = value.clone() else {
        return None;
    };
    let usual = rest.remove("kind")? == "Status"
        && rest.remove("apiVersion")? == "v1"
        && rest.remove("status")? == "Failure";
    let code = u16::try_from(rest.remove("code")?.as_u64()?).ok()?;
    let message = rest.remove("message").unwrap_or_default();
    let reason = rest.remove("reason");
    let metadata = rest.remove("metadata")?;
    let details = rest.remove("details");
    if !usual || !rest.is_empty() {
        return None;
    }
    let reason = reason.as_ref().and_then(Value::as_str).unwrap_or("-");
    let message = message.as_str().unwrap_or_default();
    let mut lines = vec![format!("{reason}: {}", one_line(message))];
    if metadata != json!({}) {
        lines.push(format!("metadata {metadata}"));
    }
    if let Some(Value::Object(details)) = details {
        lines.extend(failure_details(details));
    }
    Some((code, lines))
}

fn failure_details(mut details: Map<String, Value>) -> Vec<Line> {
    let causes = details.remove("causes");
    let mut lines = vec![format!("details {}", Value::Object(details))];
    let causes = causes.as_ref().and_then(Value::as_array);
    let mut causes: Vec<_> = causes.into_iter().flatten().collect();
    // kube-apiserver reports conflicts with several field managers in the order of a Go map, which varies. The message
    // names the manager, and the stable sort keeps the server's order within one manager.
    if causes
        .iter()
        .all(|cause| cause["reason"] == "FieldManagerConflict")
    {
        causes.sort_by_key(|cause| cause["message"].as_str());
    }
    for cause in causes {
        let text = |name: &str| {
            cause[name]
                .as_str()
                .map_or_else(|| "-".to_owned(), one_line)
        };
        lines.push(format!(
            "cause {} {}: {}",
            text("reason"),
            text("field"),
            text("message")
        ));
    }
    lines
}

fn one_line(text: &str) -> String {
    text.replace('\n', "\\n")
}

/// The value at a path such as `.items[].metadata.name`, or `none`.
fn at(value: &Value, path: &str) -> String {
    find(value, path).map_or_else(|| "none".to_owned(), |found| found.to_string())
}

fn find(value: &Value, path: &str) -> Option<Value> {
    if let Some((before, after)) = path.split_once("[]") {
        let Value::Array(items) = find(value, before)? else {
            return None;
        };
        let each = items
            .iter()
            .map(|item| find(item, after).unwrap_or_default());
        return Some(each.collect());
    }
    let mut found = value;
    for name in path.split('.').skip(1) {
        let (name, rest) = name.split_once('[').unwrap_or((name, ""));
        // Some keys contain slashes and dots: `~` stands for a dot.
        found = found.get(name.replace('~', "."))?;
        if let Some(index) = rest.strip_suffix(']') {
            found = found.get(index.parse::<usize>().unwrap())?;
        }
    }
    Some(found.clone())
}
