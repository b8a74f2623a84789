//! Tables of golden rows, one a line: `rules | what happens | what is said`.
//!
//! A line that is empty or starts with `#` is for people. Must not: know what rows are about.

use std::fs;

/// Compares what each row of a file says with what its happenings lead to; with `UPDATE_GOLDEN` set, the
/// file is written anew instead.
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
