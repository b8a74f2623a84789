//! Draws the help: the keys and their actions.
//!
//! Must not: be longer than 80x24 shows.

use super::{looks::Ink, pen::Pen};

const HELP: &[(&str, &str)] = &[
    ("", "All Jobs"),
    (
        "arrows, j k",
        "choose a Job; PgUp, PgDn, Home, End go farther",
    ),
    ("Enter", "open it"),
    ("/", "show Jobs with something in their name; Esc shows all"),
    (
        "n, s",
        "show Jobs of the next namespace; of the next kind of state",
    ),
    ("o, r", "sort by something else; the other way round"),
    ("a", "all namespaces, or one"),
    ("", "One Job"),
    (
        "arrows",
        "move the cursor on the map; PgUp, PgDn, Home, End go farther",
    ),
    ("+, -, 0", "nearer to the cursor; farther; all indexes"),
    ("x, X", "to the next index that failed; to the one before"),
    ("i", "to an index by its number"),
    (
        "1-4, X",
        "on the map: tens of percent of a cell that failed; half or more",
    ),
    ("Esc", "back to all Jobs"),
    ("", "Everywhere"),
    ("?", "this"),
    ("Ctrl-L", "draw all anew"),
    ("q, Ctrl-C", "leave"),
];

pub(super) fn draw(pen: &mut Pen<'_>) {
    for (y, (keys, words)) in (2..).zip(HELP) {
        match *keys {
            "" => pen.line(y, words, Ink::Strong),
            keys => {
                pen.put(2, y, keys, 14, Ink::Plain);
                pen.put(16, y, words, u16::MAX, Ink::Plain);
            }
        }
    }
}
