//! Computes the backoff of lists and watches.
//!
//! Must not: know which request failed, or wait.

use std::time::Duration;

use lakh_model::Exponential;
use lakh_wire::ApiError;

/// Backoff while the server does not answer.
pub const RETRY: Exponential = Exponential {
    base: Duration::from_millis(200),
    max: Duration::from_secs(30),
};

/// The longest backoff where there was no answer at all. An unanswered call costs the server nothing, and the end of an
/// outage has to be noticed within seconds, however long it was.
const UNANSWERED: Duration = Duration::from_secs(4);

/// Returns the backoff after this error, the last of `failures` consecutive ones: at least our own, and longer if the
/// server asks for that. `Retry-After: 0` must not turn the backoff off.
pub(super) fn wait_after(error: &ApiError, failures: u32) -> Duration {
    let delay = RETRY.delay(failures);
    match error.code {
        0 => delay.min(UNANSWERED),
        _ => delay.max(error.retry_after.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_can_ask_for_longer_waits_and_not_for_shorter_ones() {
        let wait = |code, secs: Option<u64>, failures| {
            let error = ApiError::from_response(code, b"", secs.map(Duration::from_secs));
            wait_after(&error, failures).as_millis()
        };
        for code in [429, 503] {
            assert_eq!(wait(code, Some(0), 1), 200);
            assert_eq!(wait(code, Some(0), 20), 30_000);
            assert_eq!(wait(code, Some(7), 1), 7_000);
            assert_eq!(wait(code, None, 2), 400);
        }
        let unanswered = ApiError::no_answer("refused");
        assert_eq!(wait_after(&unanswered, 20), UNANSWERED);
    }
}
