//! Why a Job does not go on: a cause in a word that programs may rely on, what is so, and what to do.

use serde::Serialize;

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Reason {
    /// It stays as it is; docs/status.md lists all.
    pub(super) cause: &'static str,
    /// What is so, in a sentence.
    pub(super) what: String,
    /// What to do, in a sentence.
    pub(super) remedy: String,
}

impl Reason {
    pub(super) fn new(
        cause: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            cause,
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// True if the Job goes on as it should.
    pub(super) fn is_progress(&self) -> bool {
        self.cause == "running" && self.remedy.is_empty()
    }
}
