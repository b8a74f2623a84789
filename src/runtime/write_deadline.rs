//! Enforces the write deadline of the controller's loops, derived from the Lease.
//!
//! The loop with the candidate sets it. Each write in flight checks it before it proceeds, and is cancelled once it has
//! passed; its connection closes. So a paused process never writes after another replica may have taken over.
//!
//! Must not: know elections.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

use futures::future::FusedFuture as _;
use tokio::sync::Notify;

use crate::{clock::Clock, machine::CallResult, model::Monotonic, wire::ApiError};

/// The write deadline of one shard; clones share it. Without an election it is never reached.
#[derive(Clone, Debug)]
pub(super) struct WriteDeadline(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// In milliseconds of the monotonic clock; the maximum without an election.
    until: AtomicU64,
    is_over: Notify,
}

impl Default for WriteDeadline {
    fn default() -> Self {
        Self(Arc::new(Inner {
            until: AtomicU64::new(u64::MAX),
            is_over: Notify::new(),
        }))
    }
}

impl WriteDeadline {
    /// Sets the deadline.
    pub(super) fn set(&self, until: Monotonic) {
        let millis = u64::try_from(until.since_start().as_millis()).unwrap_or(u64::MAX);
        let before = self.0.until.swap(millis, Ordering::AcqRel);
        if millis < before {
            self.0.is_over.notify_waiters();
        }
    }

    fn until(&self) -> Monotonic {
        Monotonic::from_millis(self.0.until.load(Ordering::Acquire))
    }

    /// Runs a write until it completes or the deadline passes.
    pub(super) async fn bound(
        self,
        clock: Clock,
        write: impl Future<Output = CallResult>,
    ) -> CallResult {
        if self.until() == Monotonic::MAX {
            return write.await;
        }
        let mut write = pin!(write);
        let is_over = futures::FutureExt::fuse(self.0.is_over.notified());
        let mut is_over = pin!(is_over);
        poll_fn(|context| {
            if clock.now().monotonic >= self.until() {
                let error = ApiError::given_up("given up: the lease may be another's");
                return Poll::Ready(Err(error));
            }
            if !is_over.is_terminated() {
                // After a wakeup, the next poll reads the time again.
                let _ = is_over.as_mut().poll(context);
            }
            write.as_mut().poll(context)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use tokio::{task::yield_now, time::timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writes_in_flight_are_aborted_when_leadership_is_lost() {
        let (write_deadline, clock) = (WriteDeadline::default(), Clock::default());
        let never = std::future::pending::<CallResult>();
        let until = |secs| clock.now().monotonic + Duration::from_secs(secs);
        write_deadline.set(until(60));
        // It has a task of its own, which is polled only when the write is woken.
        let write = tokio::spawn(write_deadline.clone().bound(clock.clone(), never));
        yield_now().await;
        write_deadline.set(until(90));
        yield_now().await;
        assert!(!write.is_finished());
        write_deadline.set(Monotonic::default());
        let answer = timeout(Duration::from_secs(60), write).await;
        let answer = answer.expect("it is woken").expect("no panic");
        assert!(answer.is_err_and(|error| error.message.contains("given up")));
    }

    #[tokio::test]
    async fn nothing_is_sent_after_the_end() {
        let (write_deadline, clock) = (WriteDeadline::default(), Clock::default());
        let sent = || async { Ok(Bytes::new()) };
        assert!(
            write_deadline
                .clone()
                .bound(clock.clone(), sent())
                .await
                .is_ok()
        );
        write_deadline.set(clock.now().monotonic);
        let refused = async { unreachable!("it is polled") };
        assert!(
            write_deadline
                .clone()
                .bound(clock.clone(), refused)
                .await
                .is_err()
        );
        write_deadline.set(clock.now().monotonic + Duration::from_secs(60));
        assert!(write_deadline.bound(clock, sent()).await.is_ok());
    }
}
