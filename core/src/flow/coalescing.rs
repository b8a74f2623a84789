//! The coalescing delay: how long to let answers gather before the next are taken in.
//!
//! To take in one answer costs several times as much when it comes alone: to be woken costs more than what is done
//! then, and server and neighbours have filled the caches meanwhile. Where many writes are in flight, a short delay
//! holds nothing up that matters, and several are taken in at once, as network cards do with packets (interrupt
//! moderation).
//!
//! Must not: wait.

use std::time::Duration;

use super::fair_queue::BATCH;

/// No delay is longer, however long answers take: a Job's next writes wait for so long beside a giant.
/// Measured on a real server, docs/wire.md ("fewer wakes").
pub(super) const LONGEST: Duration = Duration::from_millis(10);

/// So long that a batch of answers comes meanwhile, where so many writes are in flight and an answer takes so
/// long.
pub fn coalescing_delay(in_flight: usize, answer_takes: Duration) -> Duration {
    if in_flight < 2 * BATCH {
        return Duration::ZERO;
    }
    let batches = u32::try_from(in_flight / BATCH).unwrap_or(u32::MAX);
    (answer_takes / batches).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lets_a_batch_gather_and_is_short() {
        let millis = Duration::from_millis;
        assert_eq!(coalescing_delay(15, millis(100)), millis(0));
        assert_eq!(coalescing_delay(16, millis(4)), millis(2));
        assert_eq!(coalescing_delay(64, millis(16)), millis(2));
        assert_eq!(coalescing_delay(64, millis(400)), LONGEST);
        assert_eq!(coalescing_delay(96, millis(6)), Duration::from_micros(500));
    }
}
