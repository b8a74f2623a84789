//! Queues the Pods that wait for resources.
//!
//! Responsible for: their order, and which of them are worth a try. Must not: know which Pods fit where.
//!
//! Pods with equal requests form an equivalence class: if the first does not fit, none does. A class that did not fit
//! is retried only after a node has released resources. So one try per class, not per Pod, shows that nothing can be
//! scheduled.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use hashbrown::HashMap;

use super::{pods::PodId, resources::Demand};

/// The Pods that wait for a node, by equivalence class.
#[doc(alias = "SchedulingQueue")]
#[derive(Debug, Default)]
pub(super) struct PendingQueue {
    classes: HashMap<Arc<Demand>, EquivalenceClass>,
    /// Classes that may fit, by the turn of their first Pod; that Pod may have left since.
    open: BTreeMap<u64, Arc<Demand>>,
    /// Pods whose failure to fit has not been reported yet.
    unreported: VecDeque<Unreported>,
    next_turn: u64,
}

#[derive(Debug, Default)]
struct EquivalenceClass {
    /// The Pods, by turn.
    pods: BTreeMap<u64, PodId>,
    /// Why the latest try failed; set while no retry is needed.
    fit_error: Option<FitError>,
    /// Reports exist for all Pods with earlier turns.
    reported_up_to: u64,
}

/// Why no node takes the Pods of a class.
#[derive(Clone, Debug)]
pub(super) struct FitError {
    pub(super) message: Arc<str>,
    /// The version of [`super::allocatable::Allocatable`] at which it was found.
    pub(super) allocatable_version: u64,
}

#[derive(Debug)]
struct Unreported {
    demand: Arc<Demand>,
    turn: u64,
    message: Arc<str>,
}

impl PendingQueue {
    /// Appends a Pod; returns its turn.
    pub(super) fn join(&mut self, pod: PodId, demand: &Arc<Demand>) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        let class = self.classes.entry(Arc::clone(demand)).or_default();
        if class.pods.is_empty() {
            self.open.insert(turn, Arc::clone(demand));
        }
        class.pods.insert(turn, pod);
        turn
    }

    /// Removes a Pod that does not wait any more.
    pub(super) fn leave(&mut self, demand: &Arc<Demand>, turn: u64) {
        if let Some(class) = self.classes.get_mut(demand) {
            class.pods.remove(&turn);
            if class.pods.is_empty() {
                self.classes.remove(demand);
            }
        }
    }

    /// Returns why a class does not fit, if known.
    pub(super) fn fit_error(&self, demand: &Demand) -> Option<&FitError> {
        self.classes.get(demand)?.fit_error.as_ref()
    }

    /// Makes every class worth a try, after a node has released resources.
    pub(super) fn open_all(&mut self) {
        for (demand, class) in &mut self.classes {
            if class.fit_error.take().is_some()
                && let Some(turn) = class.pods.keys().next()
            {
                self.open.insert(*turn, Arc::clone(demand));
            }
        }
    }

    /// Returns the Pod to try next.
    pub(super) fn first(&mut self) -> Option<(u64, PodId, Arc<Demand>)> {
        while let Some((turn, demand)) = self.open.pop_first() {
            let first = self.classes.get(&demand).and_then(|class| {
                let (turn, pod) = class.pods.first_key_value()?;
                Some((*turn, *pod))
            });
            match first {
                Some((first, pod)) if first == turn => {
                    self.open.insert(turn, Arc::clone(&demand));
                    return Some((turn, pod, demand));
                }
                Some((later, _)) => {
                    self.open.insert(later, demand);
                }
                None => {}
            }
        }
        None
    }

    /// Removes the first Pod, which has found a node.
    pub(super) fn advance(&mut self, turn: u64, demand: &Arc<Demand>) {
        self.open.remove(&turn);
        self.leave(demand, turn);
        if let Some(class) = self.classes.get(demand)
            && let Some(next) = class.pods.keys().next()
        {
            self.open.insert(*next, Arc::clone(demand));
        }
    }

    /// Closes a class whose first Pod does not fit.
    pub(super) fn close(&mut self, turn: u64, demand: &Arc<Demand>, fit_error: FitError) {
        self.open.remove(&turn);
        self.set_fit_error(demand, fit_error);
    }

    /// Sets why a class does not fit, and queues reports for its Pods that have none yet.
    pub(super) fn set_fit_error(&mut self, demand: &Arc<Demand>, fit_error: FitError) {
        let Some(class) = self.classes.get_mut(demand) else {
            return;
        };
        let unreported = class.pods.range(class.reported_up_to..);
        self.unreported
            .extend(unreported.map(|(turn, _)| Unreported {
                demand: Arc::clone(demand),
                turn: *turn,
                message: Arc::clone(&fit_error.message),
            }));
        class.reported_up_to = self.next_turn;
        class.fit_error = Some(fit_error);
    }

    /// Returns the next Pod to report as unschedulable, and the reason.
    pub(super) fn next_unreported(&mut self) -> Option<(PodId, Arc<str>)> {
        while let Some(unreported) = self.unreported.pop_front() {
            let class = self.classes.get(&unreported.demand);
            if let Some(pod) = class.and_then(|class| class.pods.get(&unreported.turn)) {
                return Some((*pod, unreported.message));
            }
        }
        None
    }
}
