//! Draws the map of a Job's indexes and its legend; for a Job without indexes, one bar.
//!
//! Must not: change anything.

use crate::{
    one_job::JobDetails,
    top::{
        layout::{LABEL, PageLayout},
        model::{CellSets, CellState, JobPage, MapCell, MapFrame},
    },
};

use super::{
    looks::Ink,
    pen::{Pen, number, short},
};

pub(super) fn draw(page: &JobPage, cells: &CellSets, layout: PageLayout, pen: &mut Pen<'_>) {
    let (top, _) = layout.map;
    let frame = MapFrame::of(cells.completions, layout.map_size(), page.zoom, page.cursor);
    head(page, cells, frame, layout, pen);
    for row in 0..frame.rows {
        let Ok(below) = u16::try_from(row) else { break };
        let y = top + below;
        let Some(first) = frame.range(row, 0) else {
            break;
        };
        let label = number(first.start);
        pen.put(0, y, &format!("{label:>9}"), LABEL, Ink::Faint);
        for column in 0..frame.columns {
            let (Some(range), Ok(x)) = (frame.range(row, column), u16::try_from(column)) else {
                break;
            };
            let is_chosen = range.contains(&page.cursor);
            let (letter, ink) = pen.looks.of_cell(&cells.cell(range));
            pen.dot(LABEL + x, y, letter, ink, is_chosen);
        }
    }
    legend(cells, frame, layout, pen);
}

/// Draws the line above the map: indexes per cell, and the state at the cursor.
fn head(page: &JobPage, cells: &CellSets, frame: MapFrame, layout: PageLayout, pen: &mut Pen<'_>) {
    let range = frame.around(page.cursor);
    let at = match range.len() {
        0 => String::new(),
        1 => {
            let cell = cells.cell(range);
            let mut states = CellState::ALL.into_iter();
            let state = states.find(|state| cell.count(*state) > 0);
            let state = state.map_or("waiting", CellState::as_str);
            format!("index {}: {state}", number(page.cursor))
        }
        _ => {
            let (start, last) = (number(range.start), number(range.end - 1));
            format!("{start} to {last}: {}", counts(&cells.cell(range)))
        }
    };
    let size = match frame.per_cell {
        1 => "one a cell".to_owned(),
        many => format!("{} a cell", number(many)),
    };
    pen.labelled(
        layout.map_head,
        "indexes",
        &format!("{size} | {at}"),
        Ink::Plain,
    );
}

fn counts(cell: &MapCell) -> String {
    let states = CellState::ALL.map(|state| (cell.count(state), state.as_str()));
    let all = states.into_iter().chain([(cell.waiting(), "waiting")]);
    let some = all.filter(|(count, _)| *count > 0);
    let words: Vec<String> = some
        .map(|(count, word)| format!("{} {word}", number(count)))
        .collect();
    words.join(", ")
}

/// Draws the legend: each character in use with its number of indexes, and the shares if cells have more than one.
fn legend(cells: &CellSets, frame: MapFrame, layout: PageLayout, pen: &mut Pen<'_>) {
    let states = CellState::ALL.map(|state| (Some(state), cells.of_state(state).len()));
    let states = states.into_iter().chain([(None, cells.waiting())]);
    let mut entries: Vec<LegendEntry> = states
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| {
            let word = state.map_or("waiting", CellState::as_str);
            (
                pen.looks.of_state(state),
                format!("{} {word}", short(count)),
            )
        })
        .collect();
    let has_failures = [CellState::Failed, CellState::Retry]
        .iter()
        .any(|state| !cells.of_state(*state).is_empty());
    if has_failures && frame.per_cell > 1 {
        let words = "below 10 % of a cell, 1-4 tens of percent, X half or more".to_owned();
        entries.push((pen.looks.few(), words));
    }
    put_legend(&entries, layout, pen);
}

/// A character with its ink and its meaning.
type LegendEntry = ((char, Ink), String);

/// Puts the entries side by side, in the lines of the legend.
fn put_legend(entries: &[LegendEntry], layout: PageLayout, pen: &mut Pen<'_>) {
    let (mut y, rows) = layout.legend;
    let end = y + rows;
    let mut x = 0_u16;
    for ((letter, ink), words) in entries {
        let width = u16::try_from(words.chars().count() + 2).unwrap_or(u16::MAX);
        if x > 0 && x.saturating_add(width) > pen.width() && y + 1 < end {
            (x, y) = (0, y + 1);
        }
        x = pen.put(x, y, &letter.to_string(), 1, *ink);
        x = pen.put(x, y, &format!(" {words}"), u16::MAX, Ink::Plain) + 2;
    }
}

/// Draws the Pods of a Job without indexes, as parts of all that it wants.
pub(super) fn draw_bar(job: &JobDetails, pending: u32, layout: PageLayout, pen: &mut Pen<'_>) {
    let status = job.status();
    let known = status.succeeded.saturating_add(status.active);
    let all = job.job.spec.completions.unwrap_or(known).max(known).max(1);
    pen.labelled(
        layout.map_head,
        "Pods",
        "progress bar; this Job has no indexes",
        Ink::Plain,
    );
    let running = status.active.saturating_sub(pending);
    let parts = [
        (Some(CellState::Succeeded), status.succeeded),
        (Some(CellState::Running), running),
        (Some(CellState::Pending), status.active - running),
        (None, all - known),
    ];
    let room = u32::from(pen.width().saturating_sub(LABEL));
    let (y, _) = layout.map;
    let mut before = 0_u64;
    let mut x = 0;
    let mut entries = Vec::new();
    for (state, count) in parts {
        before += u64::from(count);
        let end = before * u64::from(room) / u64::from(all);
        let (letter, ink) = pen.looks.of_state(state);
        while u64::from(x) < end && layout.map.1 > 0 {
            pen.dot(LABEL + x, y, letter, ink, false);
            x += 1;
        }
        if count > 0 {
            let word = state.map_or("waiting", CellState::as_str);
            entries.push(((letter, ink), format!("{} {word}", short(count))));
        }
    }
    put_legend(&entries, layout, pen);
}
