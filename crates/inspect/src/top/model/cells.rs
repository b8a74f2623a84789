//! Sorts the indexes of a Job by state, and arranges them as cells of a map: one cell per index, or per several.
//!
//! Must not: know how a cell looks.

use std::ops::Range;

use lakh_model::IndexSet;

use crate::top::layout::LABEL;

/// State of an index. An index in none of these states waits for its first Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) enum CellState {
    Succeeded,
    /// It has failed for good.
    Failed,
    /// Its last Pod failed, and it has no new one yet.
    Retry,
    Running,
    /// It has a Pod that does not run yet.
    Pending,
}

impl CellState {
    /// All states, the most important first.
    pub(in crate::top) const ALL: [Self; 5] = [
        Self::Failed,
        Self::Retry,
        Self::Running,
        Self::Pending,
        Self::Succeeded,
    ];

    pub(in crate::top) fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Retry => "to retry",
            Self::Running => "running",
            Self::Pending => "pending",
        }
    }
}

/// The indexes by state; each is in at most one.
#[derive(Clone, Debug, Default)]
pub(in crate::top) struct CellSets {
    /// Number of indexes.
    pub(in crate::top) completions: u32,
    sets: [IndexSet; CellState::ALL.len()],
}

/// Facts about indexes from several sources, of which one may be older than the others.
#[derive(Debug)]
pub(in crate::top) struct CellFacts<'a> {
    pub(in crate::top) completions: u32,
    pub(in crate::top) succeeded: IndexSet,
    pub(in crate::top) failed: IndexSet,
    pub(in crate::top) running: &'a IndexSet,
    pub(in crate::top) pending: &'a IndexSet,
    /// Indexes with a failed Pod, whatever happened later.
    pub(in crate::top) failed_once: &'a IndexSet,
    /// No index gets another Pod.
    pub(in crate::top) is_over: bool,
}

impl CellSets {
    pub(in crate::top) fn of(facts: CellFacts<'_>) -> Self {
        let CellFacts {
            completions,
            succeeded,
            mut failed,
            running,
            pending,
            failed_once,
            is_over,
        } = facts;
        let without = |set: &IndexSet, others: &[&IndexSet]| {
            let mut set = set.clone();
            for other in others {
                set.subtract(other);
            }
            set
        };
        // A final state wins: the Pods may have been read earlier or later.
        let running = match is_over {
            true => IndexSet::default(),
            false => without(running, &[&succeeded, &failed]),
        };
        let pending = match is_over {
            true => IndexSet::default(),
            false => without(pending, &[&succeeded, &failed, &running]),
        };
        let mut retry = without(failed_once, &[&succeeded, &failed, &running, &pending]);
        if is_over {
            failed.extend(&std::mem::take(&mut retry));
        }
        let mut sets = Self {
            completions,
            ..Self::default()
        };
        for (state, set) in [
            (CellState::Succeeded, succeeded),
            (CellState::Failed, failed),
            (CellState::Retry, retry),
            (CellState::Running, running),
            (CellState::Pending, pending),
        ] {
            sets.sets[state as usize] = set;
        }
        sets
    }

    /// Creates sets with succeeded and failed indexes.
    #[cfg(test)]
    pub(in crate::top) fn with(completions: u32, succeeded: IndexSet, failed: IndexSet) -> Self {
        let none = IndexSet::default();
        Self::of(CellFacts {
            completions,
            succeeded,
            failed,
            running: &none,
            pending: &none,
            failed_once: &none,
            is_over: false,
        })
    }

    /// Returns the indexes of a state.
    pub(in crate::top) fn of_state(&self, state: CellState) -> &IndexSet {
        &self.sets[state as usize]
    }

    /// Returns the number of indexes that wait for their first Pod.
    pub(in crate::top) fn waiting(&self) -> u32 {
        let known: u32 = self.sets.iter().map(IndexSet::len).sum();
        self.completions.saturating_sub(known)
    }

