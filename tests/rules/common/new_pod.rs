//! Makes a Pod from a template, as the shell does for each creation, and prints the fields that docs/rules/jobs.md, 4.6
//! defines.
//!
//! ```text
//! template  {"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c"}]}}
//! job       name=train indexed index=7 suffix=bcdfg
//! expect
//!   generateName train-7-
//!   name train-7-bcdfg
//!   hostname train-7
//!   env containers/c JOB_COMPLETION_INDEX=metadata.labels['...']
//! ```

use lakh::{
    model::{CompletionMode, PodSuffix, TRACKING_FINALIZER},
    wire::PodTemplate,
};
use serde_json::{Value, value::RawValue};

use super::words::plain_job;

/// Returns the names and environment of a Pod made from a template.
pub(crate) fn made_of(inputs: &[(String, String)]) -> Vec<String> {
    let mut job = plain_job();
    let mut index = None;
    let mut suffix = None;
    let mut template = None;
    for (key, rest) in inputs {
        if key == "template" {
            let json = RawValue::from_string(rest.clone()).expect("JSON");
            template = Some(json);
            continue;
        }
        for word in rest.split(' ') {
            match word.split_once('=').unwrap_or((word, "")) {
                ("name", name) => job.key.name = name.into(),
                ("indexed", _) => job.spec.mode = CompletionMode::Indexed,
                ("index", number) => index = number.parse().ok(),
                ("suffix", letters) => suffix = PodSuffix::of_name(letters),
                other => panic!("{other:?}"),
            }
        }
    }
    let template = template.expect("a template");
    let template = PodTemplate::new(&job, &template, TRACKING_FINALIZER).expect("a good one");
    let (name, body) = template.pod(index, None, suffix.expect("a suffix"), None);
    let pod: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(pod["metadata"]["name"], name);
    let mut lines = Vec::new();
    let mut say = |what: &str, value: &Value| {
        lines.extend(value.as_str().map(|text| format!("{what} {text}")));
    };
    say("generateName", &pod["metadata"]["generateName"]);
    say("name", &pod["metadata"]["name"]);
    say("hostname", &pod["spec"]["hostname"]);
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array().into_iter().flatten() {
            let env = container["env"].as_array().into_iter().flatten();
            for variable in env {
                let from = &variable["valueFrom"]["fieldRef"]["fieldPath"];
                let value = variable["value"].as_str().or(from.as_str());
                lines.push(format!(
                    "env {list}/{} {}={}",
                    container["name"].as_str().unwrap_or_default(),
                    variable["name"].as_str().unwrap_or_default(),
                    value.unwrap_or_default()
                ));
            }
        }
    }
    lines
}
