//! The one place that reads the clock.
//!
//! Responsible for: the time. Must not: do anything else.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::Time;

/// The wall-clock time.
pub(super) fn now() -> Time {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Time::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
