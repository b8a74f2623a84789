//! Computes the coalescing delay: how long to gather responses before they are handled.
//!
//! Handling a response costs several times as much when it comes alone. The wake-up costs more than the work, and the
//! server and other processes have filled the CPU caches meanwhile. With many writes in flight a short delay is
//! harmless, and several responses are handled at once. Network cards do the same with packets (interrupt moderation).
//!
//! Must not: wait.

use std::time::Duration;

use super::fair_queue::BATCH;

/// The longest delay, however slow the responses are: the next writes of a small Job beside a giant one wait this long.
/// Measured on a real server, docs/wire.md ("fewer wakes").
pub(super) const LONGEST: Duration = Duration::from_millis(10);

/// Returns a [`BATCH`]th of the latency of a response: the responses to all writes in flight then come in this many
/// batches. Returns no delay if a batch would hardly have two. Under congestion few writes are in flight, but the
/// server is overloaded: then the longest delay is harmless.
pub fn coalescing_delay(in_flight: usize, answer_takes: Duration, is_congested: bool) -> Duration {
    let goes = u32::try_from(BATCH).unwrap_or(u32::MAX);
    match in_flight < 2 * BATCH {
        _ if is_congested => LONGEST,
        true => Duration::ZERO,
        false => (answer_takes / goes).min(LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lets_answers_gather_and_is_short() {
        let millis = Duration::from_millis;
        assert_eq!(coalescing_delay(15, millis(100), false), millis(0));
        assert_eq!(coalescing_delay(16, millis(16), false), millis(2));
        assert_eq!(coalescing_delay(64, millis(16), false), millis(2));
        assert_eq!(coalescing_delay(64, millis(400), false), LONGEST);
        assert_eq!(
            coalescing_delay(96, millis(6), false),
            Duration::from_micros(750)
        );
        assert_eq!(coalescing_delay(8, millis(20), true), LONGEST);
    }
}
