//! Names for what is different each time.
//!
//! Responsible for: UIDs, versions, tokens, times and generated names in answers, and the way back
//! in requests. Must not: take out anything that a server decides by rule.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// So much of `generateName` is kept.
const GENERATED_KEEPS: usize = 58;

/// The names given in one case.
pub(crate) struct Names {
    namespace: String,
    /// Texts and the names that they got, in this order.
    known: Vec<(String, String)>,
    /// Columns of the last table.
    columns: Vec<String>,
}

/// Messages that tell a version: what stands before it and what after.
const VERSIONS_IN_TEXT: [(&str, &str); 4] = [
    ("ResourceVersion in record (", ")"),
    ("Too large resource version: 99999999, current: ", ""),
    ("too old resource version: 1 (", ")"),
    ("too old resource version: ", " ("),
];

/// Where a server was built says nothing about it.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go";

/// Columns that tell how long ago something was.
const AGES: [&str; 2] = ["Age", "Last Schedule"];

/// The column that tells it in parentheses, behind a number.
const RESTARTS: &str = "Restarts";

impl Names {
    /// Nothing has a name but the namespace.
    pub(crate) const fn new(namespace: String) -> Self {
        Self {
            namespace,
            known: Vec::new(),
            columns: Vec::new(),
        }
    }

    /// A request's text with the real things for their names.
    pub(crate) fn real(&self, text: &str) -> String {
        let mut text = text.replace("{ns}", &self.namespace);
        for (real, name) in &self.known {
            text = text.replace(name, real);
        }
        text
    }

