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

/// A [`BATCH`]th of what an answer takes: those to all that is in flight come in so many goes. No delay where two of them
/// would hardly come in one. While there is congestion few are in flight, but the server has more than it can do: then the
/// longest delay holds nothing up.
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
