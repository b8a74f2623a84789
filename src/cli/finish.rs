//! Waits for the end that somebody outside asks for.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

/// Returns when the process is asked to end: SIGINT or SIGTERM.
pub(super) async fn asked_to_end() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        // Without handlers the signals end the process by themselves.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Returns when the time is up; never, if there is no limit.
pub(super) async fn time_is_up(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}
