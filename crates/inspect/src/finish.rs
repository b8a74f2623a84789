//! Waits for a signal to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives SIGINT and SIGTERM from its creation on. One created before anything else misses no signal, even while no
/// task waits.
#[derive(Debug)]
pub struct Requests {
    interrupt: Signal,
    terminate: Signal,
}

impl Requests {
    /// Starts to listen; from here on the signals no longer end the process by themselves.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Returns on a signal, or if one has arrived since the last call.
    pub async fn asked_to_end(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
