//! Collected field errors and the 422 they become.
//!
//! Responsible for: the form of the whole answer. Must not: check anything; `field` has the forms of single errors.

use serde_json::json;

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

    /// Adds an error whose text is already complete.
    pub(super) fn push(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.0.push((path.into(), text.into()));
    }

    /// Takes over the errors of another collection.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Nothing, or the 422.
    pub(crate) fn check(self, kind: Kind, name: &str) -> Result<(), ApiError> {
        let mut texts: Vec<String> = Vec::new();
        let mut causes = Vec::new();
        for (path, text) in &self.0 {
            causes.push(json!({"reason": cause_reason(text), "message": text, "field": path}));
            // The message names an error once; the causes repeat it.
            let text = format!("{path}: {text}");
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [] => return Ok(()),
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let mut details = object_details(kind, name, kind.info().name);
        details["causes"] = causes.into();
        let message = format!("{} {name:?} is invalid: {list}", kind.qualified_name());
        Err(ApiError::new(422, "Invalid", message).with_details(details))
    }
}
