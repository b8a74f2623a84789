//! Tables written as text: a head, and in the lines below it, behind blanks, its rows. A `#` begins a comment.
//!
//! Responsible for: which rows belong to which head. Must not: know what they say.

use std::iter;

/// The heads of a table, each with its rows.
pub(crate) fn sections(table: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let mut lines = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .peekable();
    iter::from_fn(move || {
        let head = lines.next()?;
        let rows = iter::from_fn(|| lines.next_if(|line| line.starts_with(' ')));
        Some((head, rows.map(str::trim_start).collect()))
    })
}
