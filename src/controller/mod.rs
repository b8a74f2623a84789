//! The controller, as the parts of it that have a loop of their own.
//!
//! Usually there is one part, a [`Replica`]: informers, the candidate for the lead and a shard, or one for each range
//! that replicas share. With shards on threads of their own there is a [`Feed`], the informers and the candidate, and
//! each [`Shard`](crate::shard::Shard). Parts share nothing; they send each other [`Message`]s, and whoever runs them,
//! loops over channels or a simulation, delivers these in order.
//!
//! Must not: decide anything; it passes on.

mod candidate;
mod common;
mod lease_contact;
mod lease_probe;
mod lease_watch;
mod ranges;
mod replica;
mod sharded;

use crate::{
    informer::{Kind, News, Notice},
    machine::{CallId, Machine},
    model::{Monotonic, Now},
    shard::{Controllers, JobDescription, Question},
};

pub use candidate::{Candidate, LeaderElection, is_candidates};
pub use common::Common;
pub use replica::Replica;
pub use sharded::Feed;

/// What one part tells another.
#[derive(Debug)]
pub enum Message {
    /// News of an object, for the shard of its namespace.
    News(Box<News<'static>>),
    /// What concerns everything that is known, for all shards.
    Notice(Notice),
    /// A history has ended, as a shard found out; for the informers.
    HistoryEnded(u64),
}

/// Which part a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The informers.
    Feed,
    /// The shard of this number.
    Shard(usize),
}

/// A part of the controller that has a loop of its own; unless it says otherwise, nobody sends it anything, and it
/// sends nothing to others.
pub trait Part: Machine + Send + 'static {
    /// Takes in a message from another part.
    fn receive(&mut self, _message: Message, _now: Now) {}

    /// Gives a message for another part; to be asked after each input, message and request.
    fn poll_message(&mut self) -> Option<(Recipient, Message)> {
        None
    }

    /// The kinds that were never listed in full, if it is here that this is known.
    fn missing(&self) -> Option<Vec<&'static str>> {
        None
    }

    /// What it knows of Jobs, for people who ask; nothing, if it has none.
    fn answer_question(&self, _question: &Question, _now: Now) -> Vec<JobDescription> {
        Vec::new()
    }

    /// Which of its shards a request is of.
    fn shard_of_call(&self, _id: CallId) -> usize {
        0
    }

    /// Until when a shard may write, if that hangs on a Lease and it is here that this is known.
    fn leads_until(&self, _shard: usize) -> Option<Monotonic> {
        None
    }
}

/// The kinds that such controllers watch: Jobs before their Pods, CronJobs and, if they are asked for, gangs.
pub fn kinds(controllers: Controllers, with_gangs: bool) -> Vec<Kind> {
    let mut kinds = vec![Kind::Job];
    kinds.extend(controllers.job.then_some(Kind::Pod));
    kinds.extend(controllers.cronjob.then_some(Kind::CronJob));
    if with_gangs {
        kinds.extend([Kind::Workload, Kind::PodGroup]);
    }
    kinds
}
