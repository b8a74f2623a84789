//! Models Workloads and PodGroups, existing and to be created. They make the scheduler place a Job's Pods all together
//! or not at all.
//!
//! Must not: hold more of their fields than decisions need, or know their JSON.

use std::sync::Arc;

use compact_str::CompactString;

use super::Uid;

/// A Workload: describes how a Job's Pods are grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name.
    pub name: CompactString,
    /// Its UID.
    pub uid: Uid,
    /// The object that controls it, if any.
    pub controller: Option<Uid>,
    /// The templates of its groups.
    pub templates: Vec<PodGroupTemplate>,
}

/// The template of a group of a Workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGroupTemplate {
    /// Its name within the Workload.
    pub name: CompactString,
    /// `schedulingPolicy` as the server sent it: copied verbatim, not parsed.
    pub policy: Arc<str>,
}

/// A PodGroup: one group of Pods at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGroup {
    /// Its name.
    pub name: CompactString,
    /// The object that controls it, if any.
    pub controller: Option<Uid>,
}

/// The existing Workloads and PodGroups of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GangFacts {
    /// The Workloads that refer to a Job of that name.
    pub workloads: Vec<Arc<Workload>>,
    /// The PodGroups that refer to any of them.
    pub groups: Vec<Arc<PodGroup>>,
}

/// An object of a gang to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GangObject {
    /// The Workload, created first.
    Workload(NewWorkload),
    /// The PodGroup of its template, created second.
    PodGroup(NewPodGroup),
}

impl GangObject {
    /// Its name.
    pub fn name(&self) -> &CompactString {
        match self {
            Self::Workload(workload) => &workload.name,
            Self::PodGroup(group) => &group.name,
        }
    }
}

/// A Workload to be created, with one template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWorkload {
    /// Its name.
    pub name: CompactString,
    /// The name of its template.
    pub template: CompactString,
    /// The number of Pods that must be scheduled at once.
    pub min_count: u32,
}

/// A PodGroup to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPodGroup {
    /// Its name.
    pub name: CompactString,
    /// The name of its Workload.
    pub workload: CompactString,
    /// The UID of its Workload.
    pub workload_uid: Uid,
    /// The Workload's template that it instantiates.
    pub template: PodGroupTemplate,
}
