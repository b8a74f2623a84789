//! Draws bars on a terminal and redraws them in place: one line each, never longer than the terminal is wide.
//!
//! A terminal that becomes narrower wraps the lines that are there. So the length of each drawn line is kept, and the
//! cursor goes up by the number of rows that these lengths take now.
//!
//! Must not: know the meaning of the counts.

use std::io::Write as _;

use terminal_size::{Height, Width, terminal_size};

use crate::cli::words::cut;

/// The widest name, and the narrowest bar.
const NAME: usize = 31;
const NARROWEST: usize = 10;

/// A bar with its texts.
#[derive(Debug)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) done: u64,
    pub(super) all: u64,
    /// The most important first.
    pub(super) words: Vec<String>,
    pub(super) colour: BarColour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BarColour {
    Green,
    Yellow,
    Red,
}

/// A line in its parts: before the bar, the done part of the bar, the rest of it, and behind it.
#[derive(Debug, PartialEq, Eq)]
struct BarLine {
    before: String,
    done: String,
    rest: String,
    behind: String,
    colour: BarColour,
}

/// The bars on the terminal.
#[derive(Debug, Default)]
pub(super) struct Bars {
    /// The length of each line that was drawn.
    drawn: Vec<usize>,
    shown: String,
}

impl Bars {
    /// Draws the bars in the place of the previous ones, and hints below them. A terminal that is gone is no error.
    pub(super) fn draw(&mut self, bars: &[Bar], hints: &[String]) {
        // Default size for a terminal that reports none.
        let (Width(width), Height(height)) = terminal_size().unwrap_or((Width(80), Height(24)));
        let (width, height) = (usize::from(width).max(1), usize::from(height).max(2));
        let is_colourful = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        let lines = lines(bars, width);
        let hints = hints.iter().flat_map(|hint| wrapped(hint, width));
        let texts = lines
            .iter()
            .map(|line| (line.len(), line.text(is_colourful)));
        let texts = texts.chain(hints.map(|hint| (hint.chars().count(), hint)));
        let texts: Vec<(usize, String)> = texts.take(height - 1).collect();
        // The terminal cuts lines that are too long, and does not wrap them.
        let mut shown = "\x1b[?7l".to_owned();
        // The row is cleared first: after a text that fills it, the cursor stands on its last character.
        for (_, text) in &texts {
            shown.push_str("\x1b[2K");
            shown.push_str(text);
            shown.push('\n');
        }
        shown.push_str("\x1b[?7h\x1b[J");
        let up = rows(&self.drawn, width).min(height - 1);
        let is_same = shown == self.shown && up == self.drawn.len();
        if is_same {
            return;
        }
        let back = if up > 0 {
            format!("\x1b[{up}A\r")
        } else {
            String::new()
        };
        let _ = std::io::stderr().write_all(format!("{back}{shown}").as_bytes());
        self.drawn = texts.iter().map(|(length, _)| *length).collect();
        self.shown = shown;
    }
}

/// Counts the rows that lines of these lengths take.
fn rows(lengths: &[usize], width: usize) -> usize {
    lengths
        .iter()
        .map(|length| length.div_ceil(width).max(1))
        .sum()
}

/// Wraps a text between words.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(cut(word, width)),
        }
    }
    lines
}

fn lines(bars: &[Bar], width: usize) -> Vec<BarLine> {
    let counts = |bar: &Bar| format!("{}/{}", bar.done, bar.all);
    let longest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    // On a narrow terminal the bar and the counts matter more than the end of a name.
    let name = longest(&mut bars.iter().map(|bar| bar.name.chars().count()));
    let name = name.min(NAME).min((width / 3).max(1));
    let count = longest(&mut bars.iter().map(|bar| counts(bar).len()));
    let left = width.saturating_sub(name + count + 3);
    let words = bars
        .iter()
        .map(|bar| joined(&bar.words, left.saturating_sub(NARROWEST + 1)));
    let words: Vec<String> = words.collect();
    let behind = longest(&mut words.iter().map(|words| words.chars().count()));
    let room = left.saturating_sub(behind);
    bars.iter()
        .zip(words)
        .map(|(bar, words)| {
            let all = bar.all.max(1);
            let done = bar.done.min(all);
            let done = usize::try_from(done * room as u64 / all).unwrap_or(room);
            let behind = format!(" {:>count$} {words}", counts(bar));
            BarLine {
                before: format!("{:<name$} ", cut(&bar.name, name)),
                done: "\u{2501}".repeat(done),
                rest: "\u{2500}".repeat(room - done),
                behind: behind.trim_end().to_owned(),
                colour: bar.colour,
            }
        })
        .collect()
}

