//! Holds the snapshot of the cluster, and the objects that could not be read.
//!
//! Numerous objects are reduced to the relevant fields ([`jobs`], [`pods`]); of the others the API's types are kept.
//!
//! Must not: make a request, or judge.

pub(super) mod admission;
pub(super) mod jobs;
pub(super) mod pods;

use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Event, Namespace, ResourceQuota},
        flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration},
    },
    jiff::Timestamp,
};
use lakh_model::{Labels, Time};

use lakh_wire::roster_of;

use crate::objects::ServerLease;

pub(super) use crate::ask::{ClockFacts, Sight, Unseen};

use admission::AdmissionFacts;
use jobs::JobFacts;
use pods::HeldPod;

/// Reason of the Event by which lakh reports another controller on a Job.
pub(super) const ANOTHER_CONTROLLER: &str = "AnotherController";

/// The process with the built-in controllers: the name of its Lease, and its field manager.
pub(super) const BUILT_IN: &str = "kube-controller-manager";

/// The snapshot.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The time of the snapshot, by the server's clock if known. Times in objects are compared with it.
    pub(super) now: Time,
    pub(super) server: ServerFacts,
    pub(super) rights: Sight<RightFacts>,
    /// True if the controller's service account exists; none if no account was given.
    pub(super) account: Option<Result<bool, Unseen>>,
    pub(super) leases: Sight<LeaseFacts>,
    pub(super) jobs: Sight<JobFacts>,
    /// Pods with a finalizer for the counting of Jobs' Pods.
    pub(super) pods: Sight<HeldPod>,
    /// Warning Events about Jobs.
    pub(super) events: Sight<Event>,
    pub(super) quotas: Sight<ResourceQuota>,
    pub(super) namespaces: Sight<NamespaceFacts>,
    pub(super) admission: AdmissionFacts,
    pub(super) flow_schemas: Sight<FlowSchema>,
    pub(super) priority_levels: Sight<PriorityLevelConfiguration>,
}

/// The server's version, and facts from the headers of a response.
#[derive(Debug, Default)]
pub(super) struct ServerFacts {
    /// Its version string.
    pub(super) version: String,
    /// Major and minor number, if they are numbers.
    pub(super) numbers: Option<(u32, u32)>,
    /// Why there is no version, if there is none.
    pub(super) unseen: Option<Unseen>,
    /// Our user name at the server, if known.
    pub(super) user: Option<String>,
    pub(super) clock: Option<ClockFacts>,
    /// UIDs of the FlowSchema and the PriorityLevelConfiguration of our request.
    pub(super) flow: Option<[String; 2]>,
}

/// A permission that the controller needs, and whether it has it.
#[derive(Clone, Debug)]
pub(super) struct RightFacts {
    pub(super) verb: &'static str,
    pub(super) group: &'static str,
    /// With the subresource, if there is one.
    pub(super) resource: &'static str,
    /// None: everywhere.
    pub(super) namespace: Option<String>,
    /// The only object that it is limited to, if any.
    pub(super) name: Option<String>,
    pub(super) is_allowed: bool,
}

/// A Lease, read once or twice.
#[derive(Clone, Debug)]
pub(super) struct LeaseFacts {
    /// When it was read, by the server's clock.
    pub(super) seen: Time,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Empty without a holder.
    pub(super) holder: String,
    pub(super) seconds: i64,
    pub(super) renewed: Option<Time>,
    /// The Lease was renewed between two reads. It is read twice only if no controller seems to lead.
    pub(super) is_moving: bool,
    /// The number of replicas that share it, and of their ranges.
    pub(super) replicas: Option<(usize, usize)>,
}

impl LeaseFacts {
    pub(super) fn of(lease: &Lease, seen: Time) -> Self {
        let spec = lease.spec.as_ref();
        let time = |at: Option<&Timestamp>| at.map(|at| Time::from_millis(at.as_millisecond()));
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
        let roster = lease.metadata.annotations.as_ref().and_then(roster_of);
        let replicas = roster.map(|roster| {
            let ranges = roster.0.values().map(|entry| entry.ranges.len());
            (roster.0.len(), ranges.sum())
        });
        Self {
            replicas,
            seen,
            namespace: lease.metadata.namespace.clone().unwrap_or_default(),
            name: lease.metadata.name.clone().unwrap_or_default(),
            holder: spec
                .and_then(|spec| spec.holder_identity.clone())
                .unwrap_or_default(),
            seconds: seconds.unwrap_or_default().into(),
            renewed: time(spec.and_then(|spec| Some(&spec.renew_time.as_ref()?.0))),
            is_moving: false,
        }
    }

    /// Returns true if the Lease has expired although it has a holder.
    pub(super) fn is_over(&self) -> bool {
        let renewed = self.renewed.map_or(0, Time::as_millis);
        !self.holder.is_empty() && renewed + self.seconds * 1000 < self.seen.as_millis()
    }

    /// Returns true if a controller leads by this Lease.
    pub(super) fn is_live(&self) -> bool {
        !self.holder.is_empty() && (self.is_moving || !self.is_over())
    }

    /// Returns true if an API server renews it as its own heartbeat, every ten seconds.
    pub(super) fn is_of_server(&self) -> bool {
        ServerLease::is_of_server(&self.namespace, &self.name)
    }

    /// Returns namespace and name.
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A namespace.
#[derive(Clone, Debug)]
pub(super) struct NamespaceFacts {
    pub(super) labels: Labels,
}

impl NamespaceFacts {
    pub(super) fn of(namespace: Namespace) -> Self {
        let labels = namespace.metadata.labels.into_iter().flatten();
        let labels = labels.map(|(key, value)| (key.into(), value.into()));
        Self {
            labels: labels.collect(),
        }
    }
}
