//! Limits the calls of the whole process: a token bucket of calls per second that all shards and informers share.
//!
//! Must not: wait, or read a clock.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use governor::{
    Quota, RateLimiter,
    clock::Clock,
    middleware::NoOpMiddleware,
    nanos::Nanos,
    state::{InMemoryState, NotKeyed},
};

use lakh_model::Monotonic;

/// Rate limit on calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Calls per second on average; 0 for no limit.
    pub qps: u32,
    /// Calls that may be made at once after an idle period.
    pub burst: u32,
}

/// A clock that returns the latest time passed to it.
#[derive(Clone, Debug, Default)]
struct SharedClock(Arc<AtomicU64>);

impl SharedClock {
    fn advance_to(&self, now: Monotonic) {
        let nanos = u64::try_from(now.since_start().as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_max(nanos, Ordering::Relaxed);
    }
}

impl Clock for SharedClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.0.load(Ordering::Relaxed).into()
    }
}

type Bucket = RateLimiter<NotKeyed, InMemoryState, SharedClock, NoOpMiddleware<Nanos>>;

/// The client-wide token bucket. Each caller takes calls from it by an `Allowance` of its own.
#[derive(Debug)]
pub struct Limiter {
    bucket: Option<Bucket>,
    clock: SharedClock,
}

impl Limiter {
    /// Starts with a full bucket.
    pub fn new(rate: Rate) -> Self {
        let clock = SharedClock::default();
        let bucket = NonZeroU32::new(rate.qps).map(|qps| {
            let burst = NonZeroU32::new(rate.burst).unwrap_or(qps);
            let quota = Quota::per_second(qps).allow_burst(burst);
            RateLimiter::direct_with_clock(quota, clock.clone())
        });
        Self { bucket, clock }
    }

    /// Takes one call from the bucket, or returns the time at which one is available.
    fn take(&self, now: Monotonic) -> Option<Monotonic> {
        let bucket = self.bucket.as_ref()?;
        self.clock.advance_to(now);
        let not_until = bucket.check().err()?;
        // The clock counts whole milliseconds, and the wait may be over in between.
        let wait = not_until.wait_time_from(self.clock.now());
        Some(now + wait + Duration::from_millis(1))
    }
}

/// One caller's share of the limiter. A call that was taken from the bucket and not made yet is made next.
#[derive(Debug)]
pub(crate) struct Allowance {
    limiter: Arc<Limiter>,
    has_one: bool,
}

impl Allowance {
    pub(crate) fn of(limiter: &Arc<Limiter>) -> Self {
        Self {
            limiter: Arc::clone(limiter),
            has_one: false,
        }
    }

    /// Returns the time at which a call may be made, or nothing if it may be made now.
    pub(crate) fn due_at(&mut self, now: Monotonic) -> Option<Monotonic> {
        if self.has_one {
            return None;
        }
        let due = self.limiter.take(now);
        self.has_one = due.is_none();
        due
    }

    /// Records that a call is made.
    pub(crate) fn spend(&mut self) {
        self.has_one = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_wait_for_the_bucket_and_none_is_lost() {
        let limiter = Arc::new(Limiter::new(Rate { qps: 10, burst: 2 }));
        let (mut one, mut other) = (Allowance::of(&limiter), Allowance::of(&limiter));
        let at = Monotonic::from_millis;
        assert_eq!((one.due_at(at(0)), one.due_at(at(0))), (None, None));
        assert_eq!(other.due_at(at(0)), None);
        one.spend();
        let due = one.due_at(at(0)).expect("the bucket is empty");
        assert!((at(100)..=at(102)).contains(&due), "{due:?}");
        assert_eq!(one.due_at(due), None);
        let unlimited = Arc::new(Limiter::new(Rate { qps: 0, burst: 0 }));
        let mut free = Allowance::of(&unlimited);
        for _ in 0..1000 {
            assert_eq!(free.due_at(at(0)), None);
            free.spend();
        }
    }
}
