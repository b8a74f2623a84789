//! Defines the Lease of a leader election.

use super::{Roster, Time};

/// The content of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "LeaderElectionRecord")]
pub struct LeaseRecord {
    /// The leader; empty if there is none.
    pub holder: String,
    /// The lease duration for other replicas, in seconds.
    pub seconds: u32,
    /// When the holder acquired it.
    pub acquired: Option<Time>,
    /// When the holder last renewed it.
    pub renewed: Option<Time>,
    /// The number of changes of the holder.
    pub transitions: u32,
    /// The replicas that hold it together, if they share ranges.
    pub roster: Option<Roster>,
}

/// A Lease as stored on the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its content.
    pub record: LeaseRecord,
    /// Its resourceVersion.
    pub version: String,
}