    /// Returns the cell of these indexes.
    pub(in crate::top) fn cell(&self, range: Range<u32>) -> MapCell {
        MapCell {
            all: range.len().try_into().unwrap_or(u32::MAX),
            counts: self.sets.each_ref().map(|set| set.count_in(range.clone())),
        }
    }

    /// Returns the next or previous index that failed or waits for a retry.
    pub(in crate::top) fn next_trouble(&self, from: u32, is_ahead: bool) -> Option<u32> {
        let sets = [CellState::Failed, CellState::Retry].map(|state| self.of_state(state));
        match is_ahead {
            true => {
                let found = sets.map(|set| set.first_from(from.saturating_add(1)));
                found.into_iter().flatten().min()
            }
            false => {
                let found = sets.map(|set| set.last_below(from));
                found.into_iter().flatten().max()
            }
        }
    }
}

/// Indexes that share a place on the map, by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::top) struct MapCell {
    pub(in crate::top) all: u32,
    counts: [u32; CellState::ALL.len()],
}

impl MapCell {
    pub(in crate::top) fn count(&self, state: CellState) -> u32 {
        self.counts[state as usize]
    }

    /// Returns the number of indexes that wait for their first Pod.
    pub(in crate::top) fn waiting(&self) -> u32 {
        self.all.saturating_sub(self.counts.iter().sum())
    }
}

/// Indexes per cell, times a power of ten: rows begin with readable numbers.
const STEPS: [u32; 3] = [1, 2, 5];

/// Returns the number of indexes per cell at a step, from 0 on.
fn per_cell(step: u32) -> u32 {
    10_u32
        .saturating_pow(step / 3)
        .saturating_mul(STEPS[step as usize % 3])
}

/// Arrangement of the indexes on the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) struct MapFrame {
    pub(in crate::top) completions: u32,
    pub(in crate::top) per_cell: u32,
    /// Zoom steps in use, limited to the possible ones.
    pub(in crate::top) zoom: u32,
    /// Cells per row.
    pub(in crate::top) columns: u32,
    /// Visible rows.
    pub(in crate::top) rows: u32,
    /// The first visible index.
    pub(in crate::top) first: u32,
}

impl MapFrame {
    /// Computes the map, `zoom` steps in from the view of all indexes, with the cursor's index visible.
    pub(in crate::top) fn of(
        completions: u32,
        (width, height): (u16, u16),
        zoom: u32,
        cursor: u32,
    ) -> Self {
        let room = u32::from(width.saturating_sub(LABEL)).max(1);
        // Multiples of ten if ten cells fit.
        let columns = if room >= 10 { room - room % 10 } else { room };
        let columns = columns.min(completions.max(1));
        let rows = u32::from(height).max(1);
        let room = u64::from(columns) * u64::from(rows);
        let mut steps = 0..30;
        let fit = steps.find(|step| u64::from(per_cell(*step)) * room >= u64::from(completions));
        let fit = fit.unwrap_or(30);
        let zoom = zoom.min(fit);
        let per_cell = per_cell(fit - zoom);
        let in_row = u64::from(per_cell) * u64::from(columns);
        let total = u64::from(completions).div_ceil(in_row);
        let at = u64::from(cursor) / in_row;
        let last_top = total.saturating_sub(u64::from(rows));
        let top = at.saturating_sub(u64::from(rows) / 2).min(last_top);
        Self {
            completions,
            per_cell,
            zoom,
            columns,
            rows: u32::try_from(total.min(u64::from(rows))).unwrap_or(rows),
            first: u32::try_from(top * in_row).unwrap_or(u32::MAX),
        }
    }

    /// Returns the number of indexes per row.
    pub(in crate::top) fn in_row(&self) -> u32 {
        self.per_cell.saturating_mul(self.columns)
    }

    /// Returns the indexes of a cell; none after the last index.
    pub(in crate::top) fn range(&self, row: u32, column: u32) -> Option<Range<u32>> {
        let before = u64::from(row) * u64::from(self.columns) + u64::from(column);
        let start = u64::from(self.first) + before * u64::from(self.per_cell);
        let start = u32::try_from(start)
            .ok()
            .filter(|at| *at < self.completions)?;
        Some(start..start.saturating_add(self.per_cell).min(self.completions))
    }

