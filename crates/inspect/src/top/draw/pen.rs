//! Puts text on a buffer: within its bounds, without control characters, and cut where it does not fit.
//!
//! Must not: know the meaning of texts.

use ratatui::{buffer::Buffer, layout::Rect, text::Span};

use crate::{top::layout::LABEL, words::harmless};

use super::looks::{Ink, Looks};

/// Writer on a buffer. No call writes outside of the buffer's area.
pub(super) struct Pen<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    pub(super) looks: Looks,
}

impl<'a> Pen<'a> {
    pub(super) fn new(buffer: &'a mut Buffer, looks: Looks) -> Self {
        let area = buffer.area;
        Self {
            buffer,
            area,
            looks,
        }
    }

    pub(super) fn width(&self) -> u16 {
        self.area.width
    }

    pub(super) fn height(&self) -> u16 {
        self.area.height
    }

    /// Puts a text at a position, at most `width` wide; returns its end.
    pub(super) fn put(&mut self, x: u16, y: u16, text: &str, width: u16, ink: Ink) -> u16 {
        let room = self.width().saturating_sub(x).min(width);
        if y >= self.height() || room == 0 {
            return x;
        }
        let text = self.plain(text);
        let is_too_long = Span::raw(&text).width() > usize::from(room);
        let fits = room - u16::from(is_too_long);
        let (left, top) = (self.area.x, self.area.y + y);
        let style = ink.style(self.looks);
        let at = (left + x, top);
        let (mut end, _) = self
            .buffer
            .set_stringn(at.0, at.1, text, usize::from(fits), style);
        if is_too_long {
            let cut = self.looks.cut();
            self.buffer[(end, top)].set_char(cut).set_style(style);
            end += 1;
        }
        end - left
    }

    /// Puts one character at a position.
    pub(super) fn dot(&mut self, x: u16, y: u16, letter: char, ink: Ink, is_chosen: bool) {
        if x >= self.width() || y >= self.height() {
            return;
        }
        let mut style = ink.style(self.looks);
        if is_chosen {
            style = style.patch(Ink::Chosen.style(self.looks));
        }
        self.buffer[(self.area.x + x, self.area.y + y)]
            .set_char(letter)
            .set_style(style);
    }

    /// Puts a text at the start of a line.
    pub(super) fn line(&mut self, y: u16, text: &str, ink: Ink) {
        self.put(0, y, text, u16::MAX, ink);
    }

    /// Puts a line with a label.
    pub(super) fn labelled(&mut self, y: u16, label: &str, text: &str, ink: Ink) {
        self.put(0, y, label, LABEL, Ink::Faint);
        self.put(LABEL, y, text, u16::MAX, ink);
    }

    /// Puts a bar over the whole width, with words at both ends.
    pub(super) fn bar(&mut self, y: u16, left: &str, right: &str) {
        let width = self.width();
        let right_width = u16::try_from(right.chars().count()).unwrap_or(width);
        let room = width.saturating_sub(right_width);
        self.put(0, y, &" ".repeat(usize::from(width)), width, Ink::Chosen);
        self.put(0, y, left, room.saturating_sub(1), Ink::Chosen);
        self.put(room, y, right, right_width, Ink::Chosen);
    }

    /// Puts bars with heights relative to the highest.
    pub(super) fn bars(&mut self, x: u16, y: u16, heights: &[f32]) {
        let highest = heights.iter().copied().fold(0.0, f32::max);
        for (x, height) in (x..).zip(heights) {
            let bar = self.looks.bar(*height, highest);
            self.dot(x, y, bar, Ink::Running, false);
        }
    }

    /// Returns the text without characters that the terminal must not get.
    fn plain(&self, text: &str) -> String {
        let text = harmless(text).replace('\n', " ");
        match self.looks.is_ascii {
            true => text.replace(|letter: char| !letter.is_ascii(), "?"),
            false => text,
        }
    }
}

/// Wraps a text between words.
pub(super) fn wrapped(text: &str, width: u16) -> Vec<String> {
    let width = usize::from(width.max(1));
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Formats a number with commas between thousands.
pub(super) fn number(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number in at most five characters.
pub(super) fn short(number: u32) -> String {
    let thousands = f64::from(number) / 1e3;
    match number {
        ..10_000 => number.to_string(),
        // Rounded down: a part must not look like the whole.
        10_000..100_000 => format!("{:.1}k", (thousands * 10.0).floor() / 10.0),
        100_000..1_000_000 => format!("{:.0}k", thousands.floor()),
        1_000_000..10_000_000 => format!("{:.2}M", (thousands / 10.0).floor() / 100.0),
        10_000_000..100_000_000 => format!("{:.1}M", (thousands / 100.0).floor() / 10.0),
        _ => format!("{:.0}M", (thousands / 1e3).floor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_and_are_never_rounded_up() {
        for (number, text) in [
            (0, "0"),
            (9_999, "9999"),
            (45_678, "45.6k"),
            (99_999, "99.9k"),
            (123_456, "123k"),
            (999_999, "999k"),
            (1_000_000, "1.00M"),
            (12_345_678, "12.3M"),
            (u32::MAX, "4294M"),
        ] {
            assert_eq!(short(number), text);
        }
        assert_eq!(
            [7, 1_000, 1_234_567].map(super::number),
            ["7", "1,000", "1,234,567"]
        );
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("verylongword", 4), ["verylongword"]);
        assert!(wrapped("", 4).is_empty());
    }

    #[test]
    fn control_characters_are_dropped_and_long_text_is_cut() {
        let looks = Looks {
            is_ascii: false,
            has_colour: false,
        };
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 1));
        let mut pen = Pen::new(&mut buffer, looks);
        pen.line(0, "a\x1b[2Jb\ncdefghi", Ink::Plain);
        pen.line(1, "beyond", Ink::Plain);
        pen.put(9, 0, "beyond", 5, Ink::Plain);
        let text: String = buffer.content().iter().map(|cell| cell.symbol()).collect();
        assert_eq!(text, "a\u{fffd}[2Jb …");
    }
}
