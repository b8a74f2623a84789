//! Holds the table of all Jobs: its filter, its order and its selection.
//!
//! Must not: know how a row looks.

use std::{cmp::Reverse, collections::BTreeSet};

use compact_str::CompactString;
use hashbrown::HashMap;

use lakh_model::{JobKey, Time};

use crate::{one_job::JobDetails, status::JobStanding, top::records::JobRow};

use super::rates::RateHistory;

/// Sort order of the Jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::top) enum JobOrder {
    /// Running Jobs come first, the newest of them first.
    #[default]
    State,
    Name,
    Done,
    Active,
    Failed,
    Rate,
    Age,
}

impl JobOrder {
    const ALL: [Self; 7] = [
        Self::State,
        Self::Name,
        Self::Done,
        Self::Active,
        Self::Failed,
        Self::Rate,
        Self::Age,
    ];

    pub(in crate::top) fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Name => "name",
            Self::Done => "done",
            Self::Active => "active",
            Self::Failed => "failed",
            Self::Rate => "rate",
            Self::Age => "age",
        }
    }
}

/// Filter of the Jobs by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::top) enum StateFilter {
    #[default]
    All,
    /// Neither Complete nor Failed.
    Unfinished,
    Suspended,
    /// The Job or some of its Pods have failed.
    WithFailures,
    Failed,
    Complete,
}

impl StateFilter {
    const ALL: [Self; 6] = [
        Self::All,
        Self::Unfinished,
        Self::Suspended,
        Self::WithFailures,
        Self::Failed,
        Self::Complete,
    ];

    pub(in crate::top) fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Unfinished => "unfinished",
            Self::Suspended => "suspended",
            Self::WithFailures => "with failures",
            Self::Failed => "Failed",
            Self::Complete => "Complete",
        }
    }

    fn takes(self, row: &JobRow) -> bool {
        match self {
            Self::All => true,
            Self::Unfinished => !row.standing.is_over(),
            Self::Suspended => row.standing == JobStanding::Suspended,
            Self::WithFailures => row.failed > 0 || row.standing == JobStanding::Failed,
            Self::Failed => row.standing == JobStanding::Failed,
            Self::Complete => row.standing == JobStanding::Complete,
        }
    }
}

/// Returns a state's place in the order: running before finished.
fn rank(standing: JobStanding) -> u8 {
    match standing {
        JobStanding::Running | JobStanding::Ending | JobStanding::Deleting => 0,
        JobStanding::New => 1,
        JobStanding::Suspended => 2,
        JobStanding::Failed => 3,
        JobStanding::Complete => 4,
    }
}

/// Returns the next item of a list, and the first after the last.
fn next<T: Copy + PartialEq>(all: &[T], one: T) -> T {
    let at = all.iter().position(|it| *it == one);
    all[(at.unwrap_or(0) + 1) % all.len()]
}

/// Numbers of Jobs by their most requested properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::top) struct JobCounts {
    pub(in crate::top) all: usize,
    pub(in crate::top) unfinished: usize,
    pub(in crate::top) suspended: usize,
    pub(in crate::top) failed: usize,
    pub(in crate::top) complete: usize,
}

#[derive(Debug)]
struct TableRow {
    row: JobRow,
    /// Time of the last increase in ended Pods.
    counted: Time,
    /// Boxed and optional: most Jobs do nothing.
    rates: Option<Box<RateHistory>>,
}

/// All Jobs, with the rows that match the filters in sorted order. The cursor follows the selected Job. Call
/// [`sort`](Self::sort) after changes and before rows are read.
#[derive(Debug, Default)]
pub(in crate::top) struct JobTable {
    rows: Vec<TableRow>,
    places: HashMap<JobKey, usize>,
    /// The Jobs have been listed.
    pub(in crate::top) is_known: bool,
    pub(in crate::top) order: JobOrder,
    pub(in crate::top) is_reversed: bool,
    pub(in crate::top) state: StateFilter,
    /// Shows only Jobs of this namespace.
    pub(in crate::top) namespace: Option<CompactString>,
    /// Shows only Jobs with this text in `namespace/name`.
    pub(in crate::top) name: String,
    /// The rows that are shown, in order, as positions in `rows`.
    shown: Vec<usize>,
    is_sorted: bool,
    chosen: Option<JobKey>,
    /// The user has selected a Job. Before, the first row is selected, whichever Job it has.
    is_moved: bool,
    /// Position of the selected Job in `shown`, or its last one.
    cursor: usize,
    /// Rate at which Pods of all Jobs end.
    pub(in crate::top) rates: RateHistory,
}

