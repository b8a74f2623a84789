//! Assembles the controller from parts, each with a loop of its own.
//!
//! Usually there is one part, a [`Replica`]: informers, the election candidate, and one shard, or one for each range
//! that replicas share. With shards on threads of their own there is a [`Feed`] (informers and candidate) and each
//! [`Shard`](crate::shard::Shard). Parts share nothing; they exchange [`Message`]s, which their driver (loops over
//! channels, or a simulation) delivers in order.
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

use lakh_model::{Monotonic, Now};

use crate::{
    informer::{Kind, News, Notice},
    machine::{CallId, Machine},
    shard::{Controllers, JobDescription, Question},
};

pub use candidate::{Candidate, LeaderElection, is_candidates};
pub use common::Common;
pub use replica::Replica;
pub use sharded::Feed;

/// A message between parts.
#[derive(Debug)]
pub enum Message {
    /// An object event, for the shard of its namespace.
    News(Box<News<'static>>),
    /// A change of the sync state or of leadership, for all shards.
    Notice(Notice),
    /// A shard has found that a history has ended; for the informers.
    HistoryEnded(u64),
}

/// The receiver of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The informers.
    Feed,
    /// The shard with this number.
    Shard(usize),
}

/// A part of the controller with a loop of its own. By default it neither receives nor sends messages.
pub trait Part: Machine + Send + 'static {
    /// Handles a message from another part.
    fn receive(&mut self, _message: Message, _now: Now) {}

    /// Returns the next message for another part. Poll it after each input, message and request.
    fn poll_message(&mut self) -> Option<(Recipient, Message)> {
        None
    }

    /// Returns the kinds that were never listed in full, if this part has the informers.
    fn missing(&self) -> Option<Vec<&'static str>> {
        None
    }

    /// Answers a query about Jobs; empty if this part has none.
    fn answer_question(&self, _question: &Question, _now: Now) -> Vec<JobDescription> {
        Vec::new()
    }

    /// Returns the shard that sent a request.
    fn shard_of_call(&self, _id: CallId) -> usize {
        0
    }

    /// Returns the write deadline of a shard, if it depends on a Lease and this part has the candidate.
    fn leads_until(&self, _shard: usize) -> Option<Monotonic> {
        None
    }
}

/// Returns the kinds to watch for these controllers: Jobs before their Pods, CronJobs and, if enabled, gangs.
pub fn kinds(controllers: Controllers, with_gangs: bool) -> Vec<Kind> {
    let mut kinds = vec![Kind::Job];
    kinds.extend(controllers.job.then_some(Kind::Pod));
    kinds.extend(controllers.cronjob.then_some(Kind::CronJob));
    if with_gangs {
        kinds.extend([Kind::Workload, Kind::PodGroup]);
    }
    kinds
}
