//! Reads the Leases of API servers, which show whether the store accepts writes.
//!
//! Each API server renews a Lease of its own every ten seconds. One that answers reads and has stopped renewing its
//! Lease cannot write. A dry run would not show that: it ends before the store.
//!
//! Must not: make a request, or read a clock.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;

use lakh_model::Time;

use lakh_model::SYSTEM_NAMESPACE;

use crate::words::span;

/// Name prefix of the Leases of API servers. Source: `pkg/controlplane/apiserver/server.go` of Kubernetes.
const PREFIX: &str = "apiserver-";

/// A slow server renews its Lease within this time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why Leases are not renewed, and the effect.
pub(crate) const STUCK_CAUSE: &str = "its store takes no writes: etcd has reached its quota (alarm NOSPACE), has no quorum, or its disk is full. \
     Meanwhile no controller can lead, count or make Pods";

/// The remedy.
pub(crate) const STUCK_REMEDY: &str = "see etcdctl endpoint status and etcdctl alarm list; compact and defragment etcd and disarm the alarm, or raise \
     its --quota-backend-bytes. Do not restart or add controllers for that";

/// The Lease of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerLease {
    /// Namespace and name.
    pub(crate) key: String,
    /// The time since it was renewed.
    pub(crate) age: Duration,
}

impl ServerLease {
    /// Returns true if an API server renews the Lease of this name.
    pub(crate) fn is_of_server(namespace: &str, name: &str) -> bool {
        namespace == SYSTEM_NAMESPACE && name.starts_with(PREFIX)
    }

    /// Reads a Lease as of `now`; none if it is not an API server's.
    pub(crate) fn read(lease: &Lease, now: Time) -> Option<Self> {
        let metadata = &lease.metadata;
        let (namespace, name) = (metadata.namespace.as_deref()?, metadata.name.as_deref()?);
        let renewed = lease.spec.as_ref()?.renew_time.as_ref()?;
        let renewed = Time::from_millis(renewed.0.as_millisecond());
        Self::is_of_server(namespace, name).then(|| Self {
            key: format!("{namespace}/{name}"),
            age: now.since(renewed),
        })
    }

    /// Returns the Lease with the latest renewal. True if that is too long ago for a server that can write.
    pub(crate) fn newest(leases: impl Iterator<Item = Self>) -> Option<(Self, bool)> {
        let newest = leases.min_by_key(|lease| lease.age)?;
        let is_stuck = newest.age > PATIENCE;
        Some((newest, is_stuck))
    }

    /// Formats half a sentence about a server that cannot write.
    pub(crate) fn stuck(&self) -> String {
        format!(
            "the API server answers, and has not renewed its Lease {} for {}",
            self.key,
            span(self.age)
        )
    }
}
