//! The scheduler: which Pod goes to which hollow node, and when.
//!
//! Responsible for: nodes in turn and, where they have a capacity, room and the line for it. Must
//! not: hold what a Pod is told (`seat`).
//!
//! Without a capacity a Pod costs the same however many nodes there are. With one it costs a look at
//! each node, and at each kind of Pod that waits when room has freed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    KubeletOptions,
    line::{Answer, Line},
    pods::PodId,
    resources::Demand,
    room::Room,
};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Scheduler {
    nodes: Nodes,
    limited: Option<Limited>,
}

/// The nodes, and whose turn it is.
#[derive(Debug)]
struct Nodes {
    count: usize,
    next: usize,
    /// Nodes that do not exist any more; Pods are not bound to them.
    gone: BTreeSet<usize>,
}

impl Nodes {
    fn existing(&self) -> impl Iterator<Item = usize> {
        (0..self.count).filter(|node| !self.gone.contains(node))
    }

    /// The next node in turn of those that suit.
    fn take_where(&mut self, suits: impl Fn(usize) -> bool) -> Option<usize> {
        let mut in_turn = (self.next..self.count).chain(0..self.next);
        let node = in_turn.find(|node| !self.gone.contains(node) && suits(*node))?;
        self.next = (node + 1) % self.count;
        Some(node)
    }
}

/// Where room is limited.
#[derive(Debug)]
struct Limited {
    room: Room,
    line: Line,
    /// Whether room has freed since those that wait were last tried.
    has_freed: bool,
    latest: Option<Arc<Demand>>,
}

/// What becomes of a Pod that waits.
#[derive(Debug)]
pub(super) enum Ruling {
    /// It has room on this node.
    Bind(PodId, usize),
    /// It must wait, and this is why.
    Wait(PodId, Arc<str>),
}

impl Scheduler {
    pub(super) fn new(options: &KubeletOptions) -> Self {
        let nodes = options.node_names.len();
        let limited = options.capacity.as_ref().map(|capacity| Limited {
            room: Room::new(capacity.amounts(), nodes),
            line: Line::default(),
            has_freed: false,
            latest: None,
        });
        Self {
            nodes: Nodes {
                count: nodes,
                next: 0,
                gone: BTreeSet::new(),
            },
            limited,
        }
    }

    /// Whether it matters what Pods ask for.
    pub(super) fn is_limited(&self) -> bool {
        self.limited.is_some()
    }

    /// The next node in turn, whatever room it has; none if there are no nodes.
    pub(super) fn take_node(&mut self) -> Option<usize> {
        self.nodes.take_where(|_| true)
    }

    /// Whether Pods may be bound to a node.
    pub(super) fn set_exists(&mut self, node: usize, exists: bool) {
        if !exists {
            self.nodes.gone.insert(node);
        } else if self.nodes.gone.remove(&node)
            && let Some(limited) = &mut self.limited
        {
            limited.has_freed = true;
        }
    }

    /// Gives equal demands one value. Only the latest is remembered: Pods of a Job come in rows.
    pub(super) fn share(&mut self, demand: Demand) -> Arc<Demand> {
        let latest = self.limited.as_mut().map(|limited| &mut limited.latest);
        match latest {
            Some(Some(latest)) if **latest == demand => Arc::clone(latest),
            Some(latest) => Arc::clone(latest.insert(Arc::new(demand))),
            None => Arc::new(demand),
        }
    }

    /// A Pod waits for room; gives its turn.
    pub(super) fn join(&mut self, pod: PodId, demand: &Arc<Demand>) -> u64 {
        let Some(limited) = &mut self.limited else {
            return 0;
        };
        let turn = limited.line.join(pod, demand);
        if let Some(known) = limited.line.answer(demand) {
            // It may be of a time when there was other room.
            let answer = match known.as_of == limited.room.changes() {
                true => known.clone(),
                false => explain(&limited.room, &self.nodes, demand),
            };
            limited.line.answer_kind(demand, answer);
        }
        turn
    }

    /// A Pod does not wait any more.
    pub(super) fn leave(&mut self, demand: &Arc<Demand>, turn: u64) {
        if let Some(limited) = &mut self.limited {
            limited.line.leave(demand, turn);
        }
    }

    /// A Pod takes its room on a node.
    pub(super) fn take(&mut self, node: usize, demand: &Demand) {
        if let Some(limited) = &mut self.limited {
            limited.room.take(node, demand);
        }
    }

    /// A Pod gives its room back.
    pub(super) fn give_back(&mut self, node: usize, demand: &Demand) {
        if let Some(limited) = &mut self.limited {
            limited.room.give_back(node, demand);
            limited.has_freed = true;
        }
    }

    /// Why a node cannot take a Pod that others have bound to it: a reason, and words.
    pub(super) fn refusal(&self, node: usize, demand: &Demand) -> Option<(String, String)> {
        let room = &self.limited.as_ref()?.room;
        let lack = room.lacks(node, demand).next()?;
        Some(lack.for_kubelet())
    }

    /// Gives the next thing to tell to a Pod that waits. Those that wait longest come first; who does
    /// not fit holds up nobody.
    pub(super) fn next_ruling(&mut self) -> Option<Ruling> {
        loop {
            let limited = self.limited.as_mut()?;
            if std::mem::take(&mut limited.has_freed) {
                limited.line.open_all();
            }
            if let Some((pod, message)) = limited.line.next_refused() {
                return Some(Ruling::Wait(pod, message));
            }
            let (turn, pod, demand) = limited.line.first()?;
            let has_room = |node| limited.room.fits(node, &demand);
            if let Some(node) = self.nodes.take_where(has_room) {
                limited.room.take(node, &demand);
                limited.line.advance(turn, &demand);
                return Some(Ruling::Bind(pod, node));
            }
            let answer = explain(&limited.room, &self.nodes, &demand);
            limited.line.close(turn, &demand, answer);
        }
    }
}

/// Why no node takes such a Pod, in the scheduler's words. Nobody is preempted here, so of that it says
/// what a scheduler says that finds nobody of lower priority.
fn explain(room: &Room, nodes: &Nodes, demand: &Demand) -> Answer {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut preemption: BTreeMap<&str, usize> = BTreeMap::new();
    let mut count = 0;
    for node in nodes.existing() {
        count += 1;
        let mut is_for_ever = false;
        for lack in room.lacks(node, demand) {
            is_for_ever |= lack.is_for_ever();
            *reasons.entry(lack.for_scheduler()).or_default() += 1;
        }
        let outlook = if is_for_ever { HELPLESS } else { NO_VICTIMS };
        *preemption.entry(outlook).or_default() += 1;
    }
    let message = if count == 0 {
        "no nodes available to schedule pods".to_owned()
    } else {
        format!(
            "0/{count} nodes are available: {}. no new claims to deallocate, preemption: \
             0/{count} nodes are available: {}.",
            counted(reasons),
            counted(preemption)
        )
    };
    Answer {
        message: message.into(),
        as_of: room.changes(),
    }
}

/// How many nodes have each reason, sorted as texts.
fn counted<T: std::fmt::Display>(reasons: BTreeMap<T, usize>) -> String {
    let mut texts: Vec<String> = reasons
        .into_iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    texts.sort_unstable();
    texts.join(", ")
}

const HELPLESS: &str = "Preemption is not helpful for scheduling";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
