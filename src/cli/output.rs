//! Prints the result of a command to standard output, and formats objects for programs.
//!
//! Everything that a command prints goes through [`print()`] or [`put`]. If the reader has gone, the command ends
//! quietly, as SIGPIPE ends other programs: `main` turns the error into [`CLOSED_PIPE`]. Progress goes to standard
//! error, where nothing depends on a reader.

use std::io::{self, ErrorKind, Write as _};

use serde::Serialize;

/// The exit code after a closed pipe. A shell shows the same for a command that SIGPIPE has ended.
pub(super) const CLOSED_PIPE: u8 = 128 + 13;

/// Standard output could not be written to.
#[derive(Debug, thiserror::Error)]
#[error("standard output: {0}")]
pub(super) struct OutputError(io::Error);

impl OutputError {
    /// Returns true if the reader has gone, which is no error.
    pub(super) fn is_closed_pipe(&self) -> bool {
        self.0.kind() == ErrorKind::BrokenPipe
    }
}

/// Prints a line of the result, or several.
pub(super) fn print(text: &str) -> Result<(), OutputError> {
    put(format!("{text}\n").as_bytes())
}

/// Writes a part of the result as it is.
pub(super) fn put(bytes: &[u8]) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(OutputError)
}

/// Writes progress, which is not part of the result, to standard error, if it is open.
#[cfg(feature = "embedded")]
pub(super) fn say(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}

/// Writes an error to standard error, if it is open.
pub(super) fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "lakh: {message}");
}

/// Formats an object as JSON on several lines.
pub(super) fn json(object: &impl Serialize) -> String {
    serde_json::to_string_pretty(object).expect("text, numbers and lists are JSON")
}

/// Formats an object as JSON on one line.
pub(super) fn json_line(object: &impl Serialize) -> String {
    serde_json::to_string(object).expect("text, numbers and lists are JSON")
}

/// Formats an object as YAML.
pub(super) fn yaml(object: &impl Serialize) -> String {
    let text = serde_saphyr::to_string(object).expect("text, numbers and lists are YAML");
    text.trim_end().to_owned()
}
