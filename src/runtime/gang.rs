//! Workloads and PodGroups of the cluster, where gangs are asked for: known by watches, made by the
//! writer.
//!
//! A Job's turn takes its facts from here. Their changes give no Job a turn, as upstream.
//!
//! Must not: decide what a Job is to have of them; that is [`crate::decide`].

use parking_lot::Mutex;

use hashbrown::HashSet;

use crate::{
    cluster::Client,
    decide::Outcome,
    model::{GangFacts, GangObject, JobKey, PodGroup, Uid, Workload},
    wire::{
        ApiError, DecodedGangObject, ErrorKind, SchedulingApi, decode_pod_group, decode_workload,
        gang_object_body,
    },
};

use super::{
    gang_index::Index,
    write_queue::Place,
    writer::{Write, Writer, why_not_created},
};

/// The server has no gangs.
#[derive(Debug, thiserror::Error)]
pub enum GangError {
    /// It serves no version of the API that has both kinds.
    #[error(
        "the API server does not serve Workload and PodGroup of scheduling.k8s.io (v1alpha2 or later); \
         it must be started with --feature-gates=GenericWorkload=true and a --runtime-config that has \
         the version"
    )]
    NotServed,
    /// It does not say what it serves.
    #[error("what the API server serves of scheduling.k8s.io cannot be learned: {0}")]
    Unknown(String),
}

/// The two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GangKind {
    Workload,
    PodGroup,
}

impl GangKind {
    pub(super) const BOTH: [Self; 2] = [Self::Workload, Self::PodGroup];

    pub(super) const fn plural(self) -> &'static str {
        match self {
            Self::Workload => "workloads",
            Self::PodGroup => "podgroups",
        }
    }
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Gangs {
    api: SchedulingApi,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By the Job that they refer to.
    workloads: Index<Workload>,
    /// By the Workload that they refer to.
    groups: Index<PodGroup>,
}

/// What was read of an object.
enum Decoded {
    Workload(DecodedGangObject<Workload>),
    PodGroup(DecodedGangObject<PodGroup>),
}

impl Decoded {
    fn read(kind: GangKind, json: &str) -> Result<Self, serde_json::Error> {
        match kind {
            GangKind::Workload => decode_workload(json).map(Self::Workload),
            GangKind::PodGroup => decode_pod_group(json).map(Self::PodGroup),
        }
    }

    fn seen(&self) -> (Uid, u64) {
        match self {
            Self::Workload(read) => (read.uid, read.resource_version),
            Self::PodGroup(read) => (read.uid, read.resource_version),
        }
    }
}

impl Gangs {
    /// Asks the server which version it serves; nothing is known of any object yet.
    pub(super) async fn discover(client: &Client) -> Result<Self, GangError> {
        let unknown = |error: serde_json::Error| GangError::Unknown(error.to_string());
        let group = client.get(&SchedulingApi::group_path()).await;
        let group = group.map_err(not_served)?;
        for api in SchedulingApi::offered(&group).map_err(unknown)? {
            let kinds = client.get(&api.path()).await.map_err(not_served)?;
            if SchedulingApi::serves_gangs(&kinds).map_err(unknown)? {
                tracing::info!(version = api.api_version(), "gangs are scheduled");
                return Ok(Self {
                    api,
                    known: Mutex::default(),
                });
            }
        }
        Err(GangError::NotServed)
    }

    /// What is known of the gang of a Job of this name.
    pub(super) fn facts(&self, job: &JobKey) -> GangFacts {
        let known = self.known.lock();
        let workloads = known.workloads.referring_to(&job.namespace, &job.name);
        let groups = workloads
            .iter()
            .flat_map(|workload| known.groups.referring_to(&job.namespace, &workload.name))
            .collect();
        GangFacts { workloads, groups }
    }

    /// Where the objects of a kind are, in all namespaces or in one.
    pub(super) fn path(&self, kind: GangKind, namespace: Option<&str>) -> String {
        match kind {
            GangKind::Workload => self.api.workloads(namespace),
            GangKind::PodGroup => self.api.pod_groups(namespace),
        }
    }

