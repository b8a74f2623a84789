//! A Pod's place on a node whose room is limited.
//!
//! Responsible for: where the Pod stands between the line and its node, and what it is told if it gets
//! no place. Must not: choose; that is the work of `scheduler`. Pods without limits have no seat.

use std::{mem, sync::Arc};

use super::{
    life::{Life, Pod},
    pods::PodId,
    resources::Demand,
    scheduler::Scheduler,
    talk::Said,
};
use crate::model::Time;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Seat {
    demand: Arc<Demand>,
    place: Place,
    complaint: Option<Complaint>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Neither on a node nor in the line.
    Nowhere,
    /// In the line, with this turn.
    InLine(u64),
    /// With room on this node, bound to it or about to be.
    On(usize),
}

/// What is said of a Pod that gets no place.
#[derive(Debug)]
pub(super) struct Complaint {
    /// The reason of its Event, and of its status if its kubelet refused it.
    pub(super) reason: String,
    pub(super) message: Arc<str>,
    pub(super) since: Time,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Event,
    Status,
    Done,
}

impl Seat {
    pub(super) fn new(demand: Arc<Demand>) -> Self {
        Self {
            demand,
            place: Place::Nowhere,
            complaint: None,
        }
    }

    /// What is to be said of a Pod that has no node.
    pub(super) fn next_said(&self) -> Option<Said> {
        match (self.place, &self.complaint) {
            (Place::On(node), _) => Some(Said::Bind(node)),
            (Place::InLine(_), Some(complaint)) => match complaint.step {
                Step::Event => Some(Said::Event),
                Step::Status => Some(Said::Unschedulable),
                Step::Done => None,
            },
            (Place::InLine(_), None) | (Place::Nowhere, _) => None,
        }
    }

    /// There is room on a node.
    pub(super) fn give(&mut self, node: usize) {
        self.place = Place::On(node);
        self.complaint = None;
    }

    /// There is no room, for now.
    pub(super) fn complain(&mut self, message: Arc<str>, now: Time) {
        self.complaint = Some(Complaint {
            reason: FAILED_SCHEDULING.to_owned(),
            message,
            since: now,
            step: Step::Event,
        });
    }
}

impl Pod {
    /// What is said of the Pod because it gets no place.
    pub(super) fn complaint(&self) -> Option<&Complaint> {
        self.seat.as_deref()?.complaint.as_ref()
    }

    /// Whether an Event is to tell why the Pod's kubelet refuses it.
    pub(super) fn wants_event(&self) -> bool {
        self.complaint()
            .is_some_and(|complaint| complaint.step == Step::Event)
    }

    /// An Event or a status has told why the Pod gets no place.
    pub(super) fn heard_of_complaint(&mut self, said: Said) {
        let seat = self.seat.as_deref_mut();
        if let Some(complaint) = seat.and_then(|seat| seat.complaint.as_mut()) {
            complaint.step = match said {
                Said::Event => Step::Status,
                Said::Unschedulable => Step::Done,
                _ => complaint.step,
            };
        }
    }

    /// Joins the line or leaves it, as the Pod's state asks for.
    pub(super) fn seek_place(&mut self, id: PodId, scheduler: &mut Scheduler) {
        if self.life != Life::Unscheduled {
            return;
        }
        let is_wanted = !self.gated && self.deletion.is_none();
        let (is_binding, waits) = (self.is_binding(), self.retry_due().is_some());
        let Some(seat) = self.seat.as_deref_mut() else {
            return;
        };
        match seat.place {
            Place::Nowhere if is_wanted && !waits => {
                seat.place = Place::InLine(scheduler.join(id, &seat.demand));
            }
            Place::InLine(_) | Place::On(_) if !is_wanted && !is_binding => {
                self.give_place_up(scheduler);
            }
            Place::Nowhere | Place::InLine(_) | Place::On(_) => {}
        }
    }

    /// The Pod does not need its place any more, or did not get it.
    pub(super) fn give_place_up(&mut self, scheduler: &mut Scheduler) {
        let Some(seat) = self.seat.as_deref_mut() else {
            return;
        };
        match mem::replace(&mut seat.place, Place::Nowhere) {
            Place::Nowhere => {}
            Place::InLine(turn) => scheduler.leave(&seat.demand, turn),
            Place::On(node) => scheduler.give_back(node, &seat.demand),
        }
    }

    /// The Pod comes to a node; gives whether the node takes it. One that runs already is not asked.
    pub(super) fn come_to(
        &mut self,
        node: usize,
        runs: bool,
        scheduler: &mut Scheduler,
        now: Time,
    ) -> bool {
        let seat = self.seat.as_deref();
        if seat.is_none_or(|seat| seat.place == Place::On(node)) {
            return true;
        }
        self.give_place_up(scheduler);
        let Some(seat) = self.seat.as_deref_mut() else {
            return true;
        };
        let refusal = scheduler.refusal(node, &seat.demand).filter(|_| !runs);
        if let Some((reason, message)) = refusal {
            seat.complaint = Some(Complaint {
                reason,
                message: message.into(),
                since: now,
                step: Step::Event,
            });
            return false;
        }
        scheduler.take(node, &seat.demand);
        seat.give(node);
        true
    }
}

const FAILED_SCHEDULING: &str = "FailedScheduling";
