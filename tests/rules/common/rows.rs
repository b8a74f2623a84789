//! Checks tables of golden rows, one per line: `rules | words | outcome`.
//!
//! A line that is empty or starts with `#` is a comment. Must not: know the subject of the rows.

use std::fs;

/// Compares the outcome of each row of a file with its last column. With `UPDATE_GOLDEN` set, rewrites the file
/// instead.
pub(crate) fn check(path: &str, said: impl Fn(&str) -> String) {
    let text = fs::read_to_string(path).expect("it is there");
    let mut fresh = String::new();
    for line in text.lines() {
        if line.is_empty() || line.starts_with('#') {
            fresh.push_str(line);
        } else {
            let mut columns = line.splitn(3, " | ");
            let (row, words) = (columns.next().unwrap_or(""), columns.next().unwrap_or(""));
            let words = words.trim_end_matches([' ', '|']);
            fresh.push_str(&format!("{row} | {words} | {}", said(words)));
        }
        fresh.push('\n');
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, fresh).expect("it can be written");
        return;
    }
    assert_eq!(fresh.lines().count(), text.lines().count());
    for (want, got) in text.lines().zip(fresh.lines()) {
        assert_eq!(got, want);
    }
}
