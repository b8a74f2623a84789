//! Durations as Go writes them (`1m30s`), the notation of Kubernetes' tools.
//!
//! Responsible for: reading and writing that notation. Must not: know what the durations are for.

use std::time::Duration;

/// Reads a Go duration that is not negative: `0`, `200ms`, `1.5h`, `1m30s`.
pub fn parse_go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (part, tail) = take_part(rest)?;
        nanos = nanos.checked_add(part)?;
        rest = tail;
    }
    let nanos = u64::try_from(nanos).ok().filter(|_| !text.is_empty())?;
    Some(Duration::from_nanos(nanos))
}

/// Writes a duration as Go prints it, down to milliseconds: `10s`, `1m20s`, `5m0s`, `250ms`.
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

/// Splits off one number with its unit, in nanoseconds.
fn take_part(text: &str) -> Option<(u128, &str)> {
    let number_len = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(number_len);
    let unit_len = rest
        .find(|c: char| c.is_ascii_digit() || c == '.')
        .unwrap_or(rest.len());
    let (unit, tail) = rest.split_at(unit_len);
    let unit = unit_nanos(unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || number.len() > MAX_DIGITS {
        return None;
    }
    let digits = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.parse::<u128>().ok()
        }
    };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let nanos = digits(whole)?.checked_mul(unit)? + digits(fraction)?.checked_mul(unit)? / scale;
    Some((nanos, tail))
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

/// More digits than any duration needs; keeps the arithmetic far from its limits.
const MAX_DIGITS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

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
