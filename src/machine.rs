//! The shape of every machine that talks to an API server: answers and time in, requests and timeouts out.
//!
//! A machine waits for nothing and sends nothing. Whoever runs it, a loop over real sockets or a simulation,
//! gives it each answer ([`Machine::handle`]), sends what it asks for ([`Machine::poll_request`]) and comes back
//! when it says so ([`Machine::poll_timeout`]).
//!
//! Must not: read a clock, wait, lock, or know sockets or tasks.

use std::time::Duration;

use bytes::Bytes;

use crate::{
    model::{Now, Timeout},
    wire::{ApiError, Call, Encoding},
};

/// Which request an answer belongs to; a machine uses each number once.
pub type CallId = u64;

/// What came of a call: the body of its answer, or why there is none.
pub type CallResult = Result<Bytes, ApiError>;

/// The code of an answer, for metrics.
pub(crate) fn code_of(result: &CallResult) -> u16 {
    result.as_ref().map_or_else(|error| error.code, |_| 200)
}

/// Something to be sent to the API server.
#[derive(Debug)]
#[must_use = "whoever asked waits for the answer"]
pub struct Request {
    /// By which its answer is known.
    pub id: CallId,
    /// What to send.
    pub call: Call,
    /// Whether the answer is a stream, which comes piece by piece until it ends.
    pub is_watch: bool,
}

/// What a machine hears of its requests.
#[derive(Debug)]
pub enum Input {
    /// A request was answered.
    Answer(CallId, CallResult),
    /// A stream has begun.
    Opened(CallId, Encoding),
    /// A piece of a stream, cut anywhere.
    Piece(CallId, Bytes),
    /// A stream has ended as agreed, or broke, or was refused.
    Ended(CallId, Option<ApiError>),
}

impl Input {
    /// Which request it is about.
    pub fn id(&self) -> CallId {
        match self {
            Self::Answer(id, _) | Self::Opened(id, _) | Self::Piece(id, _) | Self::Ended(id, _) => {
                *id
            }
        }
    }

    /// The same, of a request with this number.
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

/// See the module's text. Unless a machine says otherwise, no call of its own is under way when it stops.
pub trait Machine {
    /// Takes in what became of a request. News of requests that are no longer waited for change nothing.
    fn handle(&mut self, input: Input, now: Now);

    /// Gives the next request; to be asked after each input and timeout, until there is none.
    fn poll_request(&mut self, now: Now) -> Option<Request>;

    /// Gives when to ask for requests again though nothing was heard.
    fn poll_timeout(&self) -> Timeout;

    /// Gives a stream that nobody waits for any more: it may be closed.
    fn poll_abandoned(&mut self) -> Option<CallId> {
        None
    }

    /// Stops: what waits is forgotten, calls under way finish.
    fn close(&mut self, now: Now);

    /// Whether no call is under way, but for Events and the informers'.
    fn is_idle(&self) -> bool {
        true
    }

    /// Whether Events wait or are under way.
    fn has_events(&self) -> bool {
        false
    }

    /// How long answers that gather may wait for more of them.
    fn coalescing_delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether what a request brings gathers with others; else it is to be taken in as it comes.
    fn gathers(&self, _id: CallId) -> bool {
        false
    }
}
