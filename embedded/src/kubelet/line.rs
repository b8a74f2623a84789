//! The Pods that wait for room.
//!
//! Responsible for: their order, and which of them are worth a try. Must not: know what fits where.
//!
//! Pods that ask for the same are of one kind and wait in one row: where the first of them does not
//! fit, none does. A kind that did not fit is closed, and tried again only when room has freed. So
//! it costs one try per kind, not per Pod, to find out that nothing can be done.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use hashbrown::HashMap;

use super::{pods::PodId, resources::Demand};

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Line {
    kinds: HashMap<Arc<Demand>, Kind>,
    /// The kinds that may fit, by the turn of their first Pod; that Pod may have left meanwhile.
    open: BTreeMap<u64, Arc<Demand>>,
    /// Pods that are to hear that they must wait.
    refused: VecDeque<Refused>,
    next_turn: u64,
}

#[derive(Debug, Default)]
struct Kind {
    /// The Pods, by their turns.
    pods: BTreeMap<u64, PodId>,
    /// Why the latest try failed, if none has to be made.
    closed: Option<Answer>,
    /// Pods of earlier turns know that they must wait.
    told_up_to: u64,
}

/// Why a kind of Pod must wait.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) message: Arc<str>,
    /// How many changes the room had seen.
    pub(super) as_of: u64,
}

#[derive(Debug)]
struct Refused {
    demand: Arc<Demand>,
    turn: u64,
    message: Arc<str>,
}

impl Line {
    /// A Pod joins at the end; gives its turn.
    pub(super) fn join(&mut self, pod: PodId, demand: &Arc<Demand>) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        let kind = self.kinds.entry(Arc::clone(demand)).or_default();
        if kind.pods.is_empty() {
            self.open.insert(turn, Arc::clone(demand));
        }
        kind.pods.insert(turn, pod);
        turn
    }

    /// A Pod does not wait any more.
    pub(super) fn leave(&mut self, demand: &Arc<Demand>, turn: u64) {
        if let Some(kind) = self.kinds.get_mut(demand) {
            kind.pods.remove(&turn);
            if kind.pods.is_empty() {
                self.kinds.remove(demand);
            }
        }
    }

    /// Why a kind of Pod must wait, if it is known.
    pub(super) fn answer(&self, demand: &Demand) -> Option<&Answer> {
        self.kinds.get(demand)?.closed.as_ref()
    }

    /// Room has freed: every kind is worth a try.
    pub(super) fn open_all(&mut self) {
        for (demand, kind) in &mut self.kinds {
            if kind.closed.take().is_some()
                && let Some(turn) = kind.pods.keys().next()
            {
                self.open.insert(*turn, Arc::clone(demand));
            }
        }
    }

    /// The Pod that is to be tried next.
    pub(super) fn first(&mut self) -> Option<(u64, PodId, Arc<Demand>)> {
        while let Some((turn, demand)) = self.open.pop_first() {
            let first = self.kinds.get(&demand).and_then(|kind| {
                let (turn, pod) = kind.pods.first_key_value()?;
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

    /// The first Pod has found its room.
    pub(super) fn advance(&mut self, turn: u64, demand: &Arc<Demand>) {
        self.open.remove(&turn);
        self.leave(demand, turn);
        if let Some(kind) = self.kinds.get(demand)
            && let Some(next) = kind.pods.keys().next()
        {
            self.open.insert(*next, Arc::clone(demand));
        }
    }

    /// The first Pod does not fit, and none of its kind.
    pub(super) fn close(&mut self, turn: u64, demand: &Arc<Demand>, answer: Answer) {
        self.open.remove(&turn);
        self.answer_kind(demand, answer);
    }

    /// Those of a closed kind that do not know it yet are to hear why.
    pub(super) fn answer_kind(&mut self, demand: &Arc<Demand>, answer: Answer) {
        let Some(kind) = self.kinds.get_mut(demand) else {
            return;
        };
        let untold = kind.pods.range(kind.told_up_to..);
        self.refused.extend(untold.map(|(turn, _)| Refused {
            demand: Arc::clone(demand),
            turn: *turn,
            message: Arc::clone(&answer.message),
        }));
        kind.told_up_to = self.next_turn;
        kind.closed = Some(answer);
    }

    /// The next Pod that is to hear that it must wait, and why.
    pub(super) fn next_refused(&mut self) -> Option<(PodId, Arc<str>)> {
        while let Some(refused) = self.refused.pop_front() {
            let kind = self.kinds.get(&refused.demand);
            if let Some(pod) = kind.and_then(|kind| kind.pods.get(&refused.turn)) {
                return Some((*pod, refused.message));
            }
        }
        None
    }
}
