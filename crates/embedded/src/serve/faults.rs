//! Carries out injected faults (delays, replaced responses, broken connections) and serves `/lakh/faults`.
//!
//! Responsible for: applying the decisions of [`Faults`]. Must not: decide anything.
//!
//! Without rules, a request costs one check of a flag.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use http::{header, request::Parts};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{filters::FilteredCall, shared::SharedApi};
use crate::apiserver::{
    Label, Reply, Response as Answer, TEXT,
    faults::{Faults, ObservedRequest, RequestOutcome, When, bad_rules},
};

/// Path that reads and sets the fault rules.
pub(super) const PATH: &str = "/lakh/faults";

/// The current fault rules.
#[derive(Debug)]
pub(super) struct SharedFaults {
    are_any: AtomicBool,
    faults: Mutex<Faults>,
    changed: watch::Sender<()>,
}

/// Error that makes the server break the connection.
#[derive(Debug, thiserror::Error)]
#[error("a fault was asked for")]
pub(super) struct Broken;

impl SharedFaults {
    pub(super) fn new(faults: Faults) -> Self {
        Self {
            are_any: AtomicBool::new(!faults.is_empty()),
            faults: Mutex::new(faults),
            changed: watch::Sender::new(()),
        }
    }

    pub(super) fn are_any(&self) -> bool {
        self.are_any.load(Ordering::Relaxed)
    }

    /// Returns a receiver that signals each change of the rules.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Locks the rules.
    pub(super) fn lock(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock()
    }

    fn set(&self, faults: Faults) {
        let mut current = self.faults.lock();
        self.are_any.store(!faults.is_empty(), Ordering::Relaxed);
        *current = faults;
        drop(current);
        self.changed.send_replace(());
    }
}

/// Returns the attributes of a request that rules match on.
pub(super) fn observed(parts: &Parts, label: Label) -> ObservedRequest {
    let client = parts.headers.get(header::USER_AGENT);
    ObservedRequest {
        label,
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        client: String::from_utf8_lossy(client.map_or(b"", |text| text.as_bytes())).into_owned(),
    }
}

/// Serves the fault path: reads, replaces or clears the rules.
pub(super) fn administer(method: &str, body: &[u8], api: &SharedApi) -> Answer {
    let shared = api.faults();
    match method {
        "GET" => {}
        "DELETE" => {
            let cleared = shared.faults.lock().cleared();
            shared.set(cleared);
        }
        "PUT" => {
            let read = shared.faults.lock().read(body, api.now().monotonic);
            match read {
                Ok(faults) => shared.set(faults),
                Err(error) => return bad_rules(&error),
            }
        }
        _ => return Answer::bytes(405, TEXT, b"GET, PUT or DELETE\n".to_vec()),
    }
    Answer::json(200, &shared.faults.lock().to_json())
}

/// Answers a call, subject to the fault rules.
pub(super) async fn answer(
    request: &ObservedRequest,
    call: FilteredCall<'_>,
    api: &SharedApi,
    stopped: &CancellationToken,
) -> Result<Reply, Broken> {
    wait_while_held(request, api, stopped).await;
    let verdict = api.faults().lock().judge(request, api.now().monotonic);
    pause(verdict.latency).await;
    match verdict.outcome {
        RequestOutcome::Answered => Ok(call.answer(verdict.stale).await),
        RequestOutcome::Refused(response) => Ok(call.answer_instead(response)),
        RequestOutcome::TimedOut(When::Before, delay, response) => {
            pause(delay).await;
            Ok(call.answer_instead(response))
        }
        RequestOutcome::TimedOut(When::After, delay, response) => {
            let label = call.label();
            let _ = call.answer(verdict.stale).await;
            pause(delay).await;
            api.count(label, response.status);
            Ok(Reply::Complete(response))
        }
        RequestOutcome::Dropped(When::Before) => Err(Broken),
        RequestOutcome::Dropped(When::After) => {
            let _ = call.answer(verdict.stale).await;
            Err(Broken)
        }
    }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

/// Waits while a rule cuts the client off.
async fn wait_while_held(request: &ObservedRequest, api: &SharedApi, stopped: &CancellationToken) {
    let mut changes = api.faults().changes();
    loop {
        changes.mark_unchanged();
        let held = api.faults().lock().held(request, api.now().monotonic);
        let Some(until) = held else { return };
        tokio::select! {
            _ = changes.changed() => {}
            () = api.sleep_until(until) => {}
            () = stopped.cancelled() => return,
        }
    }
}

/// Duplicates each line of encoded events.
pub(super) fn twice(lines: &[u8]) -> Vec<u8> {
    let lines = lines.split_inclusive(|byte| *byte == b'\n');
    lines.flat_map(|line| [line, line].concat()).collect()
}
