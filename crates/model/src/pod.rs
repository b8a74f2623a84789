//! Stores a Pod as a small record of fixed size: only the fields that decisions need.
//!
//! Must not: hold the Pod's object, or anything whose size depends on the Pod's spec.

use std::fmt;

use compact_str::CompactString;

use super::{FailureFacts, Time, Uid, api_text::api_text};

/// A Pod's phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    /// Accepted, not all containers started. Also any phase that lakh does not know.
    #[default]
    Pending,
    /// At least one container runs or will be restarted.
    Running,
    /// The node does not respond.
    Unknown,
    /// All containers exited with 0 and will not restart.
    Succeeded,
    /// All containers ended, at least one with a failure.
    Failed,
}

api_text!(PodPhase {
    Pending = "Pending",
    Running = "Running",
    Unknown = "Unknown",
    Succeeded = "Succeeded",
    Failed = "Failed",
} else Pending);

impl PodPhase {
    /// Returns true if the Pod has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Boolean facts about a Pod, as a bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodFlags(u8);

impl PodFlags {
    /// The Pod carries this controller's tracking finalizer.
    pub const FINALIZER: Self = Self(1);
    /// The Pod has a deletionTimestamp.
    pub const DELETING: Self = Self(1 << 1);
    /// The Pod's condition Ready is True.
    pub const READY: Self = Self(1 << 2);
    /// The Pod is assigned to a node.
    pub const ASSIGNED: Self = Self(1 << 3);

    /// Returns true if all flags of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Sets or clears the flags of `other`.
    pub const fn set(&mut self, other: Self, value: bool) {
        if value {
            self.0 |= other.0;
        } else {
            self.0 &= !other.0;
        }
    }

    /// Returns these flags with those of `other` set or cleared by `value`.
    #[must_use]
    pub const fn with(mut self, other: Self, value: bool) -> Self {
        self.set(other, value);
        self
    }
}

/// A Pod's name in short form: the Job's name is cut off where the Pod's name starts with it.
///
/// No object's name starts with `-`, so a stored text that does is such a remainder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodName(CompactString);

impl PodName {
    /// Stores `name` of a Pod that belongs to the Job named `job`.
    pub fn new(job: &str, name: &str) -> Self {
        match name.strip_prefix(job) {
            Some(rest) if rest.starts_with('-') => Self(CompactString::new(rest)),
            _ => Self(CompactString::new(name)),
        }
    }

    /// Returns the whole name. `job` must be the one passed to [`PodName::new`].
    pub fn full(&self, job: &str) -> CompactString {
        if self.0.starts_with('-') {
            let mut name = CompactString::with_capacity(job.len() + self.0.len());
            name.push_str(job);
            name.push_str(&self.0);
            name
        } else {
            self.0.clone()
        }
    }

    /// The end of the name, long enough to contain the suffix.
    pub fn tail(&self) -> &str {
        &self.0
    }
}

/// The stored facts about one Pod. Times are whole seconds since the Unix epoch, 0 when unset: the API's own
/// resolution, in four bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRecord {
    /// The Pod's UID.
    pub uid: Uid,
    /// Its name, relative to the Job's name.
    pub name: PodName,
    /// The resourceVersion that this record was read from.
    pub resource_version: u64,
    /// Its completion index, if the annotation is a whole number.
    pub index: Option<CompactIndex>,
    /// Restarts of all containers, summed.
    pub restarts: u32,
    /// When it was created.
    pub created: u32,
    /// The last transition of its Ready condition.
    pub ready_since: u32,
    /// When it ended, by the best evidence available; upstream's `getFinishedTime`.
    pub finished: u32,
    /// The highest restart count of a container.
    pub restarts_max: u16,
    /// The highest restart count of a sidecar (restartable init container).
    pub sidecar_restarts_max: u16,
    /// Its phase.
    pub phase: PodPhase,
    /// Boolean facts.
    pub flags: PodFlags,
    /// Facts about its failure, once it has failed or is about to end.
    pub failure: Option<Box<FailureFacts>>,
}

/// Memory budget: 100,000 records take 9 MB.
const _: () = assert!(size_of::<PodRecord>() <= 88, "a Pod's record has grown");

impl PodRecord {
    /// Returns true if a flag is set.
    pub const fn has(&self, flag: PodFlags) -> bool {
        self.flags.has(flag)
    }

    /// Returns true if the Pod has neither ended nor is being deleted.
    pub const fn is_active(&self) -> bool {
        !self.phase.is_terminal() && !self.has(PodFlags::DELETING)
    }

    /// Returns true if the Pod is being deleted and has not ended.
    pub const fn is_terminating(&self) -> bool {
        !self.phase.is_terminal() && self.has(PodFlags::DELETING)
    }

    /// Returns true if the Pod is active and has condition Ready.
    pub const fn is_ready(&self) -> bool {
        self.is_active() && self.has(PodFlags::READY)
    }

    /// When the Pod ended; the epoch if that is unknown.
    pub const fn finished_at(&self) -> Time {
        Time::from_secs(self.finished as i64)
    }
}

/// A completion index as annotated on a Pod: at most `i32::MAX`, in four bytes with a niche for `None`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CompactIndex(std::num::NonZeroU32);

impl fmt::Debug for CompactIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

impl CompactIndex {
    /// Stores an index. Returns `None` above `i32::MAX`, which no completion index exceeds.
    pub fn new(index: u32) -> Option<Self> {
        if index > i32::MAX as u32 {
            return None;
        }
        std::num::NonZeroU32::new(index + 1).map(Self)
    }

    /// The index.
    pub const fn get(self) -> u32 {
        self.0.get() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_relative_to_its_jobs() {
        let name = PodName::new("train", "train-7-bcdfg");
        assert_eq!(name.tail(), "-7-bcdfg");
        assert_eq!(name.full("train"), "train-7-bcdfg");
        for other in ["trainer-7-bcdfg", "adopted", "train"] {
            assert_eq!(PodName::new("train", other).full("train"), other);
        }
    }
}
