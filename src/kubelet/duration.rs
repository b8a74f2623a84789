//! Durations as Go writes them (`1m30s`), the notation of Kubernetes' tools.
//!
//! Responsible for: reading and writing that notation. Must not: know what the durations are for.

use std::time::Duration;

use crate::model::go_duration_nanos;

/// Reads a Go duration that is not negative: `0`, `200ms`, `1.5h`, `1m30s`.
pub fn parse_go_duration(text: &str) -> Option<Duration> {
    let nanos = go_duration_nanos(text).ok()?;
    u64::try_from(nanos).ok().map(Duration::from_nanos)
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
