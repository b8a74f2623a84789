//! Detects the terminal's capabilities, takes the terminal, and restores it on every way out.
//!
//! Must not: know the content of the screen.

use std::{
    env,
    io::{self, BufWriter, IsTerminal as _, Stdout, stdin, stdout},
    panic, thread,
};

use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        event::{self, Event, KeyEventKind},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};
use tokio::sync::mpsc::Sender;

use crate::Problem;

use super::{
    draw::{self, Looks},
    model::{TopInput, TopModel},
};

/// Kinds of terminal without colours; so are all with `-m` or `-mono` at the end.
const WITHOUT_COLOUR: [&str; 6] = ["vt100", "vt102", "vt220", "vt320", "ansi-m", "screen-bce-m"];

/// About the size of a frame at 200x60 in bytes: it goes out in one write.
const FRAME: usize = 64 * 1024;

/// Returns an error if there is no terminal, or one that cannot be drawn on.
pub(super) fn check() -> Result<(), Problem> {
    if !stdout().is_terminal() || !stdin().is_terminal() {
        let words = "top needs a terminal for input and output; without one, use `lakh status JOB` or \
                     `kubectl get jobs --watch`";
        return Err(words.into());
    }
    match env::var("TERM").as_deref() {
        Err(_) | Ok("" | "dumb") => {
            Err("top needs a terminal with cursor control: TERM is dumb or not set".into())
        }
        Ok(_) => Ok(()),
    }
}

/// Returns true if the terminal has colours and they are not turned off.
pub(super) fn has_colour() -> bool {
    let is_refused = env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    !is_refused && can_colour(&env::var("TERM").unwrap_or_default())
}

fn can_colour(term: &str) -> bool {
    !WITHOUT_COLOUR.contains(&term) && !term.ends_with("-m") && !term.ends_with("-mono")
}

/// Returns true if the locale is of UTF-8. The first of these variables that is set decides, as in locale(7).
pub(super) fn has_utf8() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let mut set = set.filter_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    is_utf8(&set.next().unwrap_or_default())
}

fn is_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// The terminal while it is in use. It is restored on drop.
pub(super) struct TopScreen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    looks: Looks,
}

impl TopScreen {
    /// Takes the terminal: the alternate screen, and raw mode.
    pub(super) fn enter(looks: Looks) -> io::Result<Self> {
        // The message of a panic must not be lost with the alternate screen.
        let say = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            say(info);
        }));
        enable_raw_mode()?;
        let mut out = BufWriter::with_capacity(FRAME, stdout());
        let taken = execute!(out, EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(out)));
        let terminal = taken.inspect_err(|_| give_back())?;
        Ok(Self { terminal, looks })
    }

    /// Returns its size.
    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }

    /// Draws the model; only changes are written.
    pub(super) fn draw(&mut self, model: &TopModel) -> io::Result<()> {
        let looks = self.looks;
        let draw = |frame: &mut ratatui::Frame<'_>| draw::draw(model, looks, frame.buffer_mut());
        self.terminal.draw(draw).map(|_| ())
    }

    /// Makes the next frame rewrite everything, whatever is on the terminal now.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }
}

impl Drop for TopScreen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal. One that is gone needs nothing.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Sends keys and sizes, until the receiver is gone. It has a thread of its own, because reading a terminal blocks.
pub(super) fn listen(listener: Sender<TopInput>) {
    thread::spawn(move || {
        loop {
            let input = match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => TopInput::Key(key),
                Ok(Event::Resize(width, height)) => TopInput::Resized(width, height),
                Ok(_) => continue,
                Err(error) => TopInput::TerminalGone(error),
            };
            let is_gone = matches!(input, TopInput::TerminalGone(_));
            if listener.blocking_send(input).is_err() || is_gone {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_features_follow_from_its_name_and_the_locale() {
        for (term, colour) in [
            ("xterm-256color", true),
            ("screen", true),
            ("linux", true),
            ("vt100", false),
            ("linux-m", false),
            ("xterm-mono", false),
        ] {
            assert_eq!(can_colour(term), colour, "{term}");
        }
        for (locale, utf8) in [
            ("C.UTF-8", true),
            ("de_DE.utf8", true),
            ("C", false),
            ("", false),
        ] {
            assert_eq!(is_utf8(locale), utf8, "{locale}");
        }
    }
}
