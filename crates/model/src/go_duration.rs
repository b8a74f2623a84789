//! Parses and formats durations in Go's notation (`1m30s`, `-1.5h`), which Kubernetes' tools use.
//!
//! Must not: know what the durations are for.

use std::time::Duration;

/// A parse error of a duration, with Go's wording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoDurationError {
    /// The text is not a duration, or a number is too long.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number has no unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A unit is not known.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// Parses a Go duration into nanoseconds: `0`, `200ms`, `-1.5h`, `1m30s`.
pub fn go_duration_nanos(text: &str) -> Result<i64, GoDurationError> {
    let invalid = || GoDurationError::Invalid(text.to_owned());
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if unsigned == "0" {
        return Ok(0);
    }
    if unsigned.is_empty() {
        return Err(invalid());
    }
    let mut rest = unsigned;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, tail) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let malformed = whole.is_empty() && fraction.is_empty() || fraction.contains('.');
        if malformed || number.len() > MAX_DIGITS {
            return Err(invalid());
        }
        let (unit, tail) = tail.split_at(tail.find(is_number).unwrap_or(tail.len()));
        if unit.is_empty() {
            return Err(GoDurationError::MissingUnit(text.to_owned()));
        }
        let unit = unit_nanos(unit).ok_or_else(|| GoDurationError::UnknownUnit {
            unit: unit.to_owned(),
            text: text.to_owned(),
        })?;
        nanos += digits(whole) * unit;
        nanos += digits(fraction) * unit / 10_u128.pow(fraction.len() as u32);
        rest = tail;
    }
    let nanos = i64::try_from(nanos).map_err(|_| invalid())?;
    Ok(if negative { -nanos } else { nanos })
}

/// The value of at most [`MAX_DIGITS`] digits; an empty text is zero.
fn digits(text: &str) -> u128 {
    text.bytes()
        .fold(0, |value, digit| value * 10 + u128::from(digit - b'0'))
}

fn unit_nanos(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// More digits than any duration needs; keeps the arithmetic far from overflow.
const MAX_DIGITS: usize = 20;

/// Parses a Go duration that is not negative: `0`, `200ms`, `1.5h`, `1m30s`.
pub fn parse_go_duration(text: &str) -> Option<Duration> {
    let nanos = go_duration_nanos(text).ok()?;
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

/// Formats a duration as Go prints it, down to milliseconds: `10s`, `1m20s`, `5m0s`, `250ms`.
pub fn format_go_duration(duration: Duration) -> String {
    let (secs, millis) = (duration.as_secs(), duration.subsec_millis());
    if secs == 0 && millis != 0 {
        return format!("{millis}ms");
    }
    let fraction = match millis {
        0 => String::new(),
        millis => format!(".{millis:03}").trim_end_matches('0').to_owned(),
    };
    match (secs / 3600, secs / 60 % 60, secs % 60) {
        (0, 0, s) => format!("{s}{fraction}s"),
        (0, m, s) => format!("{m}m{s}{fraction}s"),
        (h, m, s) => format!("{h}h{m}m{s}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_and_invalid_durations() {
        assert_eq!(go_duration_nanos("-1h"), Ok(-3_600_000_000_000));
        assert_eq!(go_duration_nanos("+1.5s"), Ok(1_500_000_000));
        let says = |text: &str, what: &str| {
            let error = go_duration_nanos(text).expect_err("no duration");
            assert_eq!(error.to_string(), what);
        };
        says("", r#"time: invalid duration """#);
        says("x", r#"time: invalid duration "x""#);
        says("5", r#"time: missing unit in duration "5""#);
        says("1d", r#"time: unknown unit "d" in duration "1d""#);
    }

    #[test]
    fn durations_are_read_and_written() {
        let cases = [
            ("0", Some("0s")),
            ("0s", Some("0s")),
            ("200ms", Some("200ms")),
            ("1m30s", Some("1m30s")),
            ("90s", Some("1m30s")),
            ("1.5h", Some("1h30m0s")),
            ("1500us", Some("1ms")),
            ("2s500ms", Some("2.5s")),
            (".5s", Some("500ms")),
            ("300s", Some("5m0s")),
            ("", None),
            ("5", None),
            ("-1s", None),
            ("1 s", None),
            ("1d", None),
            ("s", None),
            (".s", None),
            ("1..5s", None),
            ("99999999999999999999999s", None),
        ];
        for (text, want) in cases {
            let got = parse_go_duration(text).map(format_go_duration);
            assert_eq!(got.as_deref(), want, "{text}");
        }
    }
}
