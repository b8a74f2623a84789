//! A Pod's reservation on a node with limited capacity.
//!
//! Responsible for: whether the Pod waits or has its node, and what is reported if it finds none. Must not:
//! choose a node; that is the work of `scheduler`. Where nodes have no limits, Pods have no reservation.

use std::{mem, sync::Arc};

use super::{
    life::{Life, Pod},
    pods::PodId,
    resources::Demand,
    scheduler::Scheduler,
    status_manager::PendingWrite,
};
use crate::model::Time;

/// What a Pod requests, and how far it has come with it.
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

/// Why a Pod got no node, and how much of that has been reported.
#[derive(Debug)]
pub(super) struct PlacementFailure {
    /// The reason of its Event, and of its status if its kubelet refused it.
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

    /// The next write about a Pod that has no node.
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

    /// A node has been reserved.
    pub(super) fn give(&mut self, node: usize) {
        self.state = ReservationState::Reserved(node);
        self.placement_failure = None;
    }

    /// No node takes the Pod, for now; or its own does not.
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
    /// Why the Pod got no node.
    pub(super) fn placement_failure(&self) -> Option<&PlacementFailure> {
        self.reservation.as_deref()?.placement_failure.as_ref()
    }

    /// Whether an Event is to report why the Pod's kubelet refuses it.
    pub(super) fn wants_event(&self) -> bool {
        let failure = self.placement_failure();
        failure.is_some_and(|failure| failure.step == PlacementReport::Event)
    }

    /// An Event or a status that reports the failure has been written.
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

    /// Joins the pending queue or leaves it, as the Pod's state requires.
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

    /// The Pod does not need its reservation any more, or did not get its node.
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

    /// The Pod arrives at a node; returns whether the node admits it. A Pod that already runs is always admitted.
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

/// The reason where no node takes a Pod.
pub(super) const FAILED_SCHEDULING: &str = "FailedScheduling";
