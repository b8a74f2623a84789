//! Computes exponential backoff: per work-queue key, per refused write and for failed Pods.
//!
//! Must not: hold state or time; the caller counts failures.

use std::time::Duration;

/// `base * 2^(n-1)` for the n-th consecutive failure, at most `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "ItemExponentialFailureRateLimiter")]
pub struct Exponential {
    /// The delay after the first failure.
    pub base: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl Exponential {
    /// The delay after `failures` consecutive failures; zero after none.
    pub fn delay(self, failures: u32) -> Duration {
        if failures == 0 {
            return Duration::ZERO;
        }
        let doublings = (failures - 1).min(31);
        self.base.saturating_mul(1 << doublings).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_its_maximum() {
        let pods = Exponential {
            base: Duration::from_secs(10),
            max: Duration::from_secs(600),
        };
        let secs: Vec<u64> = (0..9).map(|n| pods.delay(n).as_secs()).collect();
        assert_eq!(secs, [0, 10, 20, 40, 80, 160, 320, 600, 600]);
        assert_eq!(pods.delay(u32::MAX).as_secs(), 600);
    }
}
