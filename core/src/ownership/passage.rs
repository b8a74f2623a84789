//! What a Pod's news mean for where its record lies, and which Jobs they concern.
//!
//! Must not: hold records; it compares the Job that was known with the one that is told.

/// From whose Pods to whose a Pod goes, by its controller reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage<J> {
    /// No Job had it and none has it.
    Foreign,
    /// It is new to this Job.
    Comes(J),
    /// It was this Job's and still is.
    Stays(J),
    /// It goes from one Job to another.
    Moves {
        /// Whose it was.
        from: J,
        /// Whose it is.
        to: J,
    },
    /// It was this Job's and is no Job's now.
    Leaves(J),
}

impl<J: PartialEq> Passage<J> {
    /// Compares whose a Pod was with whose it is.
    pub fn between(known: Option<J>, told: Option<J>) -> Self {
        match (known, told) {
            (None, None) => Self::Foreign,
            (None, Some(job)) => Self::Comes(job),
            (Some(job), Some(same)) if job == same => Self::Stays(job),
            (Some(from), Some(to)) => Self::Moves { from, to },
            (Some(job), None) => Self::Leaves(job),
        }
    }

    /// The Jobs that have something new to look at.
    pub fn concerned(self) -> [Option<J>; 2] {
        match self {
            Self::Foreign => [None, None],
            Self::Comes(job) | Self::Stays(job) | Self::Leaves(job) => [Some(job), None],
            Self::Moves { from, to } => [Some(from), Some(to)],
        }
    }
}