    /// Returns the indexes of the cell that contains an index.
    pub(in crate::top) fn around(&self, index: u32) -> Range<u32> {
        let start = index - index % self.per_cell;
        start..start.saturating_add(self.per_cell).min(self.completions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_indexes_are_seen_and_rows_begin_with_round_numbers() {
        let frame = MapFrame::of(1_000_000, (80, 9), 0, 0);
        assert_eq!((frame.per_cell, frame.columns, frame.first), (2_000, 70, 0));
        assert_eq!(frame.rows, 8);
        let last = frame.range(7, 9).expect("the last one");
        assert_eq!(last, 998_000..1_000_000);
        assert_eq!(frame.range(7, 10), None);
        let small = MapFrame::of(10, (80, 9), 0, 0);
        assert_eq!((small.per_cell, small.columns, small.rows), (1, 10, 1));
        // The nearest zoom has one index per cell.
        assert_eq!(MapFrame::of(10, (80, 9), 7, 0).zoom, 0);
    }

    #[test]
    fn zoomed_in_the_cursor_stays_in_view() {
        for zoom in 0..=10 {
            for cursor in [0, 499_999, 999_999] {
                let frame = MapFrame::of(1_000_000, (80, 9), zoom, cursor);
                let end = frame.first + frame.in_row() * frame.rows;
                assert!((frame.first..end).contains(&cursor), "{frame:?} {cursor}");
                assert_eq!(frame.first % frame.in_row(), 0);
            }
        }
        assert_eq!(MapFrame::of(1_000_000, (80, 9), 10, 0).per_cell, 1);
        assert_eq!(MapFrame::of(1_000_000, (80, 9), 1, 0).per_cell, 1_000);
    }

    #[test]
    fn no_size_is_too_small_and_no_job_too_big() {
        for completions in [0, 1, 7, u32::MAX] {
            for size in [(0, 0), (1, 1), (11, 1), (500, 300)] {
                let frame = MapFrame::of(completions, size, 3, completions / 2);
                assert!(frame.per_cell > 0 && frame.columns > 0, "{frame:?}");
                assert_eq!(frame.range(0, 0).is_some(), completions > 0, "{frame:?}");
            }
        }
    }

    #[test]
    fn finished_indexes_are_not_running_whatever_was_seen_before() {
        let set = |text| IndexSet::parse(text, 100);
        let (running, pending, failed_once) = (set("2,4"), set("4,5"), set("0,3,5,6"));
        let sets = |is_over| {
            let sets = CellSets::of(CellFacts {
                completions: 10,
                succeeded: set("0-2"),
                failed: set("3"),
                running: &running,
                pending: &pending,
                failed_once: &failed_once,
                is_over,
            });
            let told = CellState::ALL.map(|state| sets.of_state(state).to_string());
            (told, sets.waiting())
        };
        // Failed, to retry, running, pending, succeeded; waiting.
        assert_eq!(
            sets(false),
            (["3", "6", "4", "5", "0-2"].map(str::to_owned), 3)
        );
        assert_eq!(
            sets(true),
            (["3,5,6", "", "", "", "0-2"].map(str::to_owned), 4)
        );
    }

    #[test]
    fn the_failure_key_goes_to_the_next_failure() {
        let mut sets = CellSets::default();
        sets.sets[CellState::Failed as usize] = IndexSet::parse("3,90", 100);
        sets.sets[CellState::Retry as usize] = IndexSet::parse("7", 100);
        let ahead = [0, 3, 7, 90].map(|from| sets.next_trouble(from, true));
        assert_eq!(ahead, [Some(3), Some(7), Some(90), None]);
        let back = [99, 90, 7, 3].map(|from| sets.next_trouble(from, false));
        assert_eq!(back, [Some(90), Some(7), Some(3), None]);
    }
}
