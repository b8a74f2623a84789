//! Formats numbers, times and lists for users.
//!
//! Must not: judge.

use std::{collections::BTreeSet, fmt::Display, time::Duration};

use lakh_model::Time;

/// Number of names that are shown of a longer list.
const SHOWN: usize = 3;

/// `1 Pod`, `2 Pods`.
pub fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

/// Joins names; of many, the first ones and the number of the rest.
pub fn names<T: Display>(all: impl IntoIterator<Item = T>) -> String {
    let mut all = all.into_iter();
    let shown: Vec<String> = all
        .by_ref()
        .take(SHOWN)
        .map(|one| one.to_string())
        .collect();
    match all.count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Does the same, each name once and sorted.
pub fn names_once<T: Display + Ord>(all: impl IntoIterator<Item = T>) -> String {
    names(all.into_iter().collect::<BTreeSet<T>>())
}

/// Formats a duration, rounded to one unit.
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Formats a rate, per second, minute or hour, so that the number is at least 1 if possible.
pub fn rate(per_second: f64) -> String {
    let (number, unit) = match per_second {
        1.0.. => (per_second, "second"),
        per_second if per_second * 60.0 >= 1.0 => (per_second * 60.0, "minute"),
        _ => (per_second * 3_600.0, "hour"),
    };
    let article = if unit == "hour" { "an" } else { "a" };
    match number {
        100.0.. => format!("{number:.0} {article} {unit}"),
        _ => format!("{number:.1} {article} {unit}"),
    }
}

/// Formats a time of day in UTC, with the date if the time is not near.
pub fn moment(at: Time, now: Time) -> String {
    /// Within this distance the day is unambiguous.
    const NEAR: Duration = Duration::from_secs(12 * 3_600);
    let text = at.to_rfc3339();
    let is_near = at.since(now).max(now.since(at)) < NEAR;
    match text.trim_end_matches('Z').split_once('T') {
        Some((_, time)) if is_near => format!("{time} UTC"),
        _ => text,
    }
}

/// Replaces control characters: a container's last message may contain any.
pub fn harmless(text: &str) -> String {
    let letters = text.chars();
    let letters = letters.map(|it| match it {
        '\n' => it,
        it if it.is_control() => '\u{fffd}',
        it => it,
    });
    letters.collect()
}

/// Cuts a text to at most `most` characters. An ellipsis replaces the rest.
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most.saturating_sub(1)) {
        Some((end, _)) if text.chars().count() > most => {
            format!("{}\u{2026}", text[..end].trim_end())
        }
        _ => text.to_owned(),
    }
}

/// Cuts a list of indexes to fit on a line.
pub fn short_list(list: &str) -> String {
    const MOST: usize = 60;
    match list.get(..MOST).and_then(|start| start.rfind(',')) {
        Some(end) if list.len() > MOST => format!("{},...", &list[..end]),
        _ => list.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_shown_in_a_fitting_unit() {
        let told = [1_234.5, 12.34, 0.5, 0.01].map(rate);
        assert_eq!(
            told,
            [
                "1234 a second",
                "12.3 a second",
                "30.0 a minute",
                "36.0 an hour"
            ]
        );
    }

    #[test]
    fn a_moment_far_away_has_its_date() {
        let now = Time::from_secs(1_795_231_200);
        assert_eq!(moment(now, now), "03:20:00 UTC");
        assert_eq!(
            moment(Time::from_secs(1_795_231_200 - 86_400), now),
            "2026-11-20T03:20:00Z"
        );
    }

    #[test]
    fn a_short_list_of_names_is_complete() {
        assert_eq!(names(["a", "b", "c"]), "a, b, c");
        assert_eq!(names(["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
        assert_eq!(names_once(["b", "a", "b"]), "a, b");
    }

    #[test]
    fn text_that_is_cut_ends_in_an_ellipsis() {
        assert_eq!(cut("Container main was", 18), "Container main was");
        assert_eq!(
            cut("Container main was killed", 18),
            "Container main wa\u{2026}"
        );
        assert_eq!(cut("Container main was", 15), "Container main\u{2026}");
        assert_eq!(cut("\u{e4}\u{f6}\u{fc}", 2), "\u{e4}\u{2026}");
        assert_eq!(cut("", 2), "");
    }

    #[test]
    fn durations_are_rounded() {
        let told = [0, 119, 120, 7_199, 7_200, 172_800].map(|secs| span(Duration::from_secs(secs)));
        assert_eq!(told, ["0 s", "119 s", "2 min", "119 min", "2 h", "2 days"]);
    }
}
