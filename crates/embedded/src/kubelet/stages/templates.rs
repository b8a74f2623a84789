//! Renders statuses as kwok's templates.
//!
//! Responsible for: assembling the templates of `templates.txt`, which explains its syntax. Must not: know their
//! content.

use std::fmt::Write as _;

use super::{By, Disruption};

const TEMPLATES: &str = include_str!("templates.txt");

/// Default values of all templates.
const NOTHING: [(&str, &str); 4] = [
    ("head", "nothing"),
    ("target", "nothing"),
    ("more", "nothing"),
    ("others", "nothing"),
];

/// Renders a template with these values.
pub(super) fn render(name: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::new();
    add(&mut out, name, &[&NOTHING, values].concat());
    out
}

/// Renders the status of a disrupted Pod. Its kubelet ends it; other components mark it and delete it.
pub(super) fn disrupted(cause: Disruption) -> String {
    let container = "{{ (index .spec.containers 0).name }}";
    let quoted = |(reason, message): (&'static str, String)| (reason, format!("{message:?}"));
    let target = cause.condition(container).map(quoted);
    let status = cause.status(container).map(quoted).unwrap_or_default();
    let name = match cause.by() {
        By::Kubelet => "disrupted-by-kubelet",
        By::PodGc => "disrupted-by-pod-gc",
        By::Deletion | By::EvictionApi => "disrupted-by-others",
    };
    let mut values = vec![("status-reason", status.0), ("status-message", &*status.1)];
    if let Some((reason, message)) = &target {
        values.extend([
            ("target", "disruption-target"),
            ("target-reason", *reason),
            ("target-message", message),
        ]);
    }
    render(name, &values)
}

fn add(out: &mut String, name: &str, values: &[(&str, &str)]) {
    let mut lines = TEMPLATES.lines();
    let found = lines.any(|line| line.strip_prefix("=== ") == Some(name));
    assert!(found, "there is a template {name}");
    for line in lines.take_while(|line| !line.starts_with("===")) {
        // The latest value of a key applies.
        let line = values
            .iter()
            .rev()
            .fold(line.to_owned(), |line, (key, value)| {
                line.replace(&format!("<{key}>"), value)
            });
        let Some(call) = line.strip_prefix('@') else {
            let _ = writeln!(out, "{line}");
            continue;
        };
        let mut parts = call.split(" ;; ");
        let name = parts.next().unwrap_or_default();
        let given = parts.filter_map(|part| part.split_once(" = "));
        let given: Vec<(&str, &str)> = given.collect();
        add(out, name, &[values, &given].concat());
    }
}
