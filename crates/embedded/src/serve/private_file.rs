//! Creates and opens files that only their owner may read: objects with their Secrets, tokens, the audit log.
//!
//! Responsible for: creating, replacing and opening such files. Must not: know their content.
//!
//! Another user with access to the folder may have put a link or a file at the path. So a new file is created under an
//! unpredictable name and then renamed, which follows no link. An existing file is opened only if it is a regular file
//! that this user owns and no other user may read or write.

use std::{
    fs::{DirBuilder, File, Metadata, OpenOptions},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use rustix::{fs::OFlags, io::Errno, process::geteuid};
use tempfile::NamedTempFile;

/// Mode of such a file: its owner may read and write.
const MODE: u32 = 0o600;
/// Mode bits that must be clear: access by group and others.
const OTHERS: u32 = 0o077;

/// Creates a folder and its missing parents.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Creates a temporary file in the folder of `path`; it is deleted on drop unless it is persisted.
pub(super) fn draft(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let draft = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
    draft.map_err(without_path)
}

/// Removes the temporary path, which `tempfile` adds to the error and which means nothing to a user.
fn without_path(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::Other => error,
        kind => kind.into(),
    }
}

/// Replaces the file at the path atomically.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = draft(path)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Opens a file for appending, or creates it.
pub(super) fn append(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    match open(path, options.append(true)) {
        // A file or link created in between is not followed either.
        Err(error) if error.kind() == ErrorKind::NotFound => File::options()
            .append(true)
            .create_new(true)
            .mode(MODE)
            .open(path),
        opened => opened,
    }
}

/// Opens an existing file.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Without NONBLOCK, opening a pipe would block until its other end is opened.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = flags.bits().cast_signed();
    let file = options.custom_flags(flags).open(path);
    let file = file.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => refused("it is a symbolic link, which is not followed"),
        _ => error,
    })?;
    check(&file.metadata()?)?;
    Ok(file)
}

fn check(found: &Metadata) -> io::Result<()> {
    if !found.is_file() {
        return Err(refused("it is not a regular file"));
    }
    if found.uid() != geteuid().as_raw() {
        return Err(refused("it belongs to another user"));
    }
    if found.mode() & OTHERS != 0 {
        let mode = found.mode() & 0o777;
        return Err(refused(&format!(
            "others may read or write it (its mode is {mode:o}); make it yours alone (chmod 600) or name \
             another file"
        )));
    }
    Ok(())
}

fn refused(why: &str) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why)
}
