//! Workloads and PodGroups of the cluster, where gangs are asked for: known by watches, and by the answers
//! to own writes.
//!
//! A Job's turn takes its facts from here. Their changes give no Job a turn, as upstream.
//!
//! Must not: decide what a Job is to have of them; that is [`crate::decide`].

use crate::{
    informer::Kind,
    model::{GangFacts, GangObject, JobKey, PodGroup, Uid, Workload},
    wire::{
        Call, ExpectedAnswer, SchedulingApi, decode_pod_group, decode_workload, gang_object_body,
    },
};

use super::{
    gang_index::{Index, Known},
    outbox::Named,
};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Gangs {
    api: SchedulingApi,
    /// By the Job that they refer to.
    pub(super) workloads: Index<Workload>,
    /// By the Workload that they refer to.
    pub(super) groups: Index<PodGroup>,
}

impl Gangs {
    /// Nothing is known of any object yet.
    pub(super) fn new(api: SchedulingApi) -> Self {
        Self {
            api,
            workloads: Index::default(),
            groups: Index::default(),
        }
    }

    /// What is known of the gang of a Job of this name.
    pub(super) fn facts(&self, job: &JobKey) -> GangFacts {
        let workloads = self.workloads.referring_to(&job.namespace, &job.name);
        let groups = workloads
            .iter()
            .flat_map(|workload| self.groups.referring_to(&job.namespace, &workload.name))
            .collect();
        GangFacts { workloads, groups }
    }

    /// What is known of the objects of a kind; of other kinds there is nothing here.
    pub(super) fn of(&mut self, kind: Kind) -> Option<&mut dyn Known> {
        match kind {
            Kind::Workload => Some(&mut self.workloads),
            Kind::PodGroup => Some(&mut self.groups),
            Kind::Job | Kind::Pod | Kind::CronJob => None,
        }
    }

    /// The call that makes an object for a Job. Its answer is for [`Gangs::made`].
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

    /// Takes in the answer to a creation: once it is there, the object is among the facts. False if the
    /// answer cannot be read; then the watch will tell of it.
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
