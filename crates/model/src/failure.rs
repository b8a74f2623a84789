//! Stores the facts about a Pod's failure that policies evaluate.
//!
//! Only Pods that failed or are about to end have them, apart from their records: most Pods of a Job never need them.

use compact_str::CompactString;

/// Facts about a Pod's failure and its index's earlier failures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureFacts {
    /// Containers with a nonzero exit code, then such init containers, each in the order of the Pod's status.
    pub containers: Vec<FailedContainer>,
    /// The Pod's conditions in order: type and status.
    pub conditions: Vec<(CompactString, CompactString)>,
    /// The earlier failures of its index, from the Pod's annotations.
    pub counts: FailureCounts,
}

/// A container that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedContainer {
    /// Its name.
    pub name: CompactString,
    /// Its exit code; never 0.
    pub exit_code: i32,
}

/// The number of earlier failures of an index, as annotated on its Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureCounts {
    /// Failures that count.
    pub counted: u32,
    /// Failures that a policy ignores.
    pub ignored: u32,
}

impl FailureCounts {
    /// The sum of both.
    pub const fn total(self) -> u32 {
        self.counted.saturating_add(self.ignored)
    }

    /// Returns these counts plus one failure.
    #[must_use]
    pub const fn and_one(self, ignored: bool) -> Self {
        let (more_counted, more_ignored) = if ignored { (0, 1) } else { (1, 0) };
        Self {
            counted: self.counted.saturating_add(more_counted),
            ignored: self.ignored.saturating_add(more_ignored),
        }
    }
}
