//! The client-wide limits on calls: a token bucket, and the pause that a busy server asked for.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;

use crate::clock::instant;

/// How many calls may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Calls per second on average; 0 for no limit.
    pub qps: u32,
    /// Calls at once after a quiet time.
    pub burst: u32,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Throttle {
    bucket: Option<DefaultDirectRateLimiter>,
    paused_until: Mutex<Option<Instant>>,
}

impl Throttle {
    pub(super) fn new(rate: Rate) -> Self {
        let bucket = NonZeroU32::new(rate.qps).map(|qps| {
            let burst = NonZeroU32::new(rate.burst).unwrap_or(qps);
            RateLimiter::direct(Quota::per_second(qps).allow_burst(burst))
        });
        Self {
            bucket,
            paused_until: Mutex::new(None),
        }
    }

    /// Waits until a call may be made.
    pub(super) async fn pass(&self) {
        if let Some(bucket) = &self.bucket {
            bucket.until_ready().await;
        }
        loop {
            let until = *self.paused_until.lock();
            match until {
                Some(until) if !until.saturating_duration_since(instant()).is_zero() => {
                    tokio::time::sleep_until(until.into()).await;
                }
                _ => return,
            }
        }
    }

    /// The server is busy: nobody calls for a while.
    pub(super) fn pause(&self, pause: Duration) {
        let until = instant() + pause;
        let mut paused_until = self.paused_until.lock();
        *paused_until = Some(paused_until.map_or(until, |before| before.max(until)));
    }
}
