//! Files that only their owner may read: objects with their Secrets, tokens, the audit log.
//!
//! Responsible for: creating them, replacing others by them, and opening existing ones. Must not: know what is in them.
//!
//! Somebody else with access to the folder may have put a link or a file at the path. So a new file is created under
//! an unpredictable name and then renamed, which follows no link; an existing file is opened only if it is a regular
//! file that belongs to this user and that nobody else may read or write.

use std::{
    fs::{DirBuilder, File, Metadata, OpenOptions},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use rustix::{fs::OFlags, io::Errno, process::geteuid};
use tempfile::NamedTempFile;

/// What the owner may do with such a file.
const MODE: u32 = 0o600;
/// What others may do with it; nothing.
const OTHERS: u32 = 0o077;

/// Makes a folder, and those above it, unless they are there.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A file without its name yet, beside where it is to be; one that is dropped is gone.
pub(super) fn draft(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let draft = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
    draft.map_err(without_path)
}

/// The error without the path of the draft, which `tempfile` adds and which means nothing to a user.
fn without_path(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::Other => error,
        kind => kind.into(),
    }
}

/// Puts a file with this content under a name, whatever was there: whole, or not at all.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = draft(path)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Opens a file to append to it, or makes it.
pub(super) fn append(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    match open(path, options.append(true)) {
        // Whoever makes it in between is not followed either.
        Err(error) if error.kind() == ErrorKind::NotFound => File::options()
            .append(true)
            .create_new(true)
            .mode(MODE)
            .open(path),
        opened => opened,
    }
}

/// Opens a file that is there.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Without the second flag, who opens a pipe would wait for its reader.
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
        return Err(refused("it is no plain file"));
    }
    if found.uid() != geteuid().as_raw() {
        return Err(refused("it is somebody else's"));
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
