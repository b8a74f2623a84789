//! Collects field errors and turns them into a 422.
//!
//! Responsible for: the form of the whole response. Must not: validate anything; `field` has the forms of single
//! errors.

use super::{
    error::{ApiError, object_details},
    kind::Kind,
};

/// Errors about fields, in check order: paths and complete texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "ErrorList")]
pub(crate) struct FieldErrors(pub(super) Vec<(String, String)>);

impl FieldErrors {
    /// Appends the errors of another collection.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns the 422 if there is an error.
    pub(crate) fn check(self, kind: Kind, name: &str) -> Result<(), ApiError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let what = format!("{} {name:?}", kind.qualified_name());
        let details = object_details(kind, name, kind.info().name);
        let errors = self.0.iter().map(|(path, text)| (&**path, &**text));
        Err(ApiError::invalid(&what, details, errors))
    }
}
