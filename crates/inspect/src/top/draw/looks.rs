//! Chooses characters, in Unicode or ASCII, and styles, with colours or without.
//!
//! Must not: know positions on the screen.

use ratatui::style::{Color, Modifier, Style};

use crate::top::model::{CellState, MapCell};

/// Capabilities of the terminal.
#[derive(Clone, Copy, Debug)]
pub(in crate::top) struct Looks {
    pub(in crate::top) is_ascii: bool,
    pub(in crate::top) has_colour: bool,
}

/// Purpose of a text, which determines its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    /// Text that one reads once.
    Faint,
    Strong,
    Good,
    Bad,
    Warning,
    Running,
    Pending,
    /// The row or cell of the cursor, and bars.
    Chosen,
}

impl Ink {
    /// Returns the style, in the sixteen colours that each colour terminal has and users can configure.
    pub(super) fn style(self, looks: Looks) -> Style {
        let style = match self {
            Self::Strong | Self::Bad => Style::new().add_modifier(Modifier::BOLD),
            Self::Chosen => Style::new().add_modifier(Modifier::REVERSED),
            // A grey may be the colour of the background.
            Self::Faint => Style::new().add_modifier(Modifier::DIM),
            _ => Style::new(),
        };
        let colour = match self {
            Self::Good => Color::Green,
            Self::Bad => Color::Red,
            Self::Warning => Color::Yellow,
            Self::Running => Color::Cyan,
            Self::Pending => Color::Blue,
            Self::Plain | Self::Faint | Self::Strong | Self::Chosen => return style,
        };
        match looks.has_colour {
            true => style.fg(colour),
            false => style,
        }
    }
}

/// Heights of a bar, from low to full.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_BARS: [char; 8] = ['.', ':', '-', '=', '+', '*', '%', '#'];

/// Characters for a cell that has partly succeeded, by eighths. Digits are shares of failures.
const ASCII_PARTS: [char; 7] = ['_', '_', '_', '=', '=', '=', '='];

/// From this share of failures on, in percent, a cell counts as failed.
const MOST: u64 = 50;

/// Below this share, in percent, failures get a hint only: where some fail everywhere, the map shows where more do.
const FEW: u64 = 10;

impl Looks {
    /// Returns character and ink of a state, or of a waiting index.
    pub(super) fn of_state(self, state: Option<CellState>) -> (char, Ink) {
        let (unicode, ascii, ink) = match state {
            Some(CellState::Succeeded) => ('█', '#', Ink::Good),
            Some(CellState::Failed) => ('X', 'X', Ink::Bad),
            Some(CellState::Retry) => ('!', '!', Ink::Warning),
            Some(CellState::Running) => ('▒', 'o', Ink::Running),
            Some(CellState::Pending) => ('░', '-', Ink::Pending),
            None => ('·', '.', Ink::Faint),
        };
        (if self.is_ascii { ascii } else { unicode }, ink)
    }

    /// Returns the character for a few failures among many indexes.
    pub(super) fn few(self) -> (char, Ink) {
        (if self.is_ascii { ':' } else { '▓' }, Ink::Warning)
    }

    /// Returns the character for a cell. Failures are shown by their share: a hint, a digit for tens of percent, the
    /// state itself.
    pub(super) fn of_cell(self, cell: &MapCell) -> (char, Ink) {
        let (failed, retry) = (cell.count(CellState::Failed), cell.count(CellState::Retry));
        let state = match failed >= retry {
            true => CellState::Failed,
            false => CellState::Retry,
        };
        let percent = u64::from(failed + retry) * 100 / u64::from(cell.all.max(1));
        match percent {
            _ if failed + retry == 0 => {}
            MOST.. => return self.of_state(Some(state)),
            FEW.. => {
                let digit = u32::try_from(percent / 10).unwrap_or(9);
                let (_, ink) = self.of_state(Some(state));
                return (char::from_digit(digit, 10).unwrap_or('9'), ink);
            }
            _ => return self.few(),
        }
        let succeeded = cell.count(CellState::Succeeded);
        if succeeded > 0 && succeeded < cell.all {
            let part = u64::from(succeeded - 1) * 7 / u64::from(cell.all - 1).max(1);
            let part = usize::try_from(part).unwrap_or(0).min(6);
            let parts = if self.is_ascii {
                ASCII_PARTS[part]
            } else {
                BARS[part]
            };
            return (parts, Ink::Good);
        }
        let states = [CellState::Succeeded, CellState::Running, CellState::Pending];
        let mut states = states.into_iter();
        self.of_state(states.find(|state| cell.count(*state) > 0))
    }

    /// Returns the character for a bar of this height, relative to the highest.
    pub(super) fn bar(self, height: f32, highest: f32) -> char {
        if height <= 0.0 || highest <= 0.0 {
            return ' ';
        }
        let step = (height / highest * 8.0).ceil().clamp(1.0, 8.0);
        let bars = if self.is_ascii { ASCII_BARS } else { BARS };
        bars[step as usize - 1]
    }

    /// Returns the character that marks a cut text.
    pub(super) fn cut(self) -> char {
        if self.is_ascii { '~' } else { '…' }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::model::CellSets;
    use lakh_model::IndexSet;

    const PLAIN: Looks = Looks {
        is_ascii: false,
        has_colour: false,
    };

    #[test]
    fn states_differ_without_colour() {
        let states = CellState::ALL.map(Some).into_iter().chain([None]);
        for looks in [
            PLAIN,
            Looks {
                is_ascii: true,
                ..PLAIN
            },
        ] {
            let mut seen: Vec<char> = states
                .clone()
                .map(|state| looks.of_state(state).0)
                .collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), 6, "{seen:?}");
        }
        for ink in [
            Ink::Good,
            Ink::Bad,
            Ink::Warning,
            Ink::Running,
            Ink::Faint,
            Ink::Pending,
        ] {
            assert_eq!(ink.style(PLAIN).fg, None, "{ink:?}");
        }
    }

    #[test]
    fn a_cell_shows_how_much_of_it_has_succeeded_and_how_much_failed() {
        let sets = |succeeded: &str, failed: &str| {
            CellSets::with(
                100,
                IndexSet::parse(succeeded, 100),
                IndexSet::parse(failed, 100),
            )
        };
        for (succeeded, failed, shown) in [
            ("", "", '·'),
            ("5", "", '▁'),
            ("0-49", "", '▄'),
            ("0-98", "", '▇'),
            ("0-99", "", '█'),
            ("0-98", "99", '▓'),
            ("0-90", "91-99", '▓'),
            ("0-89", "90-99", '1'),
            ("0-50", "51-99", '4'),
            ("", "10-19", '1'),
            ("0-49", "50-99", 'X'),
            ("", "0-99", 'X'),
        ] {
            let cell = sets(succeeded, failed).cell(0..100);
            assert_eq!(PLAIN.of_cell(&cell).0, shown, "{succeeded} {failed}");
        }
    }

    #[test]
    fn the_lowest_bar_is_seen() {
        assert_eq!(PLAIN.bar(0.01, 1_000.0), '▁');
        assert_eq!(PLAIN.bar(1_000.0, 1_000.0), '█');
        assert_eq!(PLAIN.bar(0.0, 0.0), ' ');
    }
}
