//! The file of the audit log.
//!
//! Responsible for: appending lines. Must not: know what is in them.

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

/// An audit log that many requests write.
#[derive(Debug)]
pub(super) struct AuditLog {
    auditor: Mutex<Auditor>,
    file: Mutex<File>,
}

impl AuditLog {
    /// Opens the file to append to it, or makes it.
    pub(super) fn open(path: &Path, seed: u64) -> io::Result<Self> {
        let file = private_file::append(path)?;
        Ok(Self {
            auditor: Mutex::new(Auditor::new(seed)),
            file: Mutex::new(file),
        })
    }

    /// Notes a request as it comes.
    pub(super) fn received(&self, request: Request<'_>, user: Option<&User>, now: Time) -> Audited {
        self.auditor.lock().received(request, user, now)
    }

    /// Writes a request's line.
    pub(super) fn write(&self, mut line: String) {
        line.push('\n');
        if let Err(error) = self.file.lock().write_all(line.as_bytes()) {
            tracing::error!(%error, "the audit log cannot be written");
        }
    }
}
