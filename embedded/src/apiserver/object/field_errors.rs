//! Collected field errors and the 422 they become.
//!
//! Responsible for: the form of the whole answer. Must not: check anything; `field` has the forms of single errors.

use serde_json::{Value, json};

use super::{
    error::{ApiError, cause_reason, object_details},
    kind::Kind,
};

/// Errors about fields, in check order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "ErrorList")]
pub(crate) struct FieldErrors(Vec<(String, String)>);

impl FieldErrors {
    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is wrong.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an error whose text is already complete.
    pub(super) fn push(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.0.push((path.into(), text.into()));
    }

    /// Takes over the errors of another collection.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The errors as `path: text`.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|(path, text)| format!("{path}: {text}"))
            .collect()
    }

    /// Nothing, or the 422.
    pub(crate) fn check(self, kind: Kind, name: &str) -> Result<(), ApiError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(self.into_error(kind, name))
        }
    }

    fn into_error(self, kind: Kind, name: &str) -> ApiError {
        let mut texts: Vec<String> = Vec::new();
        for text in self.texts() {
            // The message names an error once; the causes below repeat it.
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let causes: Vec<Value> = self
            .0
            .iter()
            .map(|(path, text)| {
                json!({"reason": cause_reason(text), "message": text, "field": path})
            })
            .collect();
        let mut details = object_details(kind, name, kind.info().name);
        details["causes"] = causes.into();
        let message = format!("{} {name:?} is invalid: {list}", kind.qualified_name());
        ApiError::new(422, "Invalid", message).with_details(details)
    }
}
