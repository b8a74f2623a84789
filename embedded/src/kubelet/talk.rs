//! What the API server has been told about a Pod, and what it has to be told next.
//!
//! Responsible for: at most one write in flight per Pod, the latest truth and nothing else in
//! it, and retries. Must not: render writes.
//!
//! The life of a Pod raises a number with each change ([`Talk::news`]); the API server knows the
//! Pod as of some number. Changes between two writes are never told: a container that runs for
//! no time is never seen running.

use std::time::Duration;

use super::{
    life::{Cause, Life, Pod},
    plan::Removal,
    stages::{By, Disruption},
    timers::Due,
    world::World,
};
use crate::model::Time;

/// The conversation with the API server about one Pod.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// Counts the changes of the Pod's life.
    truth: u32,
    /// The change up to which the API server knows.
    told: u32,
    delete_told: bool,
    in_flight: Option<Said>,
    failures: u32,
    retry_at: Option<Time>,
    /// Whether the Pod stands in the queue of Pods to be looked at.
    pub(super) queued: bool,
}

/// A write, as far as its sender must remember it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Bind to this node.
    Bind(usize),
    /// The status as of this change.
    Status(u32),
    /// An Event that tells why the Pod gets no place.
    Event,
    /// The condition that tells the same.
    Unschedulable,
    /// Mark as disrupted, by somebody else.
    Mark(Disruption),
    /// Delete with the Pod's grace period, by somebody else.
    Remove(Disruption),
    /// Delete for good.
    Delete,
}

impl Talk {
    /// The life of the Pod has changed in a way that its status shows.
    pub(super) fn news(&mut self) {
        self.truth = self.truth.saturating_add(1);
    }

    /// The API server already knows all.
    pub(super) fn skip_to_truth(&mut self) {
        self.told = self.truth;
    }
}

impl Pod {
    /// Whether [`Self::say_next`] would give something.
    pub(super) fn has_something_to_say(&self) -> bool {
        let talk = &self.talk;
        if talk.in_flight.is_some() || talk.retry_at.is_some() {
            return false;
        }
        match self.life {
            Life::Unscheduled => {
                let seat = self.seat.as_deref();
                let has_news = seat.is_none_or(|seat| seat.next_said().is_some());
                !self.gated && self.deletion.is_none() && has_news
            }
            Life::Starting { .. } => false,
            Life::Initializing { .. }
            | Life::InitBackingOff { .. }
            | Life::Running { .. }
            | Life::BackingOff { .. } => talk.told < talk.truth || self.removal().is_some(),
            Life::Ended(_) => talk.told < talk.truth || self.wants_delete(),
        }
    }

    /// Gives the next write and remembers it as in flight.
    pub(super) fn say_next(&mut self, world: &mut World) -> Option<Said> {
        if !self.has_something_to_say() {
            return None;
        }
        let said = if self.life == Life::Unscheduled {
            match self.seat.as_deref() {
                None => Said::Bind(world.scheduler.take_node()?),
                Some(seat) => seat.next_said()?,
            }
        } else if self.is_ended() && self.wants_event() {
            Said::Event
        } else if self.talk.told < self.talk.truth {
            Said::Status(self.talk.truth)
        } else if let Some(removal) = self.removal() {
            match removal.wants_mark() {
                true => Said::Mark(removal.cause),
                false => Said::Remove(removal.cause),
            }
        } else {
            Said::Delete
        };
        self.talk.in_flight = Some(said);
        Some(said)
    }

    /// The write in flight has succeeded.
    pub(super) fn heard_yes(&mut self) -> Option<Said> {
        let talk = &mut self.talk;
        let said = talk.in_flight.take()?;
        talk.failures = 0;
        match said {
            Said::Bind(_) | Said::Event | Said::Unschedulable | Said::Mark(_) | Said::Remove(_) => {
            }
            Said::Status(truth) => talk.told = talk.told.max(truth),
            Said::Delete => talk.delete_told = true,
        }
        Some(said)
    }

    /// The write in flight has failed; it may be tried again a little later.
    pub(super) fn heard_no(&mut self, now: Time) -> Option<Said> {
        let talk = &mut self.talk;
        let said = talk.in_flight.take();
        if said.is_some() {
            let factor = 1_u32.checked_shl(talk.failures).unwrap_or(u32::MAX);
            talk.retry_at = Some(now + RETRY_MIN.saturating_mul(factor).min(RETRY_MAX));
            talk.failures = talk.failures.saturating_add(1);
        }
        said
    }

    /// Whether a binding is in flight.
    pub(super) fn is_binding(&self) -> bool {
        matches!(self.talk.in_flight, Some(Said::Bind(_)))
    }

    /// When a failed write may be tried again.
    pub(super) fn retry_due(&self) -> Option<Due> {
        self.talk.retry_at.map(|at| (at, "write retry"))
    }

    /// Forgets a wait that is over.
    pub(super) fn end_retry_wait(&mut self, now: Time) {
        if self.talk.retry_at.is_some_and(|at| at <= now) {
            self.talk.retry_at = None;
        }
    }

    /// A write about the Pod's removal by others has succeeded.
    pub(super) fn heard_of_removal(&mut self, said: Said) {
        let plan = self.plan.as_deref_mut();
        if let (Said::Mark(_) | Said::Remove(_), Some(plan)) = (said, plan)
            && let Some(removal) = &mut plan.removal
        {
            removal.advance();
        }
    }

    /// Whether a Pod at its end is still to be deleted by us.
    pub(super) fn is_to_be_deleted(&self) -> bool {
        !self.talk.delete_told && self.is_lost()
    }

    /// What others have yet to do to a Pod that lives and is not being deleted.
    fn removal(&self) -> Option<Removal> {
        let removal = self.plan.as_deref()?.removal?;
        let is_wanted = !removal.is_done() && !self.is_ended() && self.deletion.is_none();
        is_wanted.then_some(removal)
    }

    /// A grace period of zero means that the API server waits for finalizers alone.
    fn wants_delete(&self) -> bool {
        !self.talk.delete_told && (self.is_lost() || self.deletion.is_some_and(|grace| grace > 0))
    }

    /// Whether the Pod's node is gone: others say its end, and delete it.
    fn is_lost(&self) -> bool {
        matches!(self.life, Life::Ended(Cause::Disrupted(cause)) if cause.by() == By::PodGc)
    }
}

/// Short enough to go unseen after one lost write.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// Long enough not to hold an API server down that refuses everything.
const RETRY_MAX: Duration = Duration::from_secs(5);
