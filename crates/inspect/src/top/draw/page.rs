//! Draws the screen of one Job: its state, its indexes, failures by cause, Events.
//!
//! Must not: change anything.

use lakh_model::Time;

use crate::{
    status::{StatusReport, print},
    top::{
        layout::{LABEL, PageLayout},
        model::{JobPage, TopModel},
        records::EventRow,
    },
    words::moment,
};

use super::{
    looks::Ink,
    map,
    pen::{Pen, wrapped},
    silence,
};

/// Maximum number of bars, one per second, beside the pace.
const MOST_BARS: u16 = 90;

pub(super) fn draw(model: &TopModel, page: &JobPage, pen: &mut Pen<'_>) {
    let layout = PageLayout::of((pen.width(), pen.height()));
    let time = page.time(model.now);
    notes(model, page, layout, pen);
    if let Some(report) = &page.report {
        pen.labelled(
            1,
            "Job",
            &format!("{}, {}", print::state(report), print::progress(report)),
            Ink::Strong,
        );
        pen.labelled(2, "Pods", &print::pods(report), Ink::Plain);
        failures(report, time, layout, pen);
    }
    pace(model, page, pen);
    match (&page.cells, page.job(), &page.report) {
        (Some(cells), ..) => map::draw(page, cells, layout, pen),
        (None, Some(job), report) => {
            let pending = report.as_ref().and_then(|report| report.pending);
            map::draw_bar(job, pending.unwrap_or(0), layout, pen);
        }
        _ => {}
    }
    events(page, time, layout, pen);
}

fn pace(model: &TopModel, page: &JobPage, pen: &mut Pen<'_>) {
    let words = page.report.as_ref().and_then(print::pace);
    let words = words.unwrap_or_else(|| "not known".to_owned());
    pen.labelled(3, "pace", &words, Ink::Plain);
    let Some(rates) = model.jobs.rates_of(&page.key) else {
        return;
    };
    let end = LABEL + u16::try_from(words.chars().count()).unwrap_or(u16::MAX - LABEL) + 2;
    let title = "ended/s ";
    let width = pen.width().saturating_sub(end);
    let room = width.saturating_sub(8).min(MOST_BARS);
    if room < LABEL {
        return;
    }
    let x = pen.put(end, 3, title, 8, Ink::Faint);
    let bars: Vec<f32> = rates.bars(usize::from(room), model.now.wall).collect();
    pen.bars(x, 3, &bars);
}

/// Draws the notes, the most important first.
fn notes(model: &TopModel, page: &JobPage, layout: PageLayout, pen: &mut Pen<'_>) {
    let mut notes = Vec::new();
    let mut note = |label, words, ink| notes.push(Note { label, words, ink });
    if page.is_gone {
        let words = "The Job is gone; this is what was seen last.".to_owned();
        note("", words, Ink::Warning);
    }
    if let Some(trouble) = &model.silence {
        note("", silence(model, trouble), Ink::Warning);
    }
    if let Some(error) = &page.failure {
        note("not seen", error.to_string(), Ink::Warning);
    } else if page.look.is_none() && !page.is_gone {
        let words = "Reading the Job and its Pods ...".to_owned();
        note("", words, Ink::Plain);
    }
    let waits = page.report.as_ref().and_then(|it| it.waits.as_ref());
    match (&page.why, waits) {
        (Some(why), _) => note("why", why.clone(), Ink::Plain),
        (None, Some(waits)) => note("waits", print::words_of_waits(waits), Ink::Plain),
        (None, None) => {}
    }
    for unseen in page.unseen() {
        note("not seen", unseen.to_string(), Ink::Warning);
    }
    put(notes, layout.notes, pen);
}

fn failures(report: &StatusReport, time: Time, layout: PageLayout, pen: &mut Pen<'_>) {
    let fits = usize::from(layout.failures.1);
    let causes = &report.causes;
    // The last line shows the number of the rest.
    let shown = if causes.len() > fits {
        fits.saturating_sub(1)
    } else {
        causes.len()
    };
    let mut notes: Vec<Note> = causes[..shown]
        .iter()
        .map(|cause| Note {
            label: "failure",
            words: print::failure(cause, time),
            ink: Ink::Bad,
        })
        .collect();
    let words = match causes.len() - shown {
        0 if causes.is_empty() => Some("no failed Pod is there".to_owned()),
        0 => None,
        more => Some(format!(
            "and {more} more causes: lakh status -o wide shows all"
        )),
    };
    notes.extend(words.map(|words| Note {
        label: "failure",
        words,
        ink: Ink::Plain,
    }));
    put(notes, layout.failures, pen);
}

fn events(page: &JobPage, time: Time, layout: PageLayout, pen: &mut Pen<'_>) {
    let events = page.events.newest(usize::from(layout.events.1));
    let mut notes: Vec<Note> = events
        .iter()
        .map(|event| Note {
            label: "event",
            words: words(event, time),
            ink: if event.is_warning {
                Ink::Warning
            } else {
                Ink::Plain
            },
        })
        .collect();
    if events.is_empty() && page.events.is_known {
        notes.push(Note {
            label: "event",
            words: "none about the Job".to_owned(),
            ink: Ink::Plain,
        });
    }
    put(notes, layout.events, pen);
}

fn words(event: &EventRow, time: Time) -> String {
    let mark = if event.is_warning { "! " } else { "" };
    let often = match event.count {
        0 | 1 => String::new(),
        count => format!(" ({count} times)"),
    };
    let at = moment(event.at, time);
    format!("{at} {mark}{}{often}: {}", event.reason, event.message)
}

/// A text with a label for its subject.
struct Note {
    label: &'static str,
    words: String,
    ink: Ink,
}

/// Puts notes into the given lines. Long notes are wrapped, but each later note keeps at least one line.
fn put(notes: Vec<Note>, (first, rows): (u16, u16), pen: &mut Pen<'_>) {
    let end = first + rows;
    let count = notes.len();
    let mut y = first;
    for (at, note) in notes.into_iter().enumerate() {
        let after = u16::try_from(count - at - 1).unwrap_or(u16::MAX);
        let room = end.saturating_sub(y).saturating_sub(after).max(1);
        let room = usize::from(room);
        let mut lines = wrapped(&note.words, pen.width().saturating_sub(LABEL));
        if lines.len() > room {
            let rest = lines.split_off(room - 1).join(" ");
            lines.push(rest);
        }
        let labels = [note.label].into_iter().chain(std::iter::repeat(""));
        for (line, label) in lines.iter().zip(labels) {
            if y >= end {
                return;
            }
            pen.labelled(y, label, line, note.ink);
            y += 1;
        }
    }
}
