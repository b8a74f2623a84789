//! Draws the screen of all Jobs.
//!
//! Must not: change anything.

use lakh_model::Time;

use crate::{
    status::JobStanding,
    top::{
        layout::{JobsLayout, LABEL},
        model::{JobTable, RateHistory, StateFilter, TopModel},
        records::JobRow,
    },
    words::{count, rate, span},
};

use super::{
    looks::Ink,
    pen::{Pen, short, wrapped},
    silence,
};

/// Columns after the name, with a space before each: state, done of all, percent, active, failed, rate, age. Numbers
/// are right-aligned.
const COLUMNS: [Column; 7] = [
    Column::words("STATE", 9),
    Column::numbers("DONE", 11),
    Column::numbers("%", 3),
    Column::numbers("ACTIVE", 6),
    Column::numbers("FAILED", 6),
    Column::numbers("ENDED/S", 7),
    Column::numbers("AGE", 7),
];

#[derive(Clone, Copy)]
struct Column {
    title: &'static str,
    width: u16,
    has_numbers: bool,
}

impl Column {
    const fn words(title: &'static str, width: u16) -> Self {
        Self {
            title,
            width,
            has_numbers: false,
        }
    }

    const fn numbers(title: &'static str, width: u16) -> Self {
        Self {
            title,
            width,
            has_numbers: true,
        }
    }
}

/// Width of the mark of the selected row, before the name.
const MARK: u16 = 2;

/// Maximum width of a Job's bars; they are left out if names would become too narrow.
const MOST_BARS: u16 = 60;
const NARROWEST_NAME: u16 = 30;

/// Columns are dropped, the least important first, until a name has this width.
const LEAST_NAME: u16 = 20;

/// Columns by importance, the least important first: rate, age, active, done of all, failed, percent, state.
const LEAST_FIRST: [usize; 7] = [5, 6, 3, 1, 4, 2, 0];

/// Maximum width of the bars of all Jobs.
const ALL_BARS: u16 = 60;

pub(super) fn draw(model: &TopModel, pen: &mut Pen<'_>) {
    let jobs = &model.jobs;
    pen.line(1, &counts(jobs), Ink::Plain);
    let now = model.now.wall;
    let words = match jobs.rates.rate(now) {
        0.0 => "no Pods ended recently".to_owned(),
        ended => format!("Pods ended: {}", rate(ended)),
    };
    let end = pen.put(0, 2, &words, u16::MAX, Ink::Plain).max(LABEL * 2) + 2;
    let bars = pen.width().saturating_sub(end).min(ALL_BARS);
    let bars: Vec<f32> = jobs.rates.bars(usize::from(bars), now).collect();
    pen.bars(end, 2, &bars);
    let trouble = model.silence.as_ref().map(|it| silence(model, it));
    if let Some(words) = &trouble {
        pen.line(3, words, Ink::Warning);
    }
    let widths = Widths::of(pen.width());
    head(pen, widths);
    let layout = JobsLayout::of((pen.width(), pen.height()));
    if jobs.len() == 0 {
        let words = nothing(model, trouble);
        let lines = wrapped(&words, pen.width());
        for (y, line) in (layout.first..layout.first + layout.rows).zip(lines) {
            pen.line(y, &line, Ink::Plain);
        }
        return;
    }
    let rows = usize::from(layout.rows).max(1);
    let top = jobs.cursor() / rows * rows;
    for (at, (row, rates)) in jobs.rows(top, rows).enumerate() {
        let Ok(below) = u16::try_from(at) else { break };
        let is_chosen = top + at == jobs.cursor();
        self::row(
            pen,
            layout.first + below,
            row,
            rates,
            widths,
            now,
            is_chosen,
        );
    }
}

/// Returns why the table is empty.
fn nothing(model: &TopModel, trouble: Option<String>) -> String {
    match trouble {
        _ if model.jobs.is_known && model.jobs.counts().all > 0 => {
            "No Job matches the filters.".to_owned()
        }
        _ if model.jobs.is_known => "There are no Jobs.".to_owned(),
        Some(trouble) => trouble,
        None => "Reading the Jobs ...".to_owned(),
    }
}

fn counts(jobs: &JobTable) -> String {
    let counts = jobs.counts();
    let kinds = [
        (counts.unfinished, "unfinished"),
        (counts.suspended, "suspended"),
        (counts.failed, "Failed"),
        (counts.complete, "Complete"),
    ];
    let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
    let kinds: Vec<String> = kinds
        .map(|(count, kind)| format!("{count} {kind}"))
        .collect();
    let mut words = count(counts.all, "Job");
    if !kinds.is_empty() {
        words.push_str(&format!(": {}", kinds.join(", ")));
    }
    let order = if jobs.is_reversed { ", reversed" } else { "" };
    words.push_str(&format!(" | by {}{order}", jobs.order.as_str()));
    if jobs.state != StateFilter::All {
        words.push_str(&format!(" | {}", jobs.state.as_str()));
    }
    if let Some(namespace) = &jobs.namespace {
        words.push_str(&format!(" | namespace {namespace}"));
    }
    if !jobs.name.is_empty() {
        words.push_str(&format!(" | name /{}", jobs.name));
    }
    words
}

