//! Tracks whether the Lease can be read and written, for the log, metrics and probes.
//!
//! Reads and writes fail for different reasons, so consecutive failures are counted separately: a successful read says
//! nothing about refused writes.
//!
//! Must not: decide which replica leads, or when to retry.

use std::sync::Arc;

use lakh_model::Monotonic;
use lakh_wire::ApiError;

use crate::{
    informer::{Contact, FailureRun, Tried},
    metrics::{Metrics, lease_health::LeaseHealth},
};

/// A request for the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseVerb {
    Read,
    Create,
    Update,
    /// An update without a change, by which a standby checks whether it could lead.
    DryRun,
}

impl LeaseVerb {
    fn label(self) -> &'static str {
        match self {
            Self::Read => "get",
            Self::Create => "create",
            Self::Update => "update",
            Self::DryRun => "dry run of an update",
        }
    }
}

/// The health of Lease requests. Pass each outcome to [`LeaseContact::handle_success`] or
/// [`LeaseContact::handle_failure`].
#[derive(Debug)]
pub(super) struct LeaseContact {
    lease: String,
    reads: Contact,
    failed_writes: Option<FailureRun>,
    health: Arc<LeaseHealth>,
    /// The first failure since a write succeeded.
    first_failure: Option<String>,
}

impl LeaseContact {
    pub(super) fn new(namespace: &str, name: &str, metrics: &Metrics) -> Self {
        Self {
            lease: format!("{namespace}/{name}"),
            reads: Contact::new(metrics.watch("leases", Some(namespace.into()))),
            failed_writes: None,
            health: metrics.lease(name),
            first_failure: None,
        }
    }

    /// Records a successful response.
    pub(super) fn handle_success(&mut self, verb: LeaseVerb, now: Monotonic) {
        self.reads.heard(now);
        if verb == LeaseVerb::Read {
            return;
        }
        self.first_failure = None;
        self.health.record_success();
        let Some(run) = self.failed_writes.take() else {
            return;
        };
        if let Some(seconds) = run.reported_seconds(now) {
            let (lease, failures) = (&self.lease, run.failures);
            tracing::info!(lease, seconds, failures, "the Lease can be written again");
        }
    }

    /// Records a refusal or a timeout.
    pub(super) fn handle_failure(&mut self, verb: LeaseVerb, error: &ApiError, now: Monotonic) {
        let what = verb.label();
        let words = || format!("{what}: {error}");
        self.first_failure.get_or_insert_with(words);
        if verb == LeaseVerb::Read {
            self.reads.failed(Tried::Lease, error, now);
            return;
        }
        self.health.record_failure(words(), now);
        let run = self.failed_writes.get_or_insert(FailureRun::new(now));
        if run.add(true, now) {
            let (lease, failures) = (&self.lease, run.failures);
            tracing::warn!(lease, what, failures, %error, "could not write the Lease; will retry");
        }
    }

    /// Returns the first failure since a write succeeded: the reason why the Lease is not renewed.
    pub(super) fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }
}
