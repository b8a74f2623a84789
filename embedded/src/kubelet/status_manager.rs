//! What the API server knows about a Pod, and what has to be written next.
//!
//! Responsible for: at most one write in flight per Pod, with the latest state and nothing older, and retries.
//! Must not: render writes.
//!
//! The life of a Pod raises a version with each change ([`StatusManager::changed`]); the API server knows
//! some version. Changes between two writes are never reported: a container that runs for no time is never
//! seen running.

use std::time::Duration;

use super::{
    life::{Cause, Life, Pod},
    plan::Removal,
    stages::{By, Disruption},
    world::World,
};
use crate::model::{Exponential, Time};

/// The writes about one Pod: what was changed, what is reported, what is in flight.
#[doc(alias = "versionedPodStatus")]
#[derive(Debug, Default)]
pub(super) struct StatusManager {
    /// Counts the changes of the Pod's life.
    version: u32,
    /// The version that the API server has.
    reported: u32,
    delete_reported: bool,
    in_flight: Option<PendingWrite>,
    failures: u32,
    retry_at: Option<Time>,
    /// Whether the Pod is in the queue of Pods to be looked at.
    pub(super) queued: bool,
}

/// A write that is due or in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingWrite {
    /// Bind to this node.
    Bind(usize),
    /// The status of this version.
    Status(u32),
    /// An Event that says why the Pod gets no node.
    Event,
    /// The condition that says the same.
    Unschedulable,
    /// Mark as disrupted, by somebody else.
    Mark(Disruption),
    /// Delete with the Pod's grace period, by somebody else.
    Remove(Disruption),
    /// Delete for good.
    Delete,
}

impl StatusManager {
    /// The life of the Pod has changed in a way that its status shows.
    pub(super) fn changed(&mut self) {
        self.version = self.version.saturating_add(1);
    }

    /// The API server already has the current version.
    pub(super) fn mark_reported(&mut self) {
        self.reported = self.version;
    }
}

impl Pod {
    /// Whether [`Self::next_write`] would return something, if there is a node.
    pub(super) fn has_write(&self) -> bool {
        self.wanted_write(|| Some(0)).is_some()
    }

    /// Returns the next write and remembers it as in flight.
    pub(super) fn next_write(&mut self, world: &mut World) -> Option<PendingWrite> {
        let write = self.wanted_write(|| world.scheduler.take_node())?;
        self.status.in_flight = Some(write);
        Some(write)
    }

    /// What is to be written next, unless a write is in flight or has just failed.
    fn wanted_write(&self, next_node: impl FnOnce() -> Option<usize>) -> Option<PendingWrite> {
        let status = &self.status;
        if status.in_flight.is_some() || status.retry_at.is_some() {
            return None;
        }
        let has_news = status.reported < status.version;
        match self.life {
            Life::Starting { .. } => None,
            Life::Unscheduled if self.gated || self.deletion.is_some() => None,
            Life::Unscheduled => match self.reservation.as_deref() {
                None => next_node().map(PendingWrite::Bind),
                Some(reservation) => reservation.next_write(),
            },
            Life::Ended(_) if has_news && self.wants_event() => Some(PendingWrite::Event),
            _ if has_news => Some(PendingWrite::Status(status.version)),
            Life::Ended(_) => self.wants_delete().then_some(PendingWrite::Delete),
            Life::Running { .. } | Life::BackingOff { .. } | Life::StoppingSidecars { .. } => {
                self.removal().map(|removal| match removal.wants_mark() {
                    true => PendingWrite::Mark(removal.cause),
                    false => PendingWrite::Remove(removal.cause),
                })
            }
        }
    }

    /// The write in flight has succeeded.
    pub(super) fn write_succeeded(&mut self) -> Option<PendingWrite> {
        let status = &mut self.status;
        let write = status.in_flight.take()?;
        status.failures = 0;
        match write {
            PendingWrite::Bind(_) => {}
            PendingWrite::Status(version) => status.reported = status.reported.max(version),
            PendingWrite::Event | PendingWrite::Unschedulable => {
                self.placement_failure_written(write);
            }
            PendingWrite::Mark(_) | PendingWrite::Remove(_) => {
                let plan = self.plan.as_deref_mut();
                if let Some(removal) = plan.and_then(|plan| plan.removal.as_mut()) {
                    removal.advance();
                }
            }
            PendingWrite::Delete => status.delete_reported = true,
        }
        Some(write)
    }

    /// The write in flight has failed; it may be tried again a little later.
    pub(super) fn write_failed(&mut self, now: Time) -> Option<PendingWrite> {
        let status = &mut self.status;
        let write = status.in_flight.take();
        if write.is_some() {
            status.failures = status.failures.saturating_add(1);
            status.retry_at = Some(now + RETRY.delay(status.failures));
        }
        write
    }

    /// Whether a binding is in flight.
    pub(super) fn is_binding(&self) -> bool {
        matches!(self.status.in_flight, Some(PendingWrite::Bind(_)))
    }

    /// When a failed write may be tried again.
    pub(super) fn retry_due(&self) -> Option<Time> {
        self.status.retry_at
    }

    /// Forgets a wait that is over.
    pub(super) fn end_retry_wait(&mut self, now: Time) {
        if self.status.retry_at.is_some_and(|at| at <= now) {
            self.status.retry_at = None;
        }
    }

    /// Whether a Pod at its end is still to be deleted by us.
    pub(super) fn is_to_be_deleted(&self) -> bool {
        !self.status.delete_reported && self.is_lost()
    }

    /// What others have yet to do to a Pod that lives and is not being deleted.
    fn removal(&self) -> Option<Removal> {
        let removal = self.plan.as_deref()?.removal?;
        let is_wanted = !removal.is_done() && !self.is_ended() && self.deletion.is_none();
        is_wanted.then_some(removal)
    }

    /// A grace period of zero means that the API server waits for finalizers alone.
    fn wants_delete(&self) -> bool {
        !self.status.delete_reported
            && (self.is_lost() || self.deletion.is_some_and(|grace| grace > 0))
    }

    /// Whether the Pod's node is gone: others say its end, and delete it.
    fn is_lost(&self) -> bool {
        matches!(self.life, Life::Ended(Cause::Disrupted(cause)) if cause.by() == By::PodGc)
    }
}

/// Short enough to go unseen after one lost write, and long enough not to hold an API server down that refuses
/// everything.
const RETRY: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(5),
};