#[derive(Clone, Copy)]
struct Widths {
    name: u16,
    bars: u16,
    /// True for each column that is shown.
    shown: [bool; COLUMNS.len()],
}

impl Widths {
    fn of(width: u16) -> Self {
        let mut shown = [true; COLUMNS.len()];
        let rest = |shown: &[bool]| {
            let columns = COLUMNS.iter().zip(shown).filter(|(_, is_shown)| **is_shown);
            let fixed: u16 = columns.map(|(column, _)| column.width + 1).sum();
            width.checked_sub(MARK + fixed)
        };
        for column in LEAST_FIRST {
            if rest(&shown).is_some_and(|rest| rest >= LEAST_NAME) {
                break;
            }
            shown[column] = false;
        }
        let rest = rest(&shown).unwrap_or(0);
        let bars = rest.saturating_sub(NARROWEST_NAME + 2).min(MOST_BARS);
        let bars = if bars < LABEL { 0 } else { bars };
        let name = rest - if bars > 0 { bars + 2 } else { 0 };
        Self { name, bars, shown }
    }

    /// Pairs the columns that are shown with their items.
    fn columns<T>(self, each: [T; COLUMNS.len()]) -> impl Iterator<Item = (Column, T)> {
        let all = COLUMNS.into_iter().zip(each).zip(self.shown);
        all.filter_map(|(column, is_shown)| is_shown.then_some(column))
    }
}

fn head(pen: &mut Pen<'_>, widths: Widths) {
    pen.put(MARK, 4, "NAMESPACE/NAME", widths.name, Ink::Strong);
    let mut x = MARK + widths.name;
    for (column, title) in widths.columns(COLUMNS.map(|column| column.title)) {
        x = cell(pen, (x, 4), column, title, Ink::Strong);
    }
    if widths.bars > 0 {
        pen.put(x + 2, 4, "ENDED/S BY SECOND", widths.bars, Ink::Strong);
    }
}

/// Puts a cell of a column, after a space; returns its end.
fn cell(pen: &mut Pen<'_>, (x, y): (u16, u16), column: Column, text: &str, ink: Ink) -> u16 {
    let room = usize::from(column.width);
    let text = match column.has_numbers {
        true => format!(" {text:>room$}"),
        false => format!(" {text:<room$}"),
    };
    pen.put(x, y, &text, column.width + 1, ink);
    x + column.width + 1
}

fn row(
    pen: &mut Pen<'_>,
    y: u16,
    row: &JobRow,
    rates: Option<&RateHistory>,
    widths: Widths,
    now: Time,
    is_chosen: bool,
) {
    let plain = if is_chosen { Ink::Chosen } else { Ink::Plain };
    let inked = |ink: Ink| if is_chosen { Ink::Chosen } else { ink };
    if is_chosen {
        pen.line(
            y,
            &format!("> {:<width$}", "", width = usize::from(pen.width())),
            plain,
        );
    }
    pen.put(MARK, y, &row.key.to_string(), widths.name, plain);
    let rate = rates.map_or(0.0, |rates| rates.rate(now));
    let done = match row.completions {
        Some(all) => format!("{}/{}", short(row.succeeded), short(all)),
        None => short(row.succeeded),
    };
    let percent = row
        .percent()
        .map_or_else(String::new, |percent| percent.to_string());
    let age = row
        .created
        .map_or_else(String::new, |at| span(now.since(at)));
    let failed = if row.failed > 0 { Ink::Bad } else { Ink::Plain };
    let texts = [
        (state(row.standing).to_owned(), of_state(row.standing)),
        (done, Ink::Plain),
        (percent, Ink::Plain),
        (short(row.active), Ink::Plain),
        (short(row.failed), failed),
        (a_second(rate), Ink::Plain),
        (age, Ink::Plain),
    ];
    let mut x = MARK + widths.name;
    for (column, (text, ink)) in widths.columns(texts) {
        x = cell(pen, (x, y), column, &text, inked(ink));
    }
    if let Some(rates) = rates.filter(|_| widths.bars > 0) {
        let bars: Vec<f32> = rates.bars(usize::from(widths.bars), now).collect();
        pen.bars(x + 2, y, &bars);
    }
}

/// Formats a rate in a few characters; empty if nothing ends.
fn a_second(rate: f64) -> String {
    match rate {
        0.05..9.95 => format!("{rate:.1}"),
        9.95.. => format!("{rate:.0}"),
        _ => String::new(),
    }
}

fn state(standing: JobStanding) -> &'static str {
    match standing {
        JobStanding::New => "new",
        JobStanding::Running => "running",
        JobStanding::Suspended => "suspended",
        JobStanding::Ending => "ending",
        JobStanding::Deleting => "deleting",
        JobStanding::Complete => "Complete",
        JobStanding::Failed => "Failed",
    }
}

fn of_state(standing: JobStanding) -> Ink {
    match standing {
        JobStanding::Failed => Ink::Bad,
        JobStanding::Complete => Ink::Good,
        JobStanding::Running => Ink::Running,
        JobStanding::Suspended | JobStanding::New => Ink::Warning,
        JobStanding::Ending | JobStanding::Deleting => Ink::Plain,
    }
}
