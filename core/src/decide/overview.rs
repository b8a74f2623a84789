//! What a Job's machine knows and waits for, for people who ask.
//!
//! [`Sums`] may be asked for after each turn, an [`Overview`] when somebody asks; [`IndexOverview`] costs a look at all
//! indexes.
//!
//! Must not: change anything.

use std::time::Duration;

use crate::model::Now;

use super::{counting::IndexOverview, ending::Verdict, machine::JobMachine};

/// See the module's text. Pods and indexes that nobody has counted yet are among those that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// Pods and indexes of a kind.
    pub sums: Sums,
    /// Pods that succeeded; of an Indexed Job indexes.
    pub succeeded: u32,
    /// Pods that failed.
    pub failed: u32,
    /// Pods whose creation was asked for and that are not here yet.
    pub creating: u32,
    /// Pods that are wanted and were not asked for yet.
    pub missing: u32,
    /// The last creation of a Pod was refused, or failed.
    pub are_creations_refused: bool,
    /// How the Job ends, once that is known, and whether a status has said so.
    pub verdict: Option<(Verdict, bool)>,
    /// A status write is under way.
    pub writes_status: bool,
    /// Another controller works on the Job, too: no Pod is made or deleted.
    pub is_contested: bool,
    /// What it waits for, and how long: what comes first is the first.
    pub waits: Vec<(&'static str, Duration)>,
}

impl Overview {
    /// What a machine knows and waits for.
    pub fn of(machine: &JobMachine, now: Now) -> Self {
        let (basis, counting, creations, ending, contest) = machine.parts();
        let waits = machine.waits(now);
        let waits = waits.iter();
        let waits = waits.filter_map(|(at, why)| Some((*why, at.left(now)?)));
        let mut waits: Vec<_> = waits.collect();
        waits.sort_by_key(|(_, left)| *left);
        let is_announced = !ending.must_announce(&basis.job.status);
        Self {
            sums: Sums::of(machine),
            succeeded: counting.succeeded(&basis),
            failed: counting.failed(&basis),
            creating: creations.len(),
            missing: creations.missing(),
            are_creations_refused: creations.are_refused(),
            verdict: ending
                .verdict()
                .map(|verdict| (verdict.clone(), is_announced)),
            writes_status: machine.is_writing_status(),
            is_contested: contest.is_on(),
            waits,
        }
    }
}

/// How many Pods and indexes there are of a kind, for who counts them often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Pods that are pending or running.
    pub active: u32,
    /// Those of them that are ready.
    pub ready: u32,
    /// Pods that are being deleted.
    pub terminating: u32,
    /// Pods that have the tracking finalizer.
    pub with_finalizer: u32,
    /// Ended Pods that no status has named yet.
    pub to_be_named: u32,
    /// Indexes that succeeded.
    pub completed: u32,
    /// Indexes that failed for good.
    pub failed: u32,
    /// Indexes that wait for their next Pod.
    pub in_backoff: u32,
}

impl Sums {
    /// Those of a machine.
    pub fn of(machine: &JobMachine) -> Self {
        let (_, counting, ..) = machine.parts();
        let tally = counting.tally();
        let (completed, failed) = counting.indexes_over();
        Self {
            active: tally.active,
            ready: tally.ready,
            terminating: tally.terminating,
            with_finalizer: tally.with_finalizer,
            to_be_named: counting.waiting_to_be_named(),
            completed,
            failed,
            in_backoff: counting.indexes_in_backoff(),
        }
    }
}

impl IndexOverview {
    /// Those of a machine; none of a Job without indexes.
    pub fn of(machine: &JobMachine) -> Option<Self> {
        let (basis, counting, ..) = machine.parts();
        basis.spec.is_indexed().then(|| counting.index_overview())
    }
}
