//! Renders the container statuses of a Pod.
//!
//! Responsible for: the status of each container at each point of a Pod's life.
//! Must not: invent history; it renders the exits that `life` recorded.

use serde::Serialize;

use super::{
    life::{Cause, ContainerRun, Exit, Life, Pod},
    shape::Named,
};
use crate::{
    model::{Time, format_go_duration},
    rng::{hash_text, mix},
};

/// One entry of `status.containerStatuses`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerStatus<'a> {
    name: &'a str,
    image: &'a str,
    #[serde(rename = "imageID")]
    image_id: &'a str,
    #[serde(rename = "containerID", skip_serializing_if = "Option::is_none")]
    container_id: Option<String>,
    ready: bool,
    started: bool,
    restart_count: u32,
    state: ContainerState,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_state: Option<ContainerState>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum ContainerState {
    Waiting {
        reason: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    Running {
        started_at: String,
    },
    Terminated {
        exit_code: i32,
        reason: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        started_at: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        finished_at: Option<String>,
        #[serde(rename = "containerID", skip_serializing_if = "Option::is_none")]
        container_id: Option<String>,
    },
}

/// A container and its runs.
struct History<'a> {
    container: &'a Named,
    run: ContainerRun,
    /// The container is the leader of the Pod's life.
    leads: bool,
    is_init: bool,
    /// Its index in the spec.
    place: usize,
}

/// Returns the statuses of the containers, sorted by name.
pub(super) fn container_statuses(pod: &Pod) -> Vec<ContainerStatus<'_>> {
    if pod.life == Life::Ended(Cause::Invalid) {
        return Vec::new();
    }
    let waits = !pod.is_initialized();
    let containers = pod.shape.containers.iter().zip(0..);
    let mut all: Vec<ContainerStatus<'_>> = containers
        .map(|(container, place)| match place {
            _ if waits => waiting_for_inits(container),
            _ => status(pod, container_history(pod, container, place)),
        })
        .collect();
    all.sort_by_key(|status| status.name);
    all
}

/// The first container leads; the others start and end with it.
fn container_history<'a>(pod: &Pod, container: &'a Named, place: usize) -> History<'a> {
    let leads = place == 0;
    let others = || ContainerRun {
        started_at: pod.first.started_at,
        ended: pod.others.get(place - 1).copied(),
        ..ContainerRun::default()
    };
    History {
        container,
        run: if leads { pod.first } else { others() },
        leads,
        is_init: false,
        place,
    }
}

/// Returns the statuses of the init containers, in the order of the spec.
pub(super) fn init_statuses(pod: &Pod) -> Vec<ContainerStatus<'_>> {
    let is_valid = pod.life != Life::Ended(Cause::Invalid);
    let Some(inits) = pod.inits.as_deref().filter(|_| is_valid) else {
        return Vec::new();
    };
    let ran = pod.shape.inits.iter().zip(&inits.runs).enumerate();
    ran.map(|(nth, (container, run))| {
        let run = *run;
        // Of the init containers that never ran, only the first is reported as lost once the Pod has ended.
        if run.started_at.is_none() && !(nth == 0 && pod.is_ended()) {
            return waiting_for_inits(container);
        }
        let history = History {
            container,
            run,
            leads: nth == inits.turn,
            is_init: true,
            place: nth,
        };
        status(pod, history)
    })
    .collect()
}

/// Returns the names of the sidecars and containers that are not ready.
pub(super) fn unready_names(pod: &Pod) -> Vec<&str> {
    let inits = pod.shape.inits.iter().enumerate();
    let sidecars = inits.filter(|(nth, init)| {
        let started = pod.inits.as_deref().is_some_and(|it| *nth < it.turn);
        init.sidecar && (!started || pod.is_ended())
    });
    let containers = pod.shape.containers.iter().enumerate();
    let unready = containers.filter(|(nth, _)| match pod.life {
        Life::Running { .. } if pod.is_initialized() => {
            !pod.is_ready() || *nth > 0 && !pod.others.is_empty()
        }
        _ => true,
    });
    sidecars
        .chain(unready)
        .map(|(_, container)| container.name.as_str())
        .collect()
}

