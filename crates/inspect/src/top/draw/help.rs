//! Draws the help: the keys and their actions.
//!
//! Must not: be longer than 80x24 shows.

use super::{looks::Ink, pen::Pen};

const HELP: &[(&str, &str)] = &[
    ("", "All Jobs"),
    (
        "arrows, j k",
        "select a Job; PgUp, PgDn, Home, End move farther",
    ),
    ("Enter", "open the Job"),
    ("/", "filter Jobs by name; Esc shows all"),
    ("n, s", "filter by the next namespace; by the next state"),
    ("o, r", "sort by the next column; reverse the order"),
    ("a", "all namespaces, or one"),
    ("", "One Job"),
    (
        "arrows",
        "move the cursor on the map; PgUp, PgDn, Home, End move farther",
    ),
    (
        "+, -, 0",
        "zoom in at the cursor; zoom out; show all indexes",
    ),
    ("x, X", "next failed index; previous failed index"),
    ("i", "go to an index"),
    (
        "1-4, X",
        "in map cells: failed indexes in tens of percent; X: half or more",
    ),
    ("Esc", "back to all Jobs"),
    ("", "Everywhere"),
    ("?", "this help"),
    ("Ctrl-L", "redraw the screen"),
    ("q, Ctrl-C", "quit"),
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
