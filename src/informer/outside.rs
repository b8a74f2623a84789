//! What all reflectors share.
//!
//! Must not: know how a kind is listed or watched.

use std::{collections::VecDeque, sync::Arc};

use crate::{machine::CallId, metrics::Metrics, model::Monotonic};

use super::{asked::AskedJobs, news::Notice, read_ranges::ReadRanges};

/// Whom reflectors ask, and what they have to tell.
#[derive(Debug)]
pub(super) struct Outside {
    /// Which history of the cluster's objects is told.
    pub(super) history: u64,
    /// How often it was asked that all be listed anew.
    pub(super) round: u64,
    pub(super) notices: VecDeque<Notice>,
    /// Streams that nobody waits for any more.
    pub(super) abandoned: VecDeque<CallId>,
    /// What is read, where replicas share.
    pub(super) ranges: Option<ReadRanges>,
    pub(super) asked: AskedJobs,
    pub(super) metrics: Arc<Metrics>,
    pub(super) now: Monotonic,
}

impl Outside {
    /// What a list or a watch asks for besides.
    pub(super) fn query(&self) -> &str {
        self.ranges.as_ref().map_or("", ReadRanges::query)
    }

    /// The server tells another history than this one. Whoever finds out first begins the next.
    pub(super) fn end_history(&mut self, number: u64) {
        if self.history == number {
            self.history += 1;
            self.metrics.cache_resets.inc();
        }
    }
}
