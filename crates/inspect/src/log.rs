//! Sets up the log: its destination, its format and its level.
//!
//! Must not: log anything.

use std::{
    env,
    fmt::{self as text, Debug, Write as _},
    io::{IsTerminal as _, stderr},
};

use clap::ValueEnum;
use tracing::field::Field;
use tracing_subscriber::{
    field::MakeExt as _,
    filter::Targets,
    fmt::{
        FormatFields,
        format::{Writer, debug_fn},
        layer,
    },
    layer::SubscriberExt as _,
    registry,
    util::SubscriberInitExt as _,
};

/// Formats of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text, with colours on a terminal.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Default log level of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usual {
    /// Warnings: progress is shown otherwise.
    Warnings,
    /// Events that an operator wants to know of a process in the background.
    News,
    /// For a command that draws on the terminal: nothing is logged there. A file gets warnings.
    Screen,
}

/// Logs to standard error: at the usual level, more with each `-v`, or as `RUST_LOG` says.
pub fn start(verbose: u8, usual: Usual, format: LogFormat) {
    if usual == Usual::Screen && stderr().is_terminal() {
        return;
    }
    let level = match verbose.saturating_add(u8::from(usual == Usual::News)) {
        0 => "warn",
        1 => "warn,lakh=info",
        _ => "info,lakh=debug",
    };
    let asked = env::var("RUST_LOG").ok();
    let asked = asked.and_then(|filter| filter.parse::<Targets>().ok());
    let filter = asked.unwrap_or_else(|| level.parse().expect("a good filter"));
    let is_colourful =
        stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let lines = layer()
        // Otherwise a full disk behind standard error makes the logging task panic.
        .log_internal_errors(false)
        .with_ansi(is_colourful)
        .with_writer(stderr);
    let start = registry().with(filter);
    match format {
        LogFormat::Text => start.with(lines.fmt_fields(escaped_fields())).init(),
        LogFormat::Json => start.with(lines.json().flatten_event(true)).init(),
    }
}

/// Writes the message and the fields of a line so that no value can end the line or control a terminal: error messages
/// come from servers, webhooks and policies, which tenants may write.
fn escaped_fields() -> impl for<'w> FormatFields<'w> + Send + Sync + 'static {
    let write = |writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        if field.name() != "message" {
            match writer.has_ansi_escapes() {
                true => write!(writer, "\u{1b}[3m{field}\u{1b}[0m\u{1b}[2m=\u{1b}[0m")?,
                false => write!(writer, "{field}=")?,
            }
        }
        write!(Escaping(writer), "{value:?}")
    };
    debug_fn(write).delimited(" ")
}

/// Escapes characters that end a line, control a terminal or reorder text.
struct Escaping<'a, 'w>(&'a mut Writer<'w>);

impl text::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> text::Result {
        for part in text.split_inclusive(needs_escape) {
            match part.chars().next_back().filter(|last| needs_escape(*last)) {
                Some(last) => {
                    self.0.write_str(&part[..part.len() - last.len_utf8()])?;
                    write!(self.0, "{}", last.escape_debug())?;
                }
                None => self.0.write_str(part)?,
            }
        }
        Ok(())
    }
}

fn needs_escape(letter: char) -> bool {
    let separates_lines = matches!(letter, '\u{2028}' | '\u{2029}');
    let reorders = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || separates_lines || reorders
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use parking_lot::Mutex;
    use tracing::subscriber::with_default;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_value_forges_a_line_or_drives_the_terminal() {
        for has_ansi in [false, true] {
            let lines = Lines::default();
            let writer = lines.clone();
            let log = layer()
                .with_ansi(has_ansi)
                .with_writer(move || writer.clone())
                .fmt_fields(escaped_fields());
            with_default(registry().with(log), || {
                let forged =
                    "no\n2026-11-28T00:00:00Z  INFO lakh: forged\u{1b}[2J\r\u{85}\u{202e}x";
                tracing::warn!(kind = "jobs", error = %forged, "refused: {forged}");
            });
            let text = String::from_utf8(lines.0.lock().clone()).expect("text");
            assert_eq!(text.matches('\n').count(), 1, "{text}");
            assert!(!text.contains("\u{1b}[2J"), "{text}");
            assert!(!text.contains(['\r', '\u{85}', '\u{202e}']), "{text}");
            assert!(text.contains(r"refused: no\n2026-11-28"), "{text}");
            if !has_ansi {
                assert!(text.contains(r#" kind="jobs" error=no\n2026"#), "{text}");
            }
        }
    }
}
