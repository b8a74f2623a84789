//! Which Jobs a Pod event affects when the Pod's owner changes.
//!
//! Must not: hold records; it compares the Job that owned the Pod with the one that owns it now.

/// The change of a Pod's owner, by its controller reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage<J> {
    /// No Job owned it, and none does.
    Foreign,
    /// This Job owns it now.
    Comes(J),
    /// This Job still owns it.
    Stays(J),
    /// It moves from one Job to another.
    Moves {
        /// The Job that owned it.
        from: J,
        /// The Job that owns it.
        to: J,
    },
    /// This Job owned it, and no Job does now.
    Leaves(J),
}

impl<J: PartialEq> Passage<J> {
    /// Compares the Job that owned a Pod with the one that owns it.
    pub fn between(before: Option<J>, after: Option<J>) -> Self {
        match (before, after) {
            (None, None) => Self::Foreign,
            (None, Some(job)) => Self::Comes(job),
            (Some(job), Some(same)) if job == same => Self::Stays(job),
            (Some(from), Some(to)) => Self::Moves { from, to },
            (Some(job), None) => Self::Leaves(job),
        }
    }

    /// The Jobs that are affected.
    pub fn concerned(self) -> [Option<J>; 2] {
        match self {
            Self::Foreign => [None, None],
            Self::Comes(job) | Self::Stays(job) | Self::Leaves(job) => [Some(job), None],
            Self::Moves { from, to } => [Some(from), Some(to)],
        }
    }
}
