//! Draws the model on a screen: characters and styles in a buffer, and nothing else.
//!
//! States have distinct characters; colours only help. Any size works. Must not: change anything, send requests, or
//! read a clock.

mod help;
mod jobs;
mod looks;
mod map;
mod page;
mod pen;

use ratatui::buffer::Buffer;

use crate::{connect::RENEW, words::moment};

pub(super) use looks::Looks;

use super::model::{JobScope, NoNews, Prompt, TopModel};
use looks::Ink;
use pen::Pen;

/// Help lines for the keys on the screen of all Jobs, and on that of one.
const JOBS_KEYS: &str = "Enter open  / name  n namespace  s state  o sort  a all  ? help  q quit";
const PAGE_KEYS: &str =
    "Esc back  arrows move  + - zoom  0 all  x next failure  i index  ? help  q quit";

/// Draws a whole screen.
pub(super) fn draw(model: &TopModel, looks: Looks, buffer: &mut Buffer) {
    let mut pen = Pen::new(buffer, looks);
    title(model, &mut pen);
    match &model.page {
        _ if model.shows_help => help::draw(&mut pen),
        Some(page) => page::draw(model, page, &mut pen),
        None => jobs::draw(model, &mut pen),
    }
    let last = pen.height().saturating_sub(1);
    let (words, ink) = match &model.prompt {
        Some(Prompt::Name(text)) => (
            format!("Jobs with this in NAMESPACE/NAME: {text}_"),
            Ink::Strong,
        ),
        Some(Prompt::Index(text)) => (format!("go to index: {text}_"), Ink::Strong),
        None if model.shows_help => ("any key: back".to_owned(), Ink::Faint),
        None if model.page.is_some() => (PAGE_KEYS.to_owned(), Ink::Faint),
        None => (JOBS_KEYS.to_owned(), Ink::Faint),
    };
    pen.line(last, &words, ink);
}

fn title(model: &TopModel, pen: &mut Pen<'_>) {
    let time = model
        .page
        .as_ref()
        .map_or(model.now.wall, |page| page.time(model.now));
    let clock = moment(time, time);
    let clock = format!("{} UTC", clock.get(..5).unwrap_or_default());
    let what = match (&model.page, model.scope) {
        (Some(page), _) => page.key.to_string(),
        (None, JobScope::All) => "all namespaces".to_owned(),
        (None, JobScope::Home) => format!("namespace {}", model.home),
    };
    pen.bar(
        0,
        &format!(" lakh top  {what}  {}", model.server),
        &format!("{clock} "),
    );
}

/// Describes why there is no news of Jobs.
fn silence(model: &TopModel, silence: &NoNews) -> String {
    let time = moment(silence.since, model.now.wall);
    let error = &silence.error;
    let words = error.message.split_once(" is forbidden: ");
    let words = words.map_or(error.message.as_str(), |(_, words)| words);
    match error.code {
        _ if silence.is_late => {
            format!("! Jobs are updated late, because you may not watch them: {words}")
        }
        0 => format!("! no update since {time}; retrying: {words}"),
        403 if model.scope == JobScope::All => {
            format!(
                "! you may not list the Jobs of all namespaces (a: only {}): {words}",
                model.home
            )
        }
        401 => format!("! no update since {time}: {words}: {RENEW}"),
        403 => format!(
            "! you may not list the Jobs of namespace {}: {words}",
            model.home
        ),
        _ => format!("! no update since {time}: {words}"),
    }
}