/// Joins as many of the words as fit; the first is cut if it alone is too long.
fn joined(words: &[String], room: usize) -> String {
    let mut line = String::new();
    for (at, words) in words.iter().enumerate() {
        let gap = if at == 0 { "" } else { ", " };
        let left = room.saturating_sub(line.chars().count() + gap.len());
        match words.chars().count() <= left {
            true => line.push_str(&format!("{gap}{words}")),
            // A part of the words is better than none.
            false if left >= NARROWEST || at == 0 => {
                line.push_str(&format!("{gap}{}", cut(words, left)));
                break;
            }
            false => break,
        }
    }
    line
}

impl BarLine {
    fn len(&self) -> usize {
        let parts = [&self.before, &self.done, &self.rest, &self.behind];
        parts.iter().map(|part| part.chars().count()).sum()
    }

    fn text(&self, is_colourful: bool) -> String {
        let Self {
            before,
            done,
            rest,
            behind,
            colour,
        } = self;
        let colour = match colour {
            BarColour::Green => 32,
            BarColour::Yellow => 33,
            BarColour::Red => 31,
        };
        match is_colourful {
            true => format!("{before}\x1b[{colour}m{done}\x1b[0m\x1b[2m{rest}\x1b[0m{behind}"),
            false => format!("{before}{done}{rest}{behind}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, done: u64, all: u64, words: &[&str]) -> Bar {
        Bar {
            name: name.to_owned(),
            done,
            all,
            words: words.iter().map(|it| (*it).to_owned()).collect(),
            colour: BarColour::Green,
        }
    }

    fn drawn(bars: &[Bar], width: usize) -> Vec<String> {
        let lines = lines(bars, width);
        lines.iter().map(|line| line.text(false)).collect()
    }

    const WORDS: [&str; 4] = ["3 failed", "12 active", "25 s left", "4 Pods/s"];

    #[test]
    fn each_job_has_a_bar_and_a_line_at_every_width() {
        let bars = [
            bar("default/backoff-limit-per-index", 50, 100, &WORDS),
            bar(
                "ml/j",
                100_000,
                100_000,
                &["0 failed", "0 active", "9 Pods/s"],
            ),
            bar(
                "ml/k",
                0,
                7,
                &["no Pod can be made: pods \"k-0\" is forbidden: exceeded quota"],
            ),
        ];
        for width in 40..250 {
            for line in drawn(&bars, width) {
                assert!(line.chars().count() <= width, "{width}: {line}");
                let bar = line
                    .chars()
                    .filter(|it| "\u{2501}\u{2500}".contains(*it))
                    .count();
                let least = if width >= 60 { NARROWEST } else { 1 };
                assert!(bar >= least, "{width}: {line}");
            }
        }
        assert_eq!(
            drawn(&bars, 80),
            [
                "default/backoff-limit-per… ━━━━━──────        50/100 3 failed, 12 active",
                "ml/j                       ━━━━━━━━━━━ 100000/100000 0 failed, 0 active",
                "ml/k                       ───────────           0/7 no Pod can be made: pods \"…",
            ]
        );
    }

    #[test]
    fn as_many_words_are_said_as_there_is_room_for() {
        let words = WORDS.map(str::to_owned);
        for (room, said) in [
            (60, "3 failed, 12 active, 25 s left, 4 Pods/s"),
            (31, "3 failed, 12 active, 25 s left"),
            (20, "3 failed, 12 active"),
            (9, "3 failed"),
            (4, "3 f…"),
        ] {
            assert_eq!(joined(&words, room), said);
        }
    }

    #[test]
    fn a_terminal_that_became_narrower_has_more_rows() {
        assert_eq!(rows(&[80, 79, 0], 80), 3);
        assert_eq!(rows(&[80, 79, 0], 60), 5);
        assert_eq!(rows(&[], 60), 0);
    }
}
