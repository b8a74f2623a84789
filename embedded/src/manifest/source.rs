//! Where manifests come from.
//!
//! Responsible for: a text and the name it goes by in messages. Must not: look into the text.

use std::{fs, path::Path};

use super::ManifestError;

/// A text that holds manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What messages call it: the path as it was given.
    pub name: String,
    /// The text itself, YAML or JSON.
    pub text: String,
}

impl Source {
    /// A source from a text that is already there.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
        }
    }

    /// What was read from standard input, where `-` was given as the path.
    pub fn stdin(text: impl Into<String>) -> Self {
        Self::new("standard input", text)
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is not UTF-8.
    pub fn read_file(path: &Path) -> Result<Self, ManifestError> {
        let name = path.display().to_string();
        match fs::read_to_string(path) {
            Ok(text) => Ok(Self { name, text }),
            Err(source) => Err(ManifestError::Unreadable { name, source }),
        }
    }
}