impl JobTable {
    /// Replaces all Jobs by a complete list.
    pub(in crate::top) fn list(&mut self, rows: Vec<JobRow>, now: Time) {
        self.is_known = true;
        self.is_sorted = false;
        let there: BTreeSet<JobKey> = rows.iter().map(|row| row.key.clone()).collect();
        for row in rows {
            self.put(row, now);
        }
        let before = std::mem::take(&mut self.rows);
        self.rows = before
            .into_iter()
            .filter(|it| there.contains(&it.row.key))
            .collect();
        let places = self.rows.iter().enumerate();
        self.places = places.map(|(at, it)| (it.row.key.clone(), at)).collect();
    }

    /// Adds or updates a Job.
    pub(in crate::top) fn apply(&mut self, job: &JobDetails, now: Time) {
        self.put(JobRow::of(job), now);
    }

    fn put(&mut self, row: JobRow, now: Time) {
        self.is_sorted = false;
        let Some(place) = self.places.get(&row.key) else {
            self.places.insert(row.key.clone(), self.rows.len());
            self.rows.push(TableRow {
                row,
                counted: now,
                rates: None,
            });
            return;
        };
        let known = &mut self.rows[*place];
        if known.row.uid == row.uid {
            let ended = row.ended().saturating_sub(known.row.ended());
            if ended > 0 {
                let rates = known.rates.get_or_insert_default();
                rates.add(ended, known.counted, now);
                self.rates.add(ended, known.counted, now);
                known.counted = now;
            }
        } else {
            known.rates = None;
            known.counted = now;
        }
        known.row = row;
    }

    /// Removes a deleted Job.
    pub(in crate::top) fn delete(&mut self, row: &JobRow) {
        let Some(place) = self.places.get(&row.key).copied() else {
            return;
        };
        if self.rows[place].row.uid != row.uid {
            return;
        }
        self.is_sorted = false;
        self.places.remove(&row.key);
        self.rows.swap_remove(place);
        if let Some(moved) = self.rows.get(place) {
            self.places.insert(moved.row.key.clone(), place);
        }
    }

    /// Forgets all Jobs, as others are shown from now on.
    pub(in crate::top) fn forget(&mut self) {
        *self = Self {
            order: self.order,
            is_reversed: self.is_reversed,
            state: self.state,
            name: std::mem::take(&mut self.name),
            ..Self::default()
        };
    }

    /// Filters and sorts the rows.
    pub(in crate::top) fn sort(&mut self, now: Time) {
        // Rates change without an event.
        if self.is_sorted && self.order != JobOrder::Rate {
            return;
        }
        self.is_sorted = true;
        for known in &mut self.rows {
            known.rates.take_if(|rates| rates.is_over(now));
        }
        let rows = &self.rows;
        let mut shown: Vec<usize> = (0..rows.len())
            .filter(|at| self.takes(&rows[*at].row))
            .collect();
        let key = |at: usize| &rows[at].row.key;
        let newest = |at: &usize| Reverse(rows[*at].row.created);
        shown.sort_by(|one, other| key(*one).cmp(key(*other)));
        match self.order {
            JobOrder::Name => {}
            JobOrder::State => shown.sort_by_key(|at| (rank(rows[*at].row.standing), newest(at))),
            JobOrder::Done => shown.sort_by_key(|at| Reverse(rows[*at].row.percent())),
            JobOrder::Active => shown.sort_by_key(|at| Reverse(rows[*at].row.active)),
            JobOrder::Failed => shown.sort_by_key(|at| Reverse(rows[*at].row.failed)),
            JobOrder::Rate => shown.sort_by(|one, other| {
                let rate = |at: &usize| rows[*at].rates.as_ref().map_or(0.0, |it| it.rate(now));
                rate(other).total_cmp(&rate(one))
            }),
            JobOrder::Age => shown.sort_by_key(newest),
        }
        if self.is_reversed {
            shown.reverse();
        }
        self.shown = shown;
        self.find_cursor();
    }

