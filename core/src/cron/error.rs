//! Why a schedule cannot be read: the message of upstream, and where in the text it is wrong.

/// A schedule that cannot be read. Its words are upstream's, as the API server answers them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ScheduleError {
    message: String,
    part: &'static str,
    character: usize,
}

impl ScheduleError {
    /// What is wrong with `rest`, which is a piece of `text`: of its `part`, from there on.
    pub(super) fn new(part: &'static str, text: &str, rest: &str, message: String) -> Self {
        let offset = (rest.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        let before = text.get(..offset).unwrap_or_default();
        Self {
            message,
            part,
            character: before.chars().count() + 1,
        }
    }

    /// The part of the schedule that is wrong, such as `day of month`.
    pub fn part(&self) -> &'static str {
        self.part
    }

    /// Where it is wrong, counted in characters from 1.
    pub fn character(&self) -> usize {
        self.character
    }
}
