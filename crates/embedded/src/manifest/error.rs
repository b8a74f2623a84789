//! Defines the errors of a manifest.
//!
//! Responsible for: naming the file, the document and the line. Must not: be retried; the same text gives the same
//! error.

use std::{fmt, io};

/// Location of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// The name of the source.
    pub source: String,
    /// The document within the source, from 1; empty documents do not count.
    pub document: usize,
    /// The line within the source, from 1.
    pub line: usize,
    /// The column within the line, from 1, if known.
    pub column: Option<usize>,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: document {}, line {}",
            self.source, self.document, self.line
        )?;
        match self.column {
            Some(column) => write!(f, ", column {column}"),
            None => Ok(()),
        }
    }
}

/// Reason that a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file cannot be read.
    #[error("{name}: {source}")]
    Unreadable {
        /// The path as it was given.
        name: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file is neither UTF-8 nor UTF-16 with a byte order mark.
    #[error("{name}: must be text in UTF-8, or in UTF-16 with a byte order mark, but {problem}")]
    NotText {
        /// The path as it was given.
        name: String,
        /// The first invalid part.
        problem: String,
    },
    /// A folder contains no manifest.
    #[error("{name}: the folder has no .json, .yaml or .yml file")]
    EmptyFolder {
        /// The path as it was given.
        name: String,
    },
    /// A stage file contains no stage.
    #[error("{name}: no Stage found")]
    NoStage {
        /// The name of the source.
        name: String,
    },
    /// A document is not YAML, or a mapping has a key twice.
    #[error("{location}: {message}")]
    NotYaml {
        /// Position of the error.
        location: SourceLocation,
        /// The parser's message.
        message: String,
    },
    /// A document is not an object.
    #[error("{location}: must be an object with apiVersion, kind and metadata, but is {found}")]
    NotAnObject {
        /// Start of the document.
        location: SourceLocation,
        /// The type found instead.
        found: &'static str,
    },
    /// A field that every object needs is missing or has the wrong type.
    #[error("{location}: {field}: {problem}")]
    BadField {
        /// Start of the document.
        location: SourceLocation,
        /// The path of the field.
        field: String,
        /// Why it is invalid.
        problem: String,
    },
}
