//! What is known of a Pod's failure: the evidence that policies look at.
//!
//! Kept only for Pods that ended badly or are about to end, apart from their records: most Pods
//! of a Job never need it.

use compact_str::CompactString;

/// How a Pod failed, and what came before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureFacts {
    /// Containers that exited with a code other than 0, then such init containers, each in the
    /// order of the Pod's status.
    pub containers: Vec<FailedContainer>,
    /// The Pod's conditions in their order: type and status.
    pub conditions: Vec<(CompactString, CompactString)>,
    /// The earlier failures of its index, by the Pod's annotations.
    pub counts: FailureCounts,
}

/// A container that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedContainer {
    /// Its name.
    pub name: CompactString,
    /// What it exited with; never 0.
    pub exit_code: i32,
}

/// How often an index failed before, as annotated on its Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureCounts {
    /// Failures that count.
    pub counted: u32,
    /// Failures that a policy ignores.
    pub ignored: u32,
}

impl FailureCounts {
    /// All of them.
    pub const fn total(self) -> u32 {
        self.counted.saturating_add(self.ignored)
    }

    /// These and one more.
    #[must_use]
    pub const fn and_one(self, ignored: bool) -> Self {
        let (more_counted, more_ignored) = if ignored { (0, 1) } else { (1, 0) };
        Self {
            counted: self.counted.saturating_add(more_counted),
            ignored: self.ignored.saturating_add(more_ignored),
        }
    }
}