    /// Gives names to what is in an answer. `goes_on`: it is a later page of a list.
    pub(crate) fn name(&mut self, value: &mut Value, goes_on: bool) {
        self.name_generated(value);
        let list = value.get("items").is_some() || value.get("rows").is_some();
        let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
        if list && let Some(metadata) = metadata {
            if let Some(Value::String(version)) = metadata.get_mut("resourceVersion")
                && !version.is_empty()
            {
                self.list_version(version, goes_on);
            }
            self.token(metadata);
        }
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut)
            && value_is_status(metadata)
        {
            self.token(metadata);
        }
        self.walk(value, "");
    }

    /// Names the version of a bookmark or a list, which may be any that is new enough.
    pub(crate) fn list_version(&mut self, version: &mut String, again: bool) {
        if !again || !self.known.iter().any(|(real, _)| real == version) {
            let name = self.next("list");
            self.known.push((version.clone(), name));
        }
        let known = self.known.iter().rev();
        *version = known
            .filter(|(real, _)| real == version)
            .find(|(_, name)| name.starts_with("<list"))
            .map_or_else(|| version.clone(), |(_, name)| name.clone());
    }

    fn token(&mut self, metadata: &mut Map<String, Value>) {
        if let Some(Value::String(token)) = metadata.get_mut("continue")
            && !token.is_empty()
        {
            let name = self.next("token");
            self.known.push((token.clone(), name.clone()));
            *token = name;
        }
    }

    fn next(&self, kind: &str) -> String {
        let start = format!("<{kind}");
        let have = self
            .known
            .iter()
            .filter(|(_, name)| name.starts_with(&start))
            .count();
        format!("<{kind}{}>", have + 1)
    }

    fn named(&mut self, kind: &str, real: &str) -> String {
        let start = format!("<{kind}");
        let found = self
            .known
            .iter()
            .find(|(known, name)| known == real && name.starts_with(&start));
        if let Some((_, name)) = found {
            return name.clone();
        }
        let name = self.next(kind);
        self.known.push((real.to_owned(), name.clone()));
        name
    }

    fn name_generated(&mut self, value: &Value) {
        let text = |name: &str| value["metadata"][name].as_str().unwrap_or_default();
        let prefix = text("generateName");
        let kept = prefix.len().min(GENERATED_KEEPS);
        if kept > 0 && text("name").len() == kept + 5 {
            let suffix = &text("name")[kept..];
            self.named("random", suffix);
        }
    }

    fn walk(&mut self, value: &mut Value, key: &str) {
        match value {
            Value::String(text) => self.text(text, key),
            Value::Array(items) if key == "cells" => self.cells(items),
            Value::Array(items) => {
                for item in items {
                    self.walk(item, key);
                }
            }
            Value::Object(members) => {
                members.remove("managedFields");
                if let Some(Value::Array(columns)) = members.get("columnDefinitions") {
                    let name = |column: &Value| column["name"].as_str().unwrap().to_owned();
                    self.columns = columns.iter().map(name).collect();
                }
                for (key, value) in members {
                    self.walk(value, key);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn cells(&mut self, cells: &mut [Value]) {
        for (at, cell) in cells.iter_mut().enumerate() {
            let column = self.columns.get(at).map(String::as_str);
            let text = cell.as_str().unwrap_or_default();
            if column.is_some_and(|column| AGES.contains(&column)) {
                if is_age(text) {
                    *cell = "<age>".into();
                }
            } else if column == Some(RESTARTS)
                && let Some((count, ago)) = text.split_once(" (")
                && ago.strip_suffix(" ago)").is_some_and(is_age)
            {
                *cell = format!("{count} (<age> ago)").into();
            } else {
                self.walk(cell, "");
            }
        }
    }

    /// Names what stands in a text.
    pub(crate) fn text(&mut self, text: &mut String, key: &str) {
        if key == "resourceVersion" && text.parse::<u64>().is_ok_and(|version| version > 1) {
            *text = self.named("rv", text);
            return;
        }
        if is_now(text) {
            *text = "<now>".to_owned();
            return;
        }
        *text = text.replace(&self.namespace, "{ns}");
        if let Some((path, _)) = text.split_once("?hash=") {
            *text = format!("{path}?hash=<hash>");
        }
        mask(text, "Invalid value: \"{\\\"", "}\": ", "<object>", "");
        mask(
            text,
            "Invalid value: {",
            "}: field is immutable",
            "<template>",
            "\"restartpolicy\":",
        );
        if let Some(at) = text.find(SCHEME)
            && let Some(quote) = text[..at].rfind('"')
        {
            text.replace_range(quote + 1..at, "");
        }
        while let Some(at) = find_uid(text) {
            let uid = text[at..at + UID].to_owned();
            let name = self.named("uid", &uid);
            *text = text.replace(&uid, &name);
        }
        for (real, name) in &self.known {
            if name.starts_with("<random") {
                *text = text.replace(real, name);
            }
        }
        for (before, after) in VERSIONS_IN_TEXT {
            let Some((start, rest)) = text.split_once(before) else {
                continue;
            };
            let end = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
            if end.len() < rest.len()
                && end.starts_with(after)
                && rest[..rest.len() - end.len()] != *"1"
            {
                *text = format!("{start}{before}<number>{end}");
            }
        }
    }
}

/// Takes objects out of messages that tell them as a whole: patched ones have their members in no
/// order that means anything, and Pod templates are printed as the server's own structures.
fn mask(text: &mut String, start: &str, end: &str, name: &str, with: &str) {
    let mut from = 0;
    while let Some(length) = text[from..].find(end) {
        let brace = from + length;
        from = brace + end.len();
        let Some(at) = text[..brace].rfind(start) else {
            continue;
        };
        if text[at..brace].to_lowercase().contains(with) {
            let value = at + start.find('{').unwrap_or_default();
            text.replace_range(value..=brace, name);
            from = value + name.len();
        }
    }
}

fn is_age(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
}

fn value_is_status(metadata: &Map<String, Value>) -> bool {
    metadata.len() == 1 && metadata.contains_key("continue")
}

/// Length of a UID as text.
const UID: usize = 36;

fn find_uid(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let fits = |window: &[u8]| {
        window.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    bytes.windows(UID).position(fits)
}

/// Whether a text is a time of these days: those that cases give are older.
fn is_now(text: &str) -> bool {
    let day = 24 * 3600;
    text.parse::<Timestamp>()
        .is_ok_and(|time| (time.as_second() - Timestamp::now().as_second()).abs() < day)
}
