//! Reads text tables: a header line and, indented below it, its rows. A line that begins with `#` is a comment.
//!
//! Responsible for: assigning rows to headers. Must not: interpret them.

use std::iter;

/// The headers of a table, each with its rows.
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
