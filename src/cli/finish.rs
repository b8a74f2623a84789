//! Waits for a signal to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears SIGINT and SIGTERM from when it is made, also while nobody waits: one of them, made before
/// anything else, misses none.
#[derive(Debug)]
pub(super) struct Requests {
    interrupt: Signal,
    terminate: Signal,
}

impl Requests {
    /// Starts to listen; from here on the signals no longer end the process by themselves.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Returns when the process is asked to end, or was since the last time.
    pub(super) async fn asked_to_end(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
