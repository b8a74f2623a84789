//! Prints the result of a command to standard output.
//!
//! Everything that a command prints goes through [`print()`] or [`put`]. If the reader has gone, the command ends
//! quietly, as SIGPIPE ends other programs: `main` turns the error into [`CLOSED_PIPE`]. Progress goes to standard
//! error, where nothing depends on a reader.

use std::io::{self, ErrorKind, Write as _};

/// The exit code after a closed pipe. A shell shows the same for a command that SIGPIPE has ended.
pub const CLOSED_PIPE: u8 = 128 + 13;

/// Standard output could not be written to.
#[derive(Debug, thiserror::Error)]
#[error("standard output: {0}")]
pub struct OutputError(io::Error);

impl OutputError {
    /// Returns true if the reader has gone, which is no error.
    pub fn is_closed_pipe(&self) -> bool {
        self.0.kind() == ErrorKind::BrokenPipe
    }
}

/// Prints a line of the result, or several.
pub fn print(text: &str) -> Result<(), OutputError> {
    put(format!("{text}\n").as_bytes())
}

/// Writes a part of the result as it is.
pub fn put(bytes: &[u8]) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(OutputError)
}

/// Writes progress, which is not part of the result, to standard error, if it is open.
pub fn say(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}

/// Writes an error to standard error, if it is open.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "lakh: {message}");
}
