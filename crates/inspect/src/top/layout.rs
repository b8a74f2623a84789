//! Computes the positions of all parts of a screen. A low screen has fewer lines of each part, never none.
//!
//! Must not: draw anything.

/// Start of the text in a line with a label, and of the cells in a row of the map. Before it is the label, or the
/// number of the row's first index.
pub(super) const LABEL: u16 = 10;

/// The screen of all Jobs: title, counts, rates, notice, head of the table; rows; keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JobsLayout {
    /// The first row of the table.
    pub(super) first: u16,
    /// Rows of the table.
    pub(super) rows: u16,
}

impl JobsLayout {
    /// Computes it from width and height.
    pub(super) fn of((_, height): (u16, u16)) -> Self {
        /// Lines above the table.
        const ABOVE: u16 = 5;
        Self {
            first: ABOVE,
            rows: height.saturating_sub(ABOVE + 1),
        }
    }
}

/// The screen of one Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageLayout {
    width: u16,
    /// State and reasons: the first line, and the number of lines.
    pub(super) notes: (u16, u16),
    /// The line above the map, and the map.
    pub(super) map_head: u16,
    pub(super) map: (u16, u16),
    /// The legend: the first line, and the number of lines.
    pub(super) legend: (u16, u16),
    pub(super) failures: (u16, u16),
    pub(super) events: (u16, u16),
}

impl PageLayout {
    /// Computes it from width and height.
    pub(super) fn of((width, height): (u16, u16)) -> Self {
        /// Title, state, Pods, pace.
        const ABOVE: u16 = 4;
        /// All entries of the legend fit on a line of this width.
        const WIDE: u16 = 170;
        let legend_rows = match (width, height) {
            (WIDE.., _) | (_, ..16) => 1,
            _ => 2,
        };
        // The line above the map, the legend, the keys.
        let left = height.saturating_sub(ABOVE + 2 + legend_rows);
        let notes = match height {
            40.. => 3,
            20.. => 2,
            _ => left.min(1),
        };
        let left = left.saturating_sub(notes);
        let events = (left / 4).min(12);
        let failures = (left / 5).min(8);
        let map = left - events - failures;
        let map_head = ABOVE + notes;
        let legend = map_head + 1 + map;
        let below = legend + legend_rows;
        Self {
            width,
            notes: (ABOVE, notes),
            map_head,
            map: (map_head + 1, map),
            legend: (legend, legend_rows),
            failures: (below, failures),
            events: (below + failures, events),
        }
    }

    /// Returns width and height of the map.
    pub(super) fn map_size(&self) -> (u16, u16) {
        (self.width, self.map.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lies_on_something_else_and_the_last_line_is_for_keys() {
        for height in 0..300 {
            let page = PageLayout::of((80, height));
            let (events, count) = page.events;
            assert!(
                height < 10 || events + count == height - 1,
                "{height}: {page:?}"
            );
            assert!(height < 10 || page.map.1 > 0, "{height}: {page:?}");
            let jobs = JobsLayout::of((80, height));
            assert!(
                height < 7 || jobs.first + jobs.rows == height - 1,
                "{height}"
            );
        }
        let small = PageLayout::of((80, 24));
        assert_eq!((small.map.1, small.failures.1, small.events.1), (9, 2, 3));
        assert_eq!((small.legend.1, PageLayout::of((200, 60)).legend.1), (2, 1));
    }
}
