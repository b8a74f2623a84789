//! How long to wait before a list or a watch is tried again.
//!
//! Must not: know what failed, or wait.

use std::time::Duration;

use crate::{model::Exponential, wire::ApiError};

/// How long to wait before the next try when the server does not answer.
pub(crate) const RETRY: Exponential = Exponential {
    base: Duration::from_millis(200),
    max: Duration::from_secs(30),
};

/// The longest such wait where there was no answer at all: a call that nobody answers costs the server nothing, and one
/// that is back is to be heard within seconds, however long it was away.
const UNANSWERED: Duration = Duration::from_secs(4);

/// How long to wait after this error, the last of so many in a row.
pub(super) fn wait_after(error: &ApiError, failures: u32) -> Duration {
    let delay = RETRY.delay(failures);
    error.retry_after.unwrap_or(match error.code {
        0 => delay.min(UNANSWERED),
        _ => delay,
    })
}
