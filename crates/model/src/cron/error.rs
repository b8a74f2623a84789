//! Describes why a schedule cannot be parsed: upstream's message, and the position in the text.

/// A schedule that cannot be parsed. The message is upstream's, as the API server returns it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ScheduleError {
    message: String,
    part: &'static str,
    character: usize,
}

impl ScheduleError {
    /// An error in the given `part` of a schedule. `rest` is the slice of `text` that begins at the error.
    pub(super) fn new(part: &'static str, text: &str, rest: &str, message: String) -> Self {
        let offset = (rest.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        let before = text.get(..offset).unwrap_or_default();
        Self {
            message,
            part,
            character: before.chars().count() + 1,
        }
    }

    /// The erroneous part of the schedule, such as `day of month`.
    pub fn part(&self) -> &'static str {
        self.part
    }

    /// The position of the error, in characters from 1.
    pub fn character(&self) -> usize {
        self.character
    }
}
