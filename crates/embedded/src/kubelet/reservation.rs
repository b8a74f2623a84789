//! Tracks a Pod's reservation on a node with limited capacity.
//!
//! Responsible for: whether the Pod waits or has its node, and the report if it finds none. Must not: choose a node;
//! `scheduler` does. If nodes have no limits, Pods have no reservation.

use std::{mem, sync::Arc};

use super::{
    life::{Life, Pod},
    pods::PodId,
    resources::Demand,
    scheduler::Scheduler,
    status_manager::PendingWrite,
};
use crate::model::Time;

/// A Pod's requests, and the state of its reservation.
#[derive(Debug)]
pub(super) struct Reservation {
    demand: Arc<Demand>,
    state: ReservationState,
    placement_failure: Option<PlacementFailure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReservationState {
    /// Neither on a node nor waiting.
    None,
    /// In the pending queue, with this turn.
    Pending(u64),
    /// Reserved on this node; bound to it, or about to be.
    Reserved(usize),
}

/// Why a Pod got no node, and the progress of the report.
#[derive(Debug)]
pub(super) struct PlacementFailure {
    /// Reason of the Event, and of the status if the Pod's kubelet rejected it.
    pub(super) reason: String,
    pub(super) message: Arc<str>,
    pub(super) since: Time,
    step: PlacementReport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlacementReport {
    Event,
    Status,
    Done,
}

impl Reservation {
    pub(super) fn new(demand: Arc<Demand>) -> Self {
        Self {
            demand,
            state: ReservationState::None,
            placement_failure: None,
        }
    }

    /// Returns the next write for a Pod without a node.
    pub(super) fn next_write(&self) -> Option<PendingWrite> {
        match (self.state, &self.placement_failure) {
            (ReservationState::Reserved(node), _) => Some(PendingWrite::Bind(node)),
            (ReservationState::Pending(_), Some(failure)) => match failure.step {
                PlacementReport::Event => Some(PendingWrite::Event),
                PlacementReport::Status => Some(PendingWrite::Unschedulable),
                PlacementReport::Done => None,
            },
            (ReservationState::Pending(_), None) | (ReservationState::None, _) => None,
        }
    }

    /// Records the reserved node.
    pub(super) fn give(&mut self, node: usize) {
        self.state = ReservationState::Reserved(node);
        self.placement_failure = None;
    }

    /// Records that no node takes the Pod for now, or that its own node rejects it.
    pub(super) fn fail(&mut self, reason: String, message: Arc<str>, since: Time) {
        self.placement_failure = Some(PlacementFailure {
            reason,
            message,
            since,
            step: PlacementReport::Event,
        });
    }
}

impl Pod {
    /// Returns why the Pod got no node.
    pub(super) fn placement_failure(&self) -> Option<&PlacementFailure> {
        self.reservation.as_deref()?.placement_failure.as_ref()
    }

    /// Returns true if an Event must still report the placement failure.
    pub(super) fn wants_event(&self) -> bool {
        let failure = self.placement_failure();
        failure.is_some_and(|failure| failure.step == PlacementReport::Event)
    }

    /// Records that an Event or a status has reported the failure.
    pub(super) fn placement_failure_written(&mut self, write: PendingWrite) {
        let reservation = self.reservation.as_deref_mut();
        if let Some(failure) = reservation.and_then(|it| it.placement_failure.as_mut()) {
            failure.step = match write {
                PendingWrite::Event => PlacementReport::Status,
                PendingWrite::Unschedulable => PlacementReport::Done,
                _ => failure.step,
            };
        }
    }

    /// Joins or leaves the pending queue, as the Pod's state requires.
    pub(super) fn update_reservation(&mut self, id: PodId, scheduler: &mut Scheduler) {
        if self.life != Life::Unscheduled {
            return;
        }
        let is_wanted = !self.gated && self.deletion.is_none();
        let (is_binding, waits) = (self.is_binding(), self.retry_due().is_some());
        let Some(reservation) = self.reservation.as_deref_mut() else {
            return;
        };
        if reservation.state != ReservationState::None {
            if !is_wanted && !is_binding {
                self.release_reservation(scheduler);
            }
        } else if is_wanted && !waits {
            let turn = scheduler.join(id, &reservation.demand);
            reservation.state = ReservationState::Pending(turn);
        }
    }

    /// Releases the reservation, or leaves the pending queue.
    pub(super) fn release_reservation(&mut self, scheduler: &mut Scheduler) {
        let Some(reservation) = self.reservation.as_deref_mut() else {
            return;
        };
        match mem::replace(&mut reservation.state, ReservationState::None) {
            ReservationState::None => {}
            ReservationState::Pending(turn) => {
                scheduler.pending.leave(&reservation.demand, turn);
            }
            ReservationState::Reserved(node) => scheduler.release(node, &reservation.demand),
        }
    }

    /// Handles the Pod's arrival at a node; returns true if the node admits it. A Pod that already runs is always
    /// admitted.
    pub(super) fn come_to(
        &mut self,
        node: usize,
        runs: bool,
        scheduler: &mut Scheduler,
        now: Time,
    ) -> bool {
        let reservation = self.reservation.as_deref();
        if reservation.is_none_or(|it| it.state == ReservationState::Reserved(node)) {
            return true;
        }
        self.release_reservation(scheduler);
        let Some(reservation) = self.reservation.as_deref_mut() else {
            return true;
        };
        let refusal = scheduler.refusal(node, &reservation.demand);
        if let Some((reason, message)) = refusal.filter(|_| !runs) {
            reservation.fail(reason, message.into(), now);
            return false;
        }
        scheduler.allocatable.reserve(node, &reservation.demand);
        reservation.give(node);
        true
    }
}

/// Reason for a Pod that no node takes.
pub(super) const FAILED_SCHEDULING: &str = "FailedScheduling";
