//! Defines the interface of every machine that talks to an API server: answers and time in, requests and timeouts out.
//!
//! A machine neither waits nor sends. Its driver, a loop over real sockets or a simulation, passes it each answer
//! ([`Machine::handle`]), sends its requests ([`Machine::poll_request`]) and calls again at its timeout
//! ([`Machine::poll_timeout`]).
//!
//! Must not: read a clock, wait, lock, or know sockets or tasks.

use std::time::Duration;

use bytes::Bytes;

use lakh_model::{Now, Timeout};
use lakh_wire::{ApiError, Call, Encoding};

/// Identifies the request that an answer belongs to; a machine uses each number once.
pub type CallId = u64;

/// Result of a call: the body of its answer, or the reason why there is none.
pub type CallResult = Result<Bytes, ApiError>;

/// Returns the HTTP status code of an answer, for metrics.
pub(crate) fn code_of(result: &CallResult) -> u16 {
    result.as_ref().map_or_else(|error| error.code, |_| 200)
}

/// A request to the API server.
#[derive(Debug)]
#[must_use = "whoever asked waits for the answer"]
pub struct Request {
    /// Identifies the request; its answer carries the same number.
    pub id: CallId,
    /// The call to send.
    pub call: Call,
    /// The answer is a stream, which arrives piece by piece until it ends.
    pub is_watch: bool,
}

/// An event of one request, passed to the machine that sent it.
#[derive(Debug)]
pub enum Input {
    /// A request was answered.
    Answer(CallId, CallResult),
    /// A stream has begun.
    Opened(CallId, Encoding),
    /// A piece of a stream; its boundaries mean nothing.
    Piece(CallId, Bytes),
    /// A stream ended in order (no error), broke, or was refused.
    Ended(CallId, Option<ApiError>),
}

impl Input {
    /// Returns the number of the request.
    pub fn id(&self) -> CallId {
        match self {
            Self::Answer(id, _) | Self::Opened(id, _) | Self::Piece(id, _) | Self::Ended(id, _) => {
                *id
            }
        }
    }

    /// Returns the same input for a request with this number.
    #[must_use]
    pub fn with_id(self, id: CallId) -> Self {
        match self {
            Self::Answer(_, result) => Self::Answer(id, result),
            Self::Opened(_, encoding) => Self::Opened(id, encoding),
            Self::Piece(_, bytes) => Self::Piece(id, bytes),
            Self::Ended(_, error) => Self::Ended(id, error),
        }
    }
}

/// A state machine that talks to an API server without I/O of its own: a driver calls it, sends its requests and
/// returns their answers. Unless a machine says otherwise, none of its calls is in flight when it stops.
pub trait Machine {
    /// Handles the result of a request. Results of requests that are no longer awaited change nothing.
    fn handle(&mut self, input: Input, now: Now);

    /// Returns the next request. Call it after each input and timeout until it returns none.
    fn poll_request(&mut self, now: Now) -> Option<Request>;

    /// Returns the time at which to poll for requests again if no input arrives.
    fn poll_timeout(&self) -> Timeout;

    /// Returns a stream that is no longer needed and may be closed.
    fn poll_abandoned(&mut self) -> Option<CallId> {
        None
    }

    /// Stops: queued requests are dropped, calls in flight finish.
    fn close(&mut self, now: Now);

    /// Returns true if no call is in flight, except those of Events and of informers.
    fn is_idle(&self) -> bool {
        true
    }

    /// Returns true if Events are queued or in flight.
    fn has_events(&self) -> bool {
        false
    }

    /// Longest delay for which answers that may be batched wait for more of them.
    fn coalescing_delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns true if answers of this request may be batched; all others are handled as they arrive.
    fn gathers(&self, _id: CallId) -> bool {
        false
    }
}
