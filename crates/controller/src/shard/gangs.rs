//! Caches Workloads and PodGroups, if gangs are enabled, from watches and from the responses to our writes.
//!
//! A Job's sync reads its gang objects here. As upstream, their changes do not queue a Job.
//!
//! Must not: decide which of them a Job needs; that is [`lakh_core::decide`].

use lakh_model::{GangFacts, GangObject, JobKey, PodGroup, Uid, Workload};
use lakh_wire::{
    Call, ExpectedAnswer, SchedulingApi, decode_pod_group, decode_workload, gang_object_body,
};

use crate::informer::Kind;

use super::{
    gang_index::{Index, Known},
    outbox::Named,
};

/// The Workloads and PodGroups of a shard.
#[derive(Debug)]
pub(super) struct Gangs {
    api: SchedulingApi,
    /// By the Job that they refer to.
    pub(super) workloads: Index<Workload>,
    /// By the Workload that they refer to.
    pub(super) groups: Index<PodGroup>,
}

impl Gangs {
    /// Creates an empty cache.
    pub(super) fn new(api: SchedulingApi) -> Self {
        Self {
            api,
            workloads: Index::default(),
            groups: Index::default(),
        }
    }

    /// Returns the gang objects of a Job with this name.
    pub(super) fn facts(&self, job: &JobKey) -> GangFacts {
        let workloads = self.workloads.referring_to(&job.namespace, &job.name);
        let groups = workloads
            .iter()
            .flat_map(|workload| self.groups.referring_to(&job.namespace, &workload.name))
            .collect();
        GangFacts { workloads, groups }
    }

    /// Returns the cache of a kind; none for kinds other than Workload and PodGroup.
    pub(super) fn of(&mut self, kind: Kind) -> Option<&mut dyn Known> {
        match kind {
            Kind::Workload => Some(&mut self.workloads),
            Kind::PodGroup => Some(&mut self.groups),
            Kind::Job | Kind::Pod | Kind::CronJob => None,
        }
    }

    /// Returns the request that creates an object for a Job. Pass its response to [`Gangs::made`].
    pub(super) fn creation(&self, job: &JobKey, uid: Uid, object: &GangObject) -> Named {
        let namespace = Some(job.namespace.as_str());
        let (kind, path) = match object {
            GangObject::Workload(_) => (Kind::Workload, self.api.workloads(namespace)),
            GangObject::PodGroup(_) => (Kind::PodGroup, self.api.pod_groups(namespace)),
        };
        let body = gang_object_body(&self.api, job, uid, object);
        let expected = ExpectedAnswer::Named(object.name().as_str().into());
        let creation = Call::create_whole(path, body);
        Named::new("create", kind.plural(), creation, expected)
    }

    /// Applies the response to a creation. Returns false if it cannot be decoded; then the watch will show the object.
    pub(super) fn made(&mut self, object: &GangObject, answer: &[u8]) -> bool {
        let Ok(json) = std::str::from_utf8(answer) else {
            return false;
        };
        let read = match object {
            GangObject::Workload(_) => decode_workload(json).map(|read| self.workloads.made(read)),
            GangObject::PodGroup(_) => decode_pod_group(json).map(|read| self.groups.made(read)),
        };
        read.is_ok()
    }
}
