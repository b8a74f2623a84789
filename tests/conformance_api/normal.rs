//! Replaces values that change from run to run by names.
//!
//! Responsible for: UIDs, resourceVersions, tokens, times and generated names in responses, and the reverse in
//! requests. Must not: remove anything that a server decides by rule.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Length at which servers cut `generateName`.
const GENERATED_KEEPS: usize = 58;

/// The names assigned in one case.
pub(crate) struct Names {
    namespace: String,
    /// Pairs of a value and its name, in order of appearance.
    known: Vec<(String, String)>,
    /// Columns of the last table.
    columns: Vec<String>,
}

/// Messages that contain a resourceVersion: the text before it and the text after it.
const VERSIONS_IN_TEXT: [(&str, &str); 4] = [
    ("ResourceVersion in record (", ")"),
    ("Too large resource version: 99999999, current: ", ""),
    ("too old resource version: 1 (", ")"),
    ("too old resource version: ", " ("),
];

/// Source path in messages. Its beginning depends on the server's build directory and is dropped.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go";

/// Columns that show the age of an event.
const AGES: [&str; 2] = ["Age", "Last Schedule"];

/// The column that shows an age in parentheses, after a number.
const RESTARTS: &str = "Restarts";

impl Names {
    /// Creates names that know only the namespace.
    pub(crate) const fn new(namespace: String) -> Self {
        Self {
            namespace,
            known: Vec::new(),
            columns: Vec::new(),
        }
    }

    /// Replaces names in a request's text by the real values.
    pub(crate) fn real(&self, text: &str) -> String {
        let mut text = text.replace("{ns}", &self.namespace);
        for (real, name) in &self.known {
            text = text.replace(name, real);
        }
        text
    }

    /// Replaces values in a response by names. `goes_on`: the response is a later page of a list.
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

    /// Names the resourceVersion of a bookmark or a list. Servers may return any that is recent enough.
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

    /// Replaces values in one text by names.
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

/// Masks objects that messages contain. Members of patched objects come in no meaningful order, and Pod templates are
/// printed as internal structures of the server.
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

/// Returns true if a text is a time within a day of now. Times in cases are older.
fn is_now(text: &str) -> bool {
    let day = 24 * 3600;
    text.parse::<Timestamp>()
        .is_ok_and(|time| (time.as_second() - Timestamp::now().as_second()).abs() < day)
}
