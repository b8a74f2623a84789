//! Reads manifests from files, folders and standard input, as texts with names.
//!
//! Responsible for: finding the files of a folder, and decoding their bytes as kubectl does. Must not: parse the text.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use super::ManifestError;

/// A text that holds manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name in messages: the path as given.
    pub name: String,
    /// The text itself, YAML or JSON.
    pub text: String,
}

impl Source {
    /// Creates a source from a text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
        }
    }

    /// Creates a source from the bytes of standard input, for the path `-`.
    ///
    /// # Errors
    ///
    /// If the bytes are not text.
    pub fn stdin(bytes: &[u8]) -> Result<Self, ManifestError> {
        Self::decode("standard input".to_owned(), bytes)
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is not text.
    pub fn read_file(path: &Path) -> Result<Self, ManifestError> {
        let name = path.display().to_string();
        match fs::read(path) {
            Ok(bytes) => Self::decode(name, &bytes),
            Err(source) => Err(ManifestError::Unreadable { name, source }),
        }
    }

    /// Reads a file, or the manifests of a folder in the order of their names. These are the files that end in `.yaml`,
    /// `.yml` or `.json`; with `recursive` also those of all folders below. Links to folders are not followed.
    ///
    /// # Errors
    ///
    /// If a file or folder cannot be read, a file is not text, or a folder has no such file.
    pub fn read_path(path: &Path, recursive: bool) -> Result<Vec<Self>, ManifestError> {
        if !path.is_dir() {
            return Ok(vec![Self::read_file(path)?]);
        }
        let mut files = Vec::new();
        list_folder(path, recursive, &mut files)?;
        if files.is_empty() {
            let name = path.display().to_string();
            return Err(ManifestError::EmptyFolder { name });
        }
        files.iter().map(|file| Self::read_file(file)).collect()
    }

    /// Decodes UTF-8, or UTF-16 if the bytes begin with its byte order mark, as shells on Windows write it.
    fn decode(name: String, bytes: &[u8]) -> Result<Self, ManifestError> {
        let utf_16 = match bytes {
            [0xff, 0xfe, rest @ ..] => Some(from_utf_16(rest, u16::from_le_bytes)),
            [0xfe, 0xff, rest @ ..] => Some(from_utf_16(rest, u16::from_be_bytes)),
            _ => None,
        };
        let problem = match utf_16 {
            Some(Some(text)) => return Ok(Self { name, text }),
            Some(None) => "begins as UTF-16 and becomes invalid".to_owned(),
            None => match std::str::from_utf8(bytes) {
                Ok(text) => return Ok(Self::new(name, text)),
                Err(error) => format!("byte {} is not UTF-8", error.valid_up_to() + 1),
            },
        };
        Err(ManifestError::NotText { name, problem })
    }
}

fn from_utf_16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().copied().map(unit).collect();
    String::from_utf16(&units).ok().filter(|_| rest.is_empty())
}

fn list_folder(
    folder: &Path,
    recursive: bool,
    files: &mut Vec<PathBuf>,
) -> Result<(), ManifestError> {
    let unreadable = |source: io::Error| ManifestError::Unreadable {
        name: folder.display().to_string(),
        source,
    };
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut entries: Vec<fs::DirEntry> = entries.collect::<Result<_, _>>().map_err(unreadable)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let is_folder = entry.file_type().map_err(unreadable)?.is_dir();
        let extension = path.extension().and_then(OsStr::to_str);
        if is_folder && recursive {
            list_folder(&path, recursive, files)?;
        } else if !is_folder && extension.is_some_and(|it| EXTENSIONS.contains(&it)) {
            files.push(path);
        }
    }
    Ok(())
}

/// Extensions of manifests in a folder; the same as kubectl's.
pub(super) const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];
