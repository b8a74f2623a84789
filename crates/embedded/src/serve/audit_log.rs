//! Writes the audit log file.
//!
//! Responsible for: appending lines. Must not: know their content.

use std::{
    fs::File,
    io::{self, Write as _},
    path::Path,
};

use parking_lot::Mutex;

use super::private_file;
use crate::{
    apiserver::{Audited, Auditor, Request, User},
    model::Time,
};

/// An audit log shared by all requests.
#[derive(Debug)]
pub(super) struct AuditLog {
    auditor: Mutex<Auditor>,
    file: Mutex<File>,
}

impl AuditLog {
    /// Opens the file for appending, or creates it.
    pub(super) fn open(path: &Path, seed: u64) -> io::Result<Self> {
        let file = private_file::append(path)?;
        Ok(Self {
            auditor: Mutex::new(Auditor::new(seed)),
            file: Mutex::new(file),
        })
    }

    /// Records a request on arrival.
    pub(super) fn received(&self, request: Request<'_>, user: Option<&User>, now: Time) -> Audited {
        self.auditor.lock().received(request, user, now)
    }

    /// Appends the line of a request.
    pub(super) fn write(&self, mut line: String) {
        line.push('\n');
        if let Err(error) = self.file.lock().write_all(line.as_bytes()) {
            tracing::error!(%error, "could not write to the audit log");
        }
    }
}
