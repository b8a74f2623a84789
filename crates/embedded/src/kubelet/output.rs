//! Renders the output of hollow containers.
//!
//! Responsible for: the output of a container as its Pod's stage or annotation defines it, computed from the stored
//! Pod.
//! Must not: keep state; the same Pod gives the same output.

use std::borrow::Cow;

use serde::Deserialize;

use super::{
    KubeletOptions,
    decode::{BorrowedText, RawPod},
    settings::OUTPUT,
    stages::{Chance, Role, candidates},
};
use crate::json::read_json;

/// Returns the output of a container so far, or of its run before the last restart. None if neither a stage nor an
/// annotation defines it, or the container has not run.
///
/// Lines appear when the container starts; lines with `{exitCode}` when it has exited.
pub fn container_output(
    options: &KubeletOptions,
    pod: &[u8],
    container: &str,
    previous: bool,
) -> Option<String> {
    let raw: RawPod<'_> = read_json(pod).ok()?;
    let seen: SeenPod<'_> = read_json(pod).ok()?;
    let (name, role) = find(&raw, container)?;
    let run = seen.run(name, previous)?;
    let first = raw.spec.containers.as_deref()?.first()?;
    let restarts = seen.run(&first.name, previous && role == Role::First);
    let chance = Chance {
        seed: options.seed,
        uid: &raw.metadata.uid,
        restarts: restarts.map_or(0, |run| run.restarts),
    };
    let places = candidates(&options.stages, &raw);
    let mut stages = places
        .iter()
        .map(|place| &options.stages[usize::from(*place)]);
    let stage = stages.find(|stage| stage.picks(chance));
    let annotations = raw.metadata.annotations.as_ref();
    let annotation = annotations.and_then(|all| all.get(OUTPUT));
    let annotation = annotation.filter(|_| role == Role::First);
    let text = stage
        .and_then(|stage| stage.output(name, role))
        .or_else(|| annotation.map(|text| &**text))?;
    Some(render(text, name, &raw, run))
}

/// Finds a container by its name, or the first if the name is empty; returns its role too.
fn find<'a>(pod: &'a RawPod<'_>, name: &str) -> Option<(&'a str, Role)> {
    let inits = pod.spec.init_containers.iter().flatten().map(|init| {
        let is_sidecar = init.restart_policy.as_deref() == Some("Always");
        (
            &*init.name,
            if is_sidecar {
                Role::Sidecar
            } else {
                Role::Init
            },
        )
    });
    let containers = pod.spec.containers.iter().flatten().enumerate();
    let containers = containers.map(|(nth, container)| {
        (
            &*container.name,
            if nth == 0 { Role::First } else { Role::Other },
        )
    });
    let mut all = containers.chain(inits);
    all.find(|(known, _)| name.is_empty() || *known == name)
}

/// Replaces the placeholders of the printed lines, up to the size limit.
fn render(text: &str, container: &str, pod: &RawPod<'_>, run: SeenRun) -> String {
    let number = |number: Option<u32>| number.map_or_else(String::new, |it| it.to_string());
    let values: [(&str, Cow<'_, str>); 7] = [
        ("{container}", container.into()),
        ("{index}", number(pod.completion_index()).into()),
        ("{namespace}", (*pod.metadata.namespace).into()),
        (
            "{node}",
            pod.spec.node_name.as_deref().unwrap_or_default().into(),
        ),
        ("{pod}", (*pod.metadata.name).into()),
        ("{restarts}", run.restarts.to_string().into()),
        (
            EXIT_CODE,
            run.exit_code
                .map_or_else(String::new, |it| it.to_string())
                .into(),
        ),
    ];
    let mut output = String::new();
    for line in text.lines() {
        if run.exit_code.is_none() && line.contains(EXIT_CODE) {
            continue;
        }
        let line = values.iter().fold(line.to_owned(), |line, (key, value)| {
            line.replace(key, value)
        });
        if output.len() + line.len() >= RENDERED_LIMIT {
            break;
        }
        output.push_str(&line);
        output.push('\n');
    }
    output
}

/// The statuses of a Pod's containers.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct SeenPod<'a> {
    #[serde(default)]
    status: SeenStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct SeenStatus<'a> {
    container_statuses: Option<Vec<SeenContainer<'a>>>,
    init_container_statuses: Option<Vec<SeenContainer<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct SeenContainer<'a> {
    name: BorrowedText<'a>,
    #[serde(default)]
    restart_count: u32,
    #[serde(default)]
    state: SeenState,
    #[serde(default)]
    last_state: SeenState,
}

#[derive(Default, Deserialize)]
struct SeenState {
    running: Option<serde::de::IgnoredAny>,
    terminated: Option<SeenEnd>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenEnd {
    #[serde(default)]
    exit_code: i32,
}

/// A run of a container.
#[derive(Clone, Copy)]
struct SeenRun {
    /// Number of restarts before it.
    restarts: u32,
    /// Its exit code; none while it runs.
    exit_code: Option<i32>,
}

impl SeenPod<'_> {
    /// Returns the latest run of a container, or the one before.
    fn run(&self, name: &str, previous: bool) -> Option<SeenRun> {
        let lists = [
            &self.status.container_statuses,
            &self.status.init_container_statuses,
        ];
        let mut all = lists.into_iter().flatten().flatten();
        let seen = all.find(|status| *status.name == *name)?;
        let restarts = seen.restart_count;
        let ended = |end: SeenEnd, restarts: u32| SeenRun {
            restarts,
            exit_code: Some(end.exit_code),
        };
        let last = seen.last_state.terminated;
        let before = restarts.saturating_sub(1);
        match (&seen.state, previous) {
            (
                SeenState {
                    running: Some(_), ..
                },
                false,
            ) => Some(SeenRun {
                restarts,
                exit_code: None,
            }),
            (
                SeenState {
                    terminated: Some(end),
                    ..
                },
                false,
            ) => Some(ended(*end, restarts)),
            // The restart count does not yet include the restart that the container waits for.
            (
                SeenState {
                    running: None,
                    terminated: None,
                },
                _,
            ) => last.map(|end| ended(end, restarts)),
            (_, true) => last.map(|end| ended(end, before)),
        }
    }
}

const EXIT_CODE: &str = "{exitCode}";
/// Maximum output that a stage or an annotation may define.
pub(super) const OUTPUT_LIMIT: usize = 16 * 1024;
pub(super) const OUTPUT_FORM: &str = "must be at most 16 KiB of output";
/// Maximum output of a container after its placeholders are replaced.
const RENDERED_LIMIT: usize = 64 * 1024;
