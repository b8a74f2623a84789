//! Loads stage files, which define the lives of Pods on hollow nodes.
//!
//! Responsible for: finding the stages in files, and the location in errors. Must not: know their fields;
//! [`Stage::read`] does.

use std::{collections::BTreeSet, path::PathBuf};

use super::{Document, ManifestError, Source, load};
use crate::kubelet::{Stage, stages::FieldError};

/// Reads all stages of all files, in order.
///
/// # Errors
///
/// The first invalid file, object and field. A duplicate stage name and a file without a stage are errors too.
pub fn load_stages(paths: &[PathBuf]) -> Result<Vec<Stage>, ManifestError> {
    let sources: Vec<Source> = paths
        .iter()
        .map(|path| Source::read_file(path))
        .collect::<Result<_, _>>()?;
    read_stages(&sources)
}

/// Reads stages from texts.
///
/// # Errors
///
/// As for [`load_stages`].
pub fn read_stages(sources: &[Source]) -> Result<Vec<Stage>, ManifestError> {
    let mut stages = Vec::new();
    let mut names = BTreeSet::new();
    for source in sources {
        let documents = load(std::slice::from_ref(source))?;
        if documents.is_empty() {
            let name = source.name.clone();
            return Err(ManifestError::NoStage { name });
        }
        for document in &documents {
            let stage = Stage::read(&document.body).map_err(|error| misplaced(document, error))?;
            if !names.insert(stage.name().to_owned()) {
                let error = FieldError {
                    field: "metadata.name".to_owned(),
                    problem: "another stage has this name".to_owned(),
                };
                return Err(misplaced(document, error));
            }
            stages.push(stage);
        }
    }
    Ok(stages)
}

fn misplaced(document: &Document, error: FieldError) -> ManifestError {
    let Document {
        location,
        field_prefix,
        kind,
        name,
        ..
    } = document;
    ManifestError::BadField {
        location: location.clone(),
        field: format!("{kind} {name}: {field_prefix}{}", error.field),
        problem: error.problem,
    }
}
