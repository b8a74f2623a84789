//! What was seen on the cluster, and what could not be seen.
//!
//! Objects that are many are reduced to what is looked at ([`jobs`], [`pods`]); of the others the API's types are kept.
//!
//! Must not: ask anybody, or judge.

pub(super) mod admission;
pub(super) mod jobs;
pub(super) mod pods;

use crate::model::{Labels, Time};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Event, Namespace, ResourceQuota},
        flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration},
    },
    jiff::Timestamp,
};

use crate::{cli::objects::ServerLease, wire::roster_of};

pub(super) use crate::cli::ask::{ClockFacts, Sight, Unseen};

use admission::AdmissionFacts;
use jobs::JobFacts;
use pods::HeldPod;

/// The reason of an Event on a Job on which lakh has noticed another controller.
pub(super) const ANOTHER_CONTROLLER: &str = "AnotherController";

/// The process with the built-in controllers: so their Lease is called, and so the server names it as a writer.
pub(super) const BUILT_IN: &str = "kube-controller-manager";

/// All that was seen.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// By the server's clock, if it shows one; times in objects are compared with it.
    pub(super) now: Time,
    pub(super) server: ServerFacts,
    pub(super) rights: Sight<RightFacts>,
    /// True if the controller's service account exists; none if no account was named.
    pub(super) account: Option<Result<bool, Unseen>>,
    pub(super) leases: Sight<LeaseFacts>,
    pub(super) jobs: Sight<JobFacts>,
    /// Pods that a finalizer for the counting of Jobs' Pods holds.
    pub(super) pods: Sight<HeldPod>,
    /// Warning Events about Jobs.
    pub(super) events: Sight<Event>,
    pub(super) quotas: Sight<ResourceQuota>,
    pub(super) namespaces: Sight<NamespaceFacts>,
    pub(super) admission: AdmissionFacts,
    pub(super) flow_schemas: Sight<FlowSchema>,
    pub(super) priority_levels: Sight<PriorityLevelConfiguration>,
}

/// The server, by its version and by the headers of an answer.
#[derive(Debug, Default)]
pub(super) struct ServerFacts {
    /// Its version, as it spells it.
    pub(super) version: String,
    /// Major and minor number, if they are numbers.
    pub(super) numbers: Option<(u32, u32)>,
    /// Why there is no version, if there is none.
    pub(super) unseen: Option<Unseen>,
    /// As whom it knows us, if it says so.
    pub(super) user: Option<String>,
    pub(super) clock: Option<ClockFacts>,
    /// UIDs of the FlowSchema and the PriorityLevelConfiguration by which it answered.
    pub(super) flow: Option<[String; 2]>,
}

/// Something that the controller has to be allowed, and whether it is.
#[derive(Clone, Debug)]
pub(super) struct RightFacts {
    pub(super) verb: &'static str,
    pub(super) group: &'static str,
    /// With the subresource, if it is one.
    pub(super) resource: &'static str,
    /// None: everywhere.
    pub(super) namespace: Option<String>,
    /// Of which object alone, if not of all.
    pub(super) name: Option<String>,
    pub(super) is_allowed: bool,
}

/// A Lease, seen once or twice.
#[derive(Clone, Debug)]
pub(super) struct LeaseFacts {
    /// When it was seen, by the server's clock.
    pub(super) seen: Time,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Empty if nobody holds it.
    pub(super) holder: String,
    pub(super) seconds: i64,
    pub(super) renewed: Option<Time>,
    /// Whether it was renewed between two looks. It is looked at twice only if nobody seems to lead.
    pub(super) is_moving: bool,
    /// How many hold it together, and how many ranges these have, if they share.
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

    /// Whether its time was over though somebody held it.
    pub(super) fn is_over(&self) -> bool {
        let renewed = self.renewed.map_or(0, Time::as_millis);
        !self.holder.is_empty() && renewed + self.seconds * 1000 < self.seen.as_millis()
    }

    /// Whether somebody leads by it.
    pub(super) fn is_live(&self) -> bool {
        !self.holder.is_empty() && (self.is_moving || !self.is_over())
    }

    /// Whether an API server renews it to say that it is there, every ten seconds.
    pub(super) fn is_of_server(&self) -> bool {
        ServerLease::is_of_server(&self.namespace, &self.name)
    }

    /// Namespace and name.
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
