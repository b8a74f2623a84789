//! Handles keys. The keyboard alone reaches every function.
//!
//! Must not: draw anything.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::top::layout::{JobsLayout, PageLayout};

use super::{JobScope, Prompt, TopModel, cells::MapFrame, page::JobPage};

/// Maximum number of characters in a prompt.
const LONGEST_PROMPT: usize = 60;

impl TopModel {
    pub(super) fn press(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c' | 'd') => self.is_over = true,
                KeyCode::Char('l') => self.is_spoilt = true,
                _ => {}
            }
            return;
        }
        if let Some(prompt) = self.prompt.take() {
            self.type_in(prompt, key.code);
            return;
        }
        if std::mem::take(&mut self.shows_help) {
            self.is_over = key.code == KeyCode::Char('q');
            return;
        }
        match key.code {
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.shows_help = true,
            code if self.page.is_some() => self.press_on_page(code),
            code => self.press_on_jobs(code),
        }
    }

    fn press_on_jobs(&mut self, code: KeyCode) {
        let page = isize::try_from(JobsLayout::of(self.size).rows)
            .unwrap_or(1)
            .max(1);
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.jobs.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.jobs.step(1),
            KeyCode::PageUp => self.jobs.step(-page),
            KeyCode::PageDown | KeyCode::Char(' ') => self.jobs.step(page),
            KeyCode::Home | KeyCode::Char('g') => self.jobs.step(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.jobs.step(isize::MAX),
            KeyCode::Enter | KeyCode::Right => {
                // Keeps the Job selected for the way back.
                self.jobs.step(0);
                self.open();
            }
            KeyCode::Char('o') => self.jobs.next_order(),
            KeyCode::Char('r') => self.jobs.reverse(),
            KeyCode::Char('s') => self.jobs.next_state(),
            KeyCode::Char('n') => self.jobs.next_namespace(),
            KeyCode::Char('/') => self.prompt = Some(Prompt::Name(self.jobs.name.clone())),
            KeyCode::Char('a') => self.change_scope(),
            KeyCode::Esc => self.jobs.set_name(String::new()),
            _ => {}
        }
    }

    fn change_scope(&mut self) {
        self.scope = match self.scope {
            JobScope::All => JobScope::Home,
            JobScope::Home => JobScope::All,
        };
        self.feeds += 1;
        self.jobs.forget();
        self.silence = None;
    }

    fn press_on_page(&mut self, code: KeyCode) {
        let size = PageLayout::of(self.size).map_size();
        let Some(page) = &mut self.page else {
            return;
        };
        match code {
            KeyCode::Esc | KeyCode::Backspace => self.page = None,
            KeyCode::Char('i') => self.prompt = Some(Prompt::Index(String::new())),
            code => page.press(code, size),
        }
    }

    /// Handles a key while a prompt is open.
    fn type_in(&mut self, prompt: Prompt, code: KeyCode) {
        let (Prompt::Name(text) | Prompt::Index(text)) = &prompt;
        let mut text = text.clone();
        match code {
            KeyCode::Esc => {
                if matches!(prompt, Prompt::Name(_)) {
                    self.jobs.set_name(String::new());
                }
                return;
            }
            KeyCode::Enter => {
                if let (Prompt::Index(_), Some(page)) = (&prompt, &mut self.page) {
                    page.go_to(text.parse().ok());
                }
                return;
            }
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char(letter) if text.len() < LONGEST_PROMPT => text.push(letter),
            _ => {}
        }
        self.prompt = Some(match prompt {
            Prompt::Name(_) => {
                // Applied while the user types.
                self.jobs.set_name(text.clone());
                Prompt::Name(text)
            }
            Prompt::Index(_) => Prompt::Index(text),
        });
    }
}

impl JobPage {
    fn press(&mut self, code: KeyCode, size: (u16, u16)) {
        let Some(completions) = self.completions() else {
            return;
        };
        let frame = MapFrame::of(completions, size, self.zoom, self.cursor);
        let (cell, row) = (frame.per_cell, frame.in_row());
        let screen = row.saturating_mul(frame.rows);
        let last = completions.saturating_sub(1);
        let ahead = |by: u32| Some(self.cursor.saturating_add(by).min(last));
        let back = |by: u32| Some(self.cursor.saturating_sub(by));
        let to = match code {
            KeyCode::Left => back(cell),
            KeyCode::Right => ahead(cell),
            KeyCode::Up | KeyCode::Char('k') => back(row),
            KeyCode::Down | KeyCode::Char('j') => ahead(row),
            KeyCode::PageUp => back(screen),
            KeyCode::PageDown | KeyCode::Char(' ') => ahead(screen),
            KeyCode::Home | KeyCode::Char('g') => Some(0),
            KeyCode::End | KeyCode::Char('G') => Some(last),
            KeyCode::Char('x' | 'X') => {
                let cells = self.cells.as_ref();
                cells.and_then(|cells| cells.next_trouble(self.cursor, code == KeyCode::Char('x')))
            }
            KeyCode::Char('+' | '=' | 'z') => {
                // The nearest zoom has one index per cell.
                self.zoom = frame.zoom + 1;
                None
            }
            KeyCode::Char('-' | 'Z') => {
                self.zoom = frame.zoom.saturating_sub(1);
                None
            }
            KeyCode::Char('0') => {
                self.zoom = 0;
                None
            }
            _ => None,
        };
        self.go_to(to);
    }

    /// Selects an index of the map.
    fn go_to(&mut self, index: Option<u32>) {
        let last = self.completions().unwrap_or(0).saturating_sub(1);
        self.cursor = index.unwrap_or(self.cursor).min(last);
    }
}
