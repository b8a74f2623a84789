//! The one place where the controller reads a clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::model::Time;

/// Now, to measure how long something takes.
pub(super) fn instant() -> Instant {
    Instant::now()
}

/// Now, by the wall clock.
pub(super) fn now() -> Time {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    Time::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
