//! Formats durations as `kubectl get` does.
//!
//! Responsible for: the text. Must not: read a clock.

use crate::model::Time;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The time since an RFC 3339 time; `<unknown>` if it is missing or invalid.
pub(super) fn since(text: &str, now: Time) -> String {
    match Time::parse_rfc3339(text) {
        Some(time) => between(time, now),
        None => "<unknown>".to_owned(),
    }
}

/// The duration between two times.
pub(super) fn between(from: Time, to: Time) -> String {
    let millis = to.as_millis() - from.as_millis();
    if millis < -1000 {
        return "<invalid>".to_owned();
    }
    human(millis.max(0) / 1000)
}

fn human(seconds: i64) -> String {
    let two = |large: i64, large_unit: char, small: i64, small_unit: char| {
        if small == 0 {
            format!("{large}{large_unit}")
        } else {
            format!("{large}{large_unit}{small}{small_unit}")
        }
    };
    match seconds {
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, 'm', s % MINUTE, 's'),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, 'h', s / MINUTE % 60, 'm'),
        s if s < 48 * HOUR => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, 'd', s / HOUR % 24, 'h'),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, 'y', s / DAY % 365, 'd'),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |seconds: i64, expected: &str| {
            assert_eq!(
                between(Time::from_secs(0), Time::from_secs(seconds)),
                expected
            );
        };
        check(-5, "<invalid>");
        check(-1, "0s");
        check(119, "119s");
        check(120, "2m");
        check(599, "9m59s");
        check(600, "10m");
        check(3 * HOUR, "3h");
        check(3 * HOUR + 61, "3h1m");
        check(47 * HOUR, "47h");
        check(49 * HOUR, "2d1h");
        check(9 * DAY, "9d");
        check(2 * YEAR, "2y");
        check(2 * YEAR + DAY, "2y1d");
        check(9 * YEAR, "9y");
        assert_eq!(since("", Time::default()), "<unknown>");
    }
}
