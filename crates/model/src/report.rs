//! Models the content of an Event.

/// The type, reason and message of an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "EventRecorder")]
pub struct Report {
    /// The type of the Event.
    pub severity: Severity,
    /// One word.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

impl Report {
    /// An expected occurrence.
    pub fn normal(reason: &str, message: &str) -> Self {
        Self {
            severity: Severity::Normal,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// An occurrence that may need attention.
    pub fn warning(reason: &str, message: &str) -> Self {
        Self {
            severity: Severity::Warning,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// The type of an Event, in the words of the Events API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// An expected occurrence.
    Normal,
    /// May need attention.
    Warning,
}
