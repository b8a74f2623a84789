//! Until when the controller's loops may write, where that hangs on a Lease.
//!
//! The loop that has the candidate says so; each write under way looks before it goes on. So nothing is sent once the
//! Lease may be another's, also by a process that stood still meanwhile; and what was sent is cut off, as its connection
//! closes.
//!
//! Must not: know what an election is.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

use crate::{clock::Clock, machine::CallResult, model::Monotonic, wire::ApiError};

/// See the module's text. In milliseconds of the monotonic clock; without an election for ever.
#[derive(Clone, Debug)]
pub(super) struct Mandate(Arc<AtomicU64>);

impl Default for Mandate {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Mandate {
    /// It ends then.
    pub(super) fn set(&self, until: Monotonic) {
        let millis = u64::try_from(until.since_start().as_millis()).unwrap_or(u64::MAX);
        self.0.store(millis, Ordering::Release);
    }

    fn until(&self) -> Monotonic {
        Monotonic::from_millis(self.0.load(Ordering::Acquire))
    }

    /// A write that goes on as long as it may.
    pub(super) async fn bound(
        self,
        clock: Clock,
        write: impl Future<Output = CallResult>,
    ) -> CallResult {
        let mut write = pin!(write);
        poll_fn(|context| {
            let until = self.until();
            if until < Monotonic::MAX && clock.now().monotonic >= until {
                let error = ApiError::no_answer("given up: the lease may be another's");
                return Poll::Ready(Err(error));
            }
            write.as_mut().poll(context)
        })
        .await
    }
}
