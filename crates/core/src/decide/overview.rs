//! Exposes the state and the waits of a Job's machine to users.
//!
//! [`Sums`] are cheap enough for each pass; an [`Overview`] is for single requests; [`IndexOverview`] visits all
//! indexes.
//!
//! Must not: change anything.

use std::time::Duration;

use crate::model::Now;

use super::{counting::IndexOverview, ending::Verdict, machine::JobMachine};

/// A snapshot of a Job's machine for display. Pods and indexes that are not counted yet are included among those that
/// ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// Pods and indexes by kind.
    pub sums: Sums,
    /// Pods that succeeded; for an Indexed Job, indexes.
    pub succeeded: u32,
    /// Pods that failed.
    pub failed: u32,
    /// Requested Pods that do not exist yet.
    pub creating: u32,
    /// Pods that are wanted and were not requested yet.
    pub missing: u32,
    /// The last creation of a Pod was refused, or failed.
    pub are_creations_refused: bool,
    /// The verdict, once there is one; true if it is stored.
    pub verdict: Option<(Verdict, bool)>,
    /// A status write is in flight.
    pub writes_status: bool,
    /// Another controller works on the Job, too: lakh creates no Pods.
    pub is_contested: bool,
    /// The waits and their remaining time, the shortest first.
    pub waits: Vec<(&'static str, Duration)>,
}

impl Overview {
    /// Takes the overview of a machine.
    pub fn of(machine: &JobMachine, now: Now) -> Self {
        let (context, counting, creations, ending, contest) = machine.parts();
        let waits = machine.waits(now);
        let waits = waits.iter();
        let waits = waits.filter_map(|(at, why)| Some((*why, at.left(now)?)));
        let mut waits: Vec<_> = waits.collect();
        waits.sort_by_key(|(_, left)| *left);
        let is_announced = !ending.must_announce(&context.job.status);
        Self {
            sums: Sums::of(machine),
            succeeded: counting.succeeded(&context),
            failed: counting.failed(&context),
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

/// The numbers of Pods and indexes by kind, for frequent reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Pods that are pending or running.
    pub active: u32,
    /// Active Pods that are ready.
    pub ready: u32,
    /// Pods that are being deleted.
    pub terminating: u32,
    /// Pods that have the tracking finalizer.
    pub with_finalizer: u32,
    /// Ended Pods that no status write carries yet.
    pub to_be_named: u32,
    /// Indexes that succeeded.
    pub completed: u32,
    /// Indexes that failed for good.
    pub failed: u32,
    /// Indexes that wait for their next Pod.
    pub in_backoff: u32,
}

impl Sums {
    /// Returns the sums of a machine.
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
    /// Returns the indexes of a machine; `None` for a Job without indexes.
    pub fn of(machine: &JobMachine) -> Option<Self> {
        let (context, counting, ..) = machine.parts();
        context.spec.is_indexed().then(|| counting.index_overview())
    }
}
