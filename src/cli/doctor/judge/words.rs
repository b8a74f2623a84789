//! Numbers, times and lists for people.
//!
//! Must not: judge.

use std::{collections::BTreeSet, fmt::Display, time::Duration};

/// So many names stand for all.
const SHOWN: usize = 3;

/// `1 Pod`, `2 Pods`.
pub(super) fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

/// Some names; of many, the first and how many more there are.
pub(super) fn names<T: Display>(all: impl IntoIterator<Item = T>) -> String {
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

/// The same, each name once and in order.
pub(super) fn names_once<T: Display + Ord>(all: impl IntoIterator<Item = T>) -> String {
    names(all.into_iter().collect::<BTreeSet<T>>())
}

/// How long something takes, as roughly as people say it.
pub(super) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_names_are_all_told() {
        assert_eq!(names(["a", "b", "c"]), "a, b, c");
        assert_eq!(names(["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
        assert_eq!(names_once(["b", "a", "b"]), "a, b");
    }

    #[test]
    fn spans_are_told_roughly() {
        let told = [0, 119, 120, 7_199, 7_200, 172_800].map(|secs| span(Duration::from_secs(secs)));
        assert_eq!(told, ["0 s", "119 s", "2 min", "119 min", "2 h", "2 days"]);
    }
}
