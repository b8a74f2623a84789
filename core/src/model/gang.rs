//! Workloads and PodGroups, by which a Job's Pods are scheduled all together or not at all: those that exist, and
//! those to be created.
//!
//! Must not: hold more of them than decisions need, or know their JSON.

use std::sync::Arc;

use compact_str::CompactString;

use super::Uid;

/// A Workload: how a Job's Pods are to be grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name.
    pub name: CompactString,
    /// Who it is.
    pub uid: Uid,
    /// The object that controls it, if any.
    pub controller: Option<Uid>,
    /// What its groups are like.
    pub templates: Vec<PodGroupTemplate>,
}

/// What a group of a Workload is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGroupTemplate {
    /// Its name within the Workload.
    pub name: CompactString,
    /// `schedulingPolicy` as the server sent it: it is copied, not understood.
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

/// What is known of a Job's gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GangFacts {
    /// The Workloads that refer to a Job of that name.
    pub workloads: Vec<Arc<Workload>>,
    /// The PodGroups that refer to any of them.
    pub groups: Vec<Arc<PodGroup>>,
}

/// An object of a gang that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GangObject {
    /// The Workload comes first.
    Workload(NewWorkload),
    /// Then the PodGroup of its template.
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

/// A Workload to be made, with one template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWorkload {
    /// Its name.
    pub name: CompactString,
    /// The name of its template.
    pub template: CompactString,
    /// How many Pods must find room at once.
    pub min_count: u32,
}

/// A PodGroup to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPodGroup {
    /// Its name.
    pub name: CompactString,
    /// The name of its Workload.
    pub workload: CompactString,
    /// The UID of its Workload.
    pub workload_uid: Uid,
    /// The Workload's template that it is made after.
    pub template: PodGroupTemplate,
}
