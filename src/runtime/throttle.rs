//! The client-wide limit on calls a second: a token bucket.

use std::num::NonZeroU32;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

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
pub(super) struct Throttle(Option<DefaultDirectRateLimiter>);

impl Throttle {
    pub(super) fn new(rate: Rate) -> Self {
        Self(NonZeroU32::new(rate.qps).map(|qps| {
            let burst = NonZeroU32::new(rate.burst).unwrap_or(qps);
            RateLimiter::direct(Quota::per_second(qps).allow_burst(burst))
        }))
    }

    /// Waits until a call may be made.
    pub(super) async fn pass(&self) {
        if let Some(bucket) = &self.0 {
            bucket.until_ready().await;
        }
    }
}
