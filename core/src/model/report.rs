//! What is recorded as an Event.

/// The type, reason and message of an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "EventRecorder")]
pub struct Report {
    /// How bad it is.
    pub severity: Severity,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

impl Report {
    /// Something that was to be expected.
    pub fn normal(reason: &str, message: &str) -> Self {
        Self {
            severity: Severity::Normal,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// Something that somebody may have to look at.
    pub fn warning(reason: &str, message: &str) -> Self {
        Self {
            severity: Severity::Warning,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// How bad a [`Report`] is; the words are those of the Events API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// To be expected.
    Normal,
    /// To be looked at.
    Warning,
}