    /// Takes in a version of an object; gives its UID and version.
    pub(super) fn apply(
        &self,
        kind: GangKind,
        json: &str,
    ) -> Result<(Uid, u64), serde_json::Error> {
        let decoded = Decoded::read(kind, json)?;
        let seen = decoded.seen();
        let mut known = self.known.lock();
        match decoded {
            Decoded::Workload(read) => known.workloads.apply(read),
            Decoded::PodGroup(read) => known.groups.apply(read),
        }
        Ok(seen)
    }

    /// Takes in that an object is gone; gives its UID and last version.
    pub(super) fn delete(
        &self,
        kind: GangKind,
        json: &str,
    ) -> Result<(Uid, u64), serde_json::Error> {
        let (uid, version) = Decoded::read(kind, json)?.seen();
        let mut known = self.known.lock();
        match kind {
            GangKind::Workload => known.workloads.remove(uid),
            GangKind::PodGroup => known.groups.remove(uid),
        }
        Ok((uid, version))
    }

    /// Takes in that a list showed these and no others as of `version`.
    pub(super) fn retain(
        &self,
        kind: GangKind,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        version: u64,
    ) {
        let mut known = self.known.lock();
        match kind {
            GangKind::Workload => known.workloads.retain(namespace, listed, version),
            GangKind::PodGroup => known.groups.retain(namespace, listed, version),
        }
    }

    /// Notes how far the watch of a kind has come.
    pub(super) fn seen(&self, kind: GangKind, namespace: Option<&str>, version: u64) {
        let mut known = self.known.lock();
        match kind {
            GangKind::Workload => known.workloads.seen(namespace, version),
            GangKind::PodGroup => known.groups.seen(namespace, version),
        }
    }

    /// Takes in the answer to a creation.
    fn made(&self, kind: GangKind, json: &str) -> Result<(), serde_json::Error> {
        let decoded = Decoded::read(kind, json)?;
        let mut known = self.known.lock();
        match decoded {
            Decoded::Workload(read) => known.workloads.made(read),
            Decoded::PodGroup(read) => known.groups.made(read),
        }
        Ok(())
    }
}

fn not_served(error: ApiError) -> GangError {
    match error.kind {
        ErrorKind::NotFound => GangError::NotServed,
        _ => GangError::Unknown(error.to_string()),
    }
}

impl Writer {
    /// Makes a Workload or PodGroup; once it is there, it is among the facts.
    pub(super) async fn make_gang_object(
        &self,
        write: &Write,
        place: &mut Place,
        object: &GangObject,
    ) -> Outcome {
        let gangs = self.gangs.as_ref();
        let gangs = gangs.expect("only a machine that was told of gangs asks for one");
        let namespace = Some(write.job().namespace.as_str());
        let body = gang_object_body(&gangs.api, write.job(), write.cell.id.uid, object);
        let kind = match object {
            GangObject::Workload(_) => GangKind::Workload,
            GangObject::PodGroup(_) => GangKind::PodGroup,
        };
        let path = gangs.path(kind, namespace);
        let creation = self.client.create_whole(&path, body);
        let result = self.send(place, "create", kind.plural(), creation).await;
        let read = |answer: &[u8]| {
            let text = std::str::from_utf8(answer).ok();
            text.and_then(|json| gangs.made(kind, json).ok())
        };
        let error = match result {
            // One that cannot be read the watch will tell of.
            Ok(answer) if read(&answer).is_some() => return Outcome::GangObjectMade,
            Ok(_) => ApiError::no_answer("odd answer"),
            Err(error) => error,
        };
        let job = write.job();
        if !write.comes_again(&error) {
            tracing::warn!(%job, kind = kind.plural(), %error, "ensuring Workload and PodGroup");
        }
        Outcome::GangObjectNotMade(why_not_created(&error))
    }
}
