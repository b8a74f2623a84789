//! Defines the reason why a Job makes no progress: a stable cause, a description, and a remedy.

use serde::Serialize;

/// A reason, as printed by `lakh why`. Programs may rely on the cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Reason {
    /// A stable identifier; docs/status.md lists all.
    pub(super) cause: &'static str,
    /// The situation, in a sentence.
    pub(super) what: String,
    /// The remedy, in a sentence.
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

    /// True if the Job makes progress as it should.
    pub(super) fn is_progress(&self) -> bool {
        self.cause == "running" && self.remedy.is_empty()
    }
}
