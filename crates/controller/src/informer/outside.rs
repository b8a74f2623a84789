//! Holds the state that all reflectors share.
//!
//! Must not: know how a kind is listed or watched.

use std::{collections::VecDeque, sync::Arc};

use lakh_model::Monotonic;

use crate::{machine::CallId, metrics::Metrics};

use super::{asked::AskedJobs, news::Notice, read_ranges::ReadRanges};

/// Shared state of the reflectors, and their queued output.
#[derive(Debug)]
pub(super) struct Outside {
    /// Number of the current history of the cluster's objects.
    pub(super) history: u64,
    /// Round of the last request to list everything anew.
    pub(super) round: u64,
    pub(super) notices: VecDeque<Notice>,
    /// Streams that are no longer needed.
    pub(super) abandoned: VecDeque<CallId>,
    /// The ranges to read, if replicas share the work.
    pub(super) ranges: Option<ReadRanges>,
    pub(super) asked: AskedJobs,
    pub(super) metrics: Arc<Metrics>,
    pub(super) now: Monotonic,
}

impl Outside {
    /// Returns the additional query parameters of lists and watches.
    pub(super) fn query(&self) -> &str {
        self.ranges.as_ref().map_or("", ReadRanges::query)
    }

    /// Ends this history and begins the next, unless another reflector or shard has already done so.
    pub(super) fn end_history(&mut self, number: u64) {
        if self.history == number {
            self.history += 1;
            self.metrics.cache_resets.inc();
        }
    }
}
