//! What lakh keeps of a Pod: a small record of fixed size with only what decisions need.
//!
//! Must not: hold the Pod's object, or anything whose size depends on the Pod's spec.

use std::fmt;

use compact_str::CompactString;

use super::{FailureFacts, Time, Uid};

/// Where a Pod is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    /// Accepted, not all containers started; also any phase that is none of the others.
    #[default]
    Pending,
    /// At least one container runs or will be restarted.
    Running,
    /// The node does not answer.
    Unknown,
    /// All containers ended with 0 and stay so.
    Succeeded,
    /// All containers ended, at least one with a failure.
    Failed,
}

impl PodPhase {
    /// Reads the API's word.
    pub fn of(word: &str) -> Self {
        match word {
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            "Unknown" => Self::Unknown,
            _ => Self::Pending,
        }
    }

    /// The API's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Unknown => "Unknown",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// Whether the Pod has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Yes-or-no facts about a Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodFlags(u8);

impl PodFlags {
    /// It carries this controller's tracking finalizer.
    pub const FINALIZER: Self = Self(1);
    /// It has a deletionTimestamp.
    pub const DELETING: Self = Self(1 << 1);
    /// Its condition Ready is True.
    pub const READY: Self = Self(1 << 2);
    /// It is assigned to a node.
    pub const ASSIGNED: Self = Self(1 << 3);

    /// Whether all flags of `other` are set.
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

    /// These flags and those of `other`, if `value`.
    #[must_use]
    pub const fn with(mut self, other: Self, value: bool) -> Self {
        self.set(other, value);
        self
    }
}

/// A Pod's name, kept short: what follows the Job's name where the Pod's name starts with it.
///
/// No object's name starts with `-`, so a kept text that does is such a rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodName(CompactString);

impl PodName {
    /// Keeps `name` of a Pod that belongs to the Job named `job`.
    pub fn new(job: &str, name: &str) -> Self {
        match name.strip_prefix(job) {
            Some(rest) if rest.starts_with('-') => Self(CompactString::new(rest)),
            _ => Self(CompactString::new(name)),
        }
    }

    /// The whole name; `job` must be the one given to [`PodName::new`].
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

    /// The end of the name, enough to read its suffix from.
    pub fn tail(&self) -> &str {
        &self.0
    }
}

/// What lakh knows of one Pod. Times are whole seconds since the Unix epoch, 0 when unset: the
/// API's own resolution, in four bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRecord {
    /// Who it is.
    pub uid: Uid,
    /// Its name, relative to its Job's.
    pub name: PodName,
    /// The version of the object that this record was read from.
    pub resource_version: u64,
    /// Its completion index, if it has one that is a whole number.
    pub index: Option<CompactIndex>,
    /// Restarts of all its containers together.
    pub restarts: u32,
    /// When it was created.
    pub created: u32,
    /// Since when its Ready condition is as it is.
    pub ready_since: u32,
    /// When it ended, by the best evidence there is; upstream's `getFinishedTime`.
    pub finished: u32,
    /// The most restarts of one of its containers.
    pub restarts_max: u16,
    /// The most restarts of one of its sidecars (restartable init containers).
    pub sidecar_restarts_max: u16,
    /// Where it is in its life.
    pub phase: PodPhase,
    /// Yes-or-no facts.
    pub flags: PodFlags,
    /// How it failed, once it has or is about to end.
    pub failure: Option<Box<FailureFacts>>,
}

/// A record stays this small: 100,000 of them are 9 MB.
const _: () = assert!(size_of::<PodRecord>() <= 88, "a Pod's record has grown");

impl PodRecord {
    /// Whether a flag is set.
    pub const fn has(&self, flag: PodFlags) -> bool {
        self.flags.has(flag)
    }

    /// Neither ended nor being deleted.
    pub const fn is_active(&self) -> bool {
        !self.phase.is_terminal() && !self.has(PodFlags::DELETING)
    }

    /// Being deleted and not yet ended.
    pub const fn is_terminating(&self) -> bool {
        !self.phase.is_terminal() && self.has(PodFlags::DELETING)
    }

    /// Active, with condition Ready.
    pub const fn is_ready(&self) -> bool {
        self.is_active() && self.has(PodFlags::READY)
    }

    /// When it ended; the epoch if that is unknown.
    pub const fn finished_at(&self) -> Time {
        Time::from_secs(self.finished as i64)
    }
}

/// A completion index as annotated on a Pod, at most `i32::MAX`, in four bytes with room for
/// `None`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CompactIndex(std::num::NonZeroU32);

impl fmt::Debug for CompactIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

impl CompactIndex {
    /// Keeps an index; none above `i32::MAX` can be a completion index.
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