fn status<'a>(pod: &Pod, history: History<'a>) -> ContainerStatus<'a> {
    let History { container, run, .. } = history;
    let salt = history.place as u64 + if history.is_init { INIT_SALT } else { 0 };
    let id = |restart: u32| container_id(pod, salt, restart);
    let ended = |exit: Exit| terminated(exit, id(run.restarts));
    let earlier = |exit: Exit| terminated(exit, id(run.restarts.saturating_sub(1)));
    let (state, last_state) = match (pod.life, run.ended, run.started_at) {
        (Life::Running { .. }, latest, Some(at)) if history.leads => {
            (running(at), latest.map(earlier))
        }
        (Life::BackingOff { delay, .. }, latest, _) if history.leads => {
            (crash_loop(pod, container, delay), latest.map(ended))
        }
        (_, Some(exit), _) => (ended(exit), run.ended_before.map(earlier)),
        (Life::Ended(_), None, _) | (_, None, None) => return blank(container, lost(), None),
        (_, None, Some(at)) => (running(at), None),
    };
    let runs = matches!(state, ContainerState::Running { .. });
    let has_succeeded = matches!(state, ContainerState::Terminated { exit_code: 0, .. });
    ContainerStatus {
        image_id: &container.image,
        container_id: Some(id(run.restarts)),
        ready: match (history.is_init, container.sidecar) {
            (false, _) => runs && pod.is_ready(),
            (true, true) => runs,
            (true, false) => has_succeeded,
        },
        started: runs,
        restart_count: run.restarts,
        ..blank(container, state, last_state)
    }
}

fn waiting_for_inits(container: &Named) -> ContainerStatus<'_> {
    let (reason, message) = ("PodInitializing", None);
    blank(container, ContainerState::Waiting { reason, message }, None)
}

fn blank(
    container: &Named,
    state: ContainerState,
    last_state: Option<ContainerState>,
) -> ContainerStatus<'_> {
    ContainerStatus {
        name: &container.name,
        image: &container.image,
        image_id: "",
        container_id: None,
        ready: false,
        started: false,
        restart_count: 0,
        state,
        last_state,
    }
}

fn running(at: Time) -> ContainerState {
    ContainerState::Running {
        started_at: at.to_rfc3339(),
    }
}

fn terminated(exit: Exit, id: String) -> ContainerState {
    ContainerState::Terminated {
        exit_code: exit.code,
        reason: match exit.reason {
            Some(reason) => reason.text(),
            None if exit.code == 0 => "Completed",
            None => "Error",
        },
        message: None,
        started_at: Some(exit.started_at.to_rfc3339()),
        finished_at: Some(exit.finished_at.to_rfc3339()),
        container_id: Some(id),
    }
}

/// Returns the state of a container that never ran before its Pod was terminated.
fn lost() -> ContainerState {
    ContainerState::Terminated {
        exit_code: 137,
        reason: "ContainerStatusUnknown",
        message: Some("The container could not be located when the pod was terminated"),
        started_at: None,
        finished_at: None,
        container_id: None,
    }
}

fn crash_loop(pod: &Pod, container: &Named, delay: std::time::Duration) -> ContainerState {
    let (delay, name) = (format_go_duration(delay), &container.name);
    let whose = format!("{}_{}({})", pod.name, pod.namespace, pod.uid);
    ContainerState::Waiting {
        reason: "CrashLoopBackOff",
        message: Some(format!(
            "back-off {delay} restarting failed container={name} pod={whose}"
        )),
    }
}

/// Returns an ID in containerd's form, derived from the Pod, the container and the try.
fn container_id(pod: &Pod, salt: u64, restart: u32) -> String {
    let start = hash_text(&pod.uid) ^ mix(salt << 32 | u64::from(restart));
    let [a, b, c, d] = [1, 2, 3, 4].map(|word| mix(start.wrapping_add(word)));
    format!("containerd://{a:016x}{b:016x}{c:016x}{d:016x}")
}

/// Separates the numbers of init containers from those of containers.
const INIT_SALT: u64 = 1 << 16;