    fn takes(&self, row: &JobRow) -> bool {
        let is_there = self
            .namespace
            .as_ref()
            .is_none_or(|it| *it == row.key.namespace);
        let is_meant = || self.name.is_empty() || row.key.to_string().contains(&self.name);
        is_there && self.state.takes(row) && is_meant()
    }

    /// Moves the cursor to the selected Job; if that is gone, the cursor keeps its position.
    fn find_cursor(&mut self) {
        let chosen = self.chosen.as_ref().filter(|_| self.is_moved);
        let mut shown = self.shown.iter();
        let found = shown.position(|at| Some(&self.rows[*at].row.key) == chosen);
        let last = self.shown.len().saturating_sub(1);
        self.cursor = found.unwrap_or(self.cursor).min(last);
        self.choose();
    }

    fn choose(&mut self) {
        let at = self.shown.get(self.cursor);
        self.chosen = at.map(|at| self.rows[*at].row.key.clone());
    }

    /// Moves the cursor by this number of rows.
    pub(in crate::top) fn step(&mut self, by: isize) {
        let last = self.shown.len().saturating_sub(1);
        self.is_moved = true;
        self.cursor = self.cursor.saturating_add_signed(by).min(last);
        self.choose();
    }

    /// Switches to the next sort order.
    pub(in crate::top) fn next_order(&mut self) {
        self.order = next(&JobOrder::ALL, self.order);
        self.is_sorted = false;
    }

    /// Reverses the order.
    pub(in crate::top) fn reverse(&mut self) {
        self.is_reversed = !self.is_reversed;
        self.is_sorted = false;
    }

    /// Switches to the next state filter.
    pub(in crate::top) fn next_state(&mut self) {
        self.state = next(&StateFilter::ALL, self.state);
        self.is_sorted = false;
    }

    /// Shows the Jobs of the next namespace; after the last one, those of all.
    pub(in crate::top) fn next_namespace(&mut self) {
        let namespaces: BTreeSet<&CompactString> =
            self.rows.iter().map(|it| &it.row.key.namespace).collect();
        let mut namespaces = namespaces.into_iter();
        let next = match &self.namespace {
            None => namespaces.next(),
            Some(now) => namespaces.find(|it| *it > now),
        };
        self.namespace = next.cloned();
        self.is_sorted = false;
    }

    /// Shows Jobs with this text in their names.
    pub(in crate::top) fn set_name(&mut self, name: String) {
        self.name = name;
        self.is_sorted = false;
    }

    /// Returns the selected Job.
    pub(in crate::top) fn chosen(&self) -> Option<&JobRow> {
        let at = self.shown.get(self.cursor)?;
        self.rows.get(*at).map(|it| &it.row)
    }

    /// Returns the cursor's position.
    pub(in crate::top) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Returns the number of rows that are shown.
    pub(in crate::top) fn len(&self) -> usize {
        self.shown.len()
    }

    /// Returns some of the rows that are shown, with their rates.
    pub(in crate::top) fn rows(
        &self,
        from: usize,
        count: usize,
    ) -> impl Iterator<Item = (&JobRow, Option<&RateHistory>)> {
        let shown = self.shown.iter().skip(from).take(count);
        let rows = shown.filter_map(move |at| self.rows.get(*at));
        rows.map(|it| (&it.row, it.rates.as_deref()))
    }

    /// Returns the rate at which a Job's Pods end, if any have ended recently.
    pub(in crate::top) fn rates_of(&self, key: &JobKey) -> Option<&RateHistory> {
        self.rows[*self.places.get(key)?].rates.as_deref()
    }

    /// Returns true if at least one Job is not finished.
    pub(in crate::top) fn has_unfinished(&self) -> bool {
        self.rows.iter().any(|it| !it.row.standing.is_over())
    }

    /// Counts all Jobs, shown or not.
    pub(in crate::top) fn counts(&self) -> JobCounts {
        let mut counts = JobCounts {
            all: self.rows.len(),
            ..JobCounts::default()
        };
        for known in &self.rows {
            match known.row.standing {
                JobStanding::Complete => counts.complete += 1,
                JobStanding::Failed => counts.failed += 1,
                JobStanding::Suspended => {
                    counts.unfinished += 1;
                    counts.suspended += 1;
                }
                _ => counts.unfinished += 1,
            }
        }
        counts
    }
}
