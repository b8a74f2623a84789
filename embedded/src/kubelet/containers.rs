//! The container statuses of a Pod.
//!
//! Responsible for: the status of each container at each point of a Pod's life.
//! Must not: invent history; it renders the exits that `life` recorded.

use serde::Serialize;

use super::{
    inits::Inits,
    life::{Cause, Exit, Life, Pod, Run},
    shape::Named,
    status::end_time,
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

/// What one container has been through.
#[derive(Default)]
struct History {
    restarts: u32,
    latest: Option<Exit>,
    before: Option<Exit>,
    /// Whether the Pod's life is its own.
    leads: bool,
    /// A number that differs between the containers of a Pod.
    salt: u64,
}

impl History {
    /// The history of the container that the Pod's life is about.
    fn of_leader(run: &Run) -> Self {
        Self {
            restarts: run.restarts,
            latest: run.ended,
            before: run.ended_before,
            leads: true,
            salt: 0,
        }
    }

    /// The history of a container that goes along, and has ended like this or not yet.
    fn of_other(latest: Option<Exit>, salt: u64) -> Self {
        Self {
            latest,
            salt,
            ..Self::default()
        }
    }
}

/// Statuses of the containers, sorted by name.
pub(super) fn container_statuses(pod: &Pod) -> Vec<ContainerStatus<'_>> {
    if pod.life == Life::Ended(Cause::Invalid) {
        return Vec::new();
    }
    let waits = !pod.is_initialized();
    let containers = pod.shape.containers.iter().zip(0..);
    let mut all: Vec<ContainerStatus<'_>> = containers
        .map(|(container, salt)| match salt {
            _ if waits => waiting_for_inits(container),
            0 => draw(pod, container, &History::of_leader(&pod.run)),
            _ => draw(pod, container, &History::of_other(pod.run.others, salt)),
        })
        .collect();
    all.sort_by_key(|status| status.name);
    all
}

/// Statuses of the init containers, in the order of the spec.
pub(super) fn init_statuses(pod: &Pod) -> Vec<ContainerStatus<'_>> {
    let is_valid = pod.life != Life::Ended(Cause::Invalid);
    let Some(inits) = pod.inits.as_deref().filter(|_| is_valid) else {
        return Vec::new();
    };
    let named = pod.shape.inits.iter().enumerate();
    named
        .map(|(nth, init)| init_status(pod, init, nth, inits))
        .collect()
}

fn init_status<'a>(pod: &Pod, init: &'a Named, nth: usize, inits: &Inits) -> ContainerStatus<'a> {
    let run = &inits.runs[nth];
    let Some(started_at) = run.started_at else {
        // Of those that never ran the first alone is looked for at the end.
        return match nth == 0 && pod.is_ended() {
            true => blank(init, lost(), None),
            false => waiting_for_inits(init),
        };
    };
    let id = |restart: u32| container_id(pod, INIT_SALT + nth as u64, restart);
    let ended = |exit: Exit, restart| terminated(exit, id(restart));
    let earlier = |exit| ended(exit, run.restarts.saturating_sub(1));
    let has_turn = nth == inits.turn;
    let (state, last_state) = match (pod.life, run.ended) {
        (Life::Initializing { .. }, latest) if has_turn => {
            (running(started_at), latest.map(earlier))
        }
        (Life::InitBackingOff { delay, .. }, latest) if has_turn => (
            crash_loop(pod, init, delay),
            latest.map(|exit| ended(exit, run.restarts)),
        ),
        (_, Some(exit)) => (ended(exit, run.restarts), run.ended_before.map(earlier)),
        (Life::Ended(_), None) => (ended(sidecar_exit(pod, started_at), 0), None),
        (_, None) => (running(started_at), None),
    };
    let runs = matches!(state, ContainerState::Running { .. });
    let has_succeeded = matches!(state, ContainerState::Terminated { exit_code: 0, .. });
    ContainerStatus {
        container_id: Some(id(run.restarts)),
        ready: if init.sidecar { runs } else { has_succeeded },
        started: runs,
        restart_count: run.restarts,
        image_id: &init.image,
        ..blank(init, state, last_state)
    }
}

/// Sidecars end well, and with their Pod.
fn sidecar_exit(pod: &Pod, started_at: Time) -> Exit {
    Exit {
        code: 0,
        reason: None,
        started_at,
        finished_at: end_time(pod),
    }
}

/// Names of the sidecars and containers that are not ready.
pub(super) fn unready_names(pod: &Pod) -> Vec<&str> {
    let inits = pod.shape.inits.iter().enumerate();
    let sidecars = inits.filter(|(nth, init)| {
        let started = pod.inits.as_deref().is_some_and(|it| *nth < it.turn);
        init.sidecar && (!started || pod.is_ended())
    });
    let containers = pod.shape.containers.iter().enumerate();
    let unready = containers.filter(|(nth, _)| match pod.life {
        Life::Running { .. } => !pod.is_ready() || *nth > 0 && pod.run.others.is_some(),
        _ => true,
    });
    sidecars
        .chain(unready)
        .map(|(_, container)| container.name.as_str())
        .collect()
}

fn draw<'a>(pod: &Pod, container: &'a Named, history: &History) -> ContainerStatus<'a> {
    let id = |restart: u32| container_id(pod, history.salt, restart);
    let restart = history.restarts;
    let ended = |exit: Exit, restart| terminated(exit, id(restart));
    let earlier = |exit| ended(exit, restart.saturating_sub(1));
    let (state, last_state) = match (pod.life, history.latest) {
        (Life::Running { .. }, latest) if history.leads => {
            (running(pod.run.started_at), latest.map(earlier))
        }
        (Life::BackingOff { delay, .. }, latest) if history.leads => (
            crash_loop(pod, container, delay),
            latest.map(|exit| ended(exit, restart)),
        ),
        (_, Some(exit)) => (ended(exit, restart), history.before.map(earlier)),
        (Life::Running { .. } | Life::BackingOff { .. }, None) => {
            (running(pod.run.started_at), None)
        }
        (_, None) => (lost(), None),
    };
    let runs = matches!(state, ContainerState::Running { .. });
    let started = blank(container, state, last_state);
    // One that never ran has neither an ID nor an image.
    let is_lost = matches!(
        started.state,
        ContainerState::Terminated {
            container_id: None,
            ..
        }
    );
    ContainerStatus {
        container_id: (!is_lost).then(|| id(restart)),
        ready: runs && pod.is_ready(),
        started: runs,
        restart_count: restart,
        image_id: if is_lost { "" } else { &container.image },
        ..started
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

/// A container that never ran when its Pod was taken away.
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

/// An ID that looks like one of containerd, and follows from the Pod, the container and the try.
fn container_id(pod: &Pod, salt: u64, restart: u32) -> String {
    let start = hash_text(&pod.uid) ^ mix(salt << 32 | u64::from(restart));
    let [a, b, c, d] = [1, 2, 3, 4].map(|word| mix(start.wrapping_add(word)));
    format!("containerd://{a:016x}{b:016x}{c:016x}{d:016x}")
}

/// Keeps the numbers of init containers apart from those of containers.
const INIT_SALT: u64 = 1 << 16;
