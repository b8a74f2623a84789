//! Where the log goes, in which form, and how much of it.
//!
//! Must not: log anything.

use std::io::{IsTerminal as _, stderr};

use clap::ValueEnum;
use tracing_subscriber::{EnvFilter, fmt};

/// The form of a log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people; coloured on a terminal.
    #[default]
    Text,
    /// An object a line, for programs.
    Json,
}

/// How much is logged if nothing is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usual {
    /// Warnings: progress is shown otherwise.
    Warnings,
    /// What an operator wants to know of a process in the background.
    News,
    /// The terminal is drawn on: there, nothing is logged. A file gets warnings.
    Screen,
}

/// Logs go to standard error: what is usual, more with each `-v`, or what `RUST_LOG` says.
pub(super) fn start(verbose: u8, usual: Usual, format: LogFormat) {
    if usual == Usual::Screen && stderr().is_terminal() {
        return;
    }
    let level = match verbose.saturating_add(u8::from(usual == Usual::News)) {
        0 => "warn",
        1 => "warn,lakh=info",
        _ => "info,lakh=debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let is_colourful =
        stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let lines = fmt()
        .with_env_filter(filter)
        // Else it panics if standard error is on a full disk, together with the task that logs.
        .log_internal_errors(false)
        .with_ansi(is_colourful)
        .with_writer(stderr);
    match format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
