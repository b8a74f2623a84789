//! Parses the times in API objects.

use lakh_model::Time;

/// A time that may be missing; none if it is malformed.
pub(super) fn time(text: Option<String>) -> Option<Time> {
    text.as_deref().and_then(Time::parse_rfc3339)
}

/// Whole seconds since the epoch, or 0 if the text is not a time. The usual form is parsed by hand, because every Pod
/// event has several.
pub(super) fn seconds(text: &str) -> u32 {
    usual_form(text)
        .or_else(|| Time::parse_rfc3339(text).map(Time::as_secs))
        .and_then(|seconds| u32::try_from(seconds).ok())
        .unwrap_or(0)
}

/// `YYYY-MM-DDTHH:MM:SSZ`.
fn usual_form(text: &str) -> Option<i64> {
    let bytes: &[u8; 20] = text.as_bytes().try_into().ok()?;
    if (
        bytes[4], bytes[7], bytes[10], bytes[13], bytes[16], bytes[19],
    ) != (b'-', b'-', b'T', b':', b':', b'Z')
    {
        return None;
    }
    let number = |from: usize, to: usize| {
        bytes[from..to].iter().try_fold(0_i64, |sum, digit| {
            digit
                .is_ascii_digit()
                .then(|| sum * 10 + i64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    Some(days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days from 1970-01-01. The year begins in March here, so that the leap day is its last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_way_agrees_with_the_library() {
        for at in (0..4_000_000_000_i64).step_by(86_400 * 13 + 12_345) {
            let text = Time::from_secs(at).to_rfc3339();
            assert_eq!(usual_form(&text), Some(at), "{text}");
        }
    }

    #[test]
    fn other_forms_and_nonsense() {
        assert_eq!(seconds("1970-01-01T01:00:05+01:00"), 5);
        assert_eq!(seconds("1970-01-01T00:00:05.9Z"), 5);
        for nonsense in ["", "now", "1970-13-01T00:00:00Z", "197x-01-01T00:00:00Z"] {
            assert_eq!(seconds(nonsense), 0, "{nonsense}");
        }
    }
}
