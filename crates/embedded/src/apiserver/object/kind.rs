//! Declares the table of resource kinds, which drives routing, storage and discovery.
//!
//! Responsible for: names and shapes of kinds. Must not: hold behaviour of single kinds.

use k8s_openapi::{
    Resource,
    api::{
        admissionregistration::v1 as admission, apps::v1 as apps, batch::v1 as batch,
        coordination::v1 as coordination, core::v1 as core, networking::v1 as networking,
        policy::v1 as policy, rbac::v1 as rbac, resource::v1 as resource,
        scheduling::v1alpha2 as scheduling, storage::v1 as storage,
    },
    schemars::{JsonSchema, Schema, SchemaGenerator},
};

/// The properties of a kind that routing and discovery use.
#[derive(Debug)]
pub struct KindInfo {
    /// The kind that this row describes.
    pub kind: Kind,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version within the group.
    pub version: &'static str,
    /// `group/version`, or the version alone in the core group.
    pub api_version: &'static str,
    /// Resource name in paths.
    pub plural: &'static str,
    /// Type name.
    pub name: &'static str,
    /// Abbreviations for kubectl.
    pub short_names: &'static [&'static str],
    /// Objects of this kind live in a namespace.
    pub namespaced: bool,
    /// Paths below an object, with their verbs.
    pub subresources: &'static [Subresource],
    /// Groups for `kubectl get all`.
    pub categories: &'static [&'static str],
    /// `metadata.generation` counts the changes of the spec.
    pub counts_generations: bool,
    /// Adds the schema of the kind's type to a generator.
    pub(super) add_schema: fn(&mut SchemaGenerator) -> Schema,
}

/// A path below an object, such as `status`.
#[derive(Debug)]
pub struct Subresource {
    /// Last path segment.
    pub name: &'static str,
    /// Kind of the body.
    pub kind: &'static str,
    /// Group and version of the body where they differ from the parent's.
    pub group_version: Option<(&'static str, &'static str)>,
    /// The verbs that it serves.
    pub verbs: &'static [&'static str],
}

/// Verbs of every main resource.
pub(crate) const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

const fn part(
    name: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
) -> Subresource {
    Subresource {
        name,
        kind,
        group_version: None,
        verbs,
    }
}

const fn status(kind: &'static str) -> Subresource {
    part("status", kind, &["get", "patch", "update"])
}

const EVICTION: Subresource = Subresource {
    group_version: Some(("policy", "v1")),
    ..part("eviction", "Eviction", &["create"])
};

/// The row of a namespaced kind whose type is `K`, with defaults that the methods below change.
const fn row<K: Resource + JsonSchema>(kind: Kind) -> KindInfo {
    KindInfo {
        kind,
        group: K::GROUP,
        version: K::VERSION,
        api_version: K::API_VERSION,
        plural: K::URL_PATH_SEGMENT,
        name: K::KIND,
        short_names: &[],
        namespaced: true,
        subresources: &[],
        categories: &[],
        counts_generations: false,
        add_schema: SchemaGenerator::subschema_for::<K>,
    }
}

impl KindInfo {
    const fn short_names(self, short_names: &'static [&'static str]) -> Self {
        Self {
            short_names,
            ..self
        }
    }

    const fn subresources(self, subresources: &'static [Subresource]) -> Self {
        Self {
            subresources,
            ..self
        }
    }

    const fn cluster_scoped(self) -> Self {
        Self {
            namespaced: false,
            ..self
        }
    }

    /// Adds the kind to `kubectl get all`.
    const fn in_all(self) -> Self {
        Self {
            categories: &["all"],
            ..self
        }
    }

    const fn counts_generations(self) -> Self {
        Self {
            counts_generations: true,
            ..self
        }
    }
}

/// Declares [`Kind`] and [`KINDS`] from one table. An entry is a variant, its type, and the methods of [`KindInfo`]
/// that change the defaults of its row.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $type:ty $(, $set:ident $values:tt)*;)+) => {
        /// A kind of object that the server stores.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* $name,)+
        }

        /// All kinds, in the order of the variants of [`Kind`].
        pub static KINDS: &[KindInfo] = &[$(row::<$type>(Kind::$name)$(.$set $values)*,)+];
    };
}

// A kind is stored, listed, watched, patched and discovered with its entry alone: the fields come from its type. Its
// group is listed in `GROUPS`. Merge keys (`schemas.txt`), protobuf bodies (`numbers.txt`), table columns
// (`columns.txt`) and rules (`kinds/strategy.rs`) are added where the kind needs them.
kinds! {
    /// `v1` Pod.
    Pod: core::Pod, short_names(&["po"]), in_all(), counts_generations(), subresources(&[
        status("Pod"),
        part("binding", "Binding", &["create"]),
        EVICTION,
        part("log", "Pod", &["get"]),
    ]);
    /// `batch/v1` Job.
    Job: batch::Job, in_all(), counts_generations(), subresources(&[status("Job")]);
    /// `v1` Namespace.
    Namespace: core::Namespace, short_names(&["ns"]), cluster_scoped(), subresources(&[
        status("Namespace"),
        part("finalize", "Namespace", &["update"]),
    ]);
    /// `v1` Node.
    Node: core::Node, short_names(&["no"]), cluster_scoped(), subresources(&[status("Node")]);
    /// `v1` Event.
    Event: core::Event, short_names(&["ev"]);
    /// `coordination.k8s.io/v1` Lease.
    Lease: coordination::Lease;
    /// `batch/v1` CronJob.
    CronJob: batch::CronJob, short_names(&["cj"]), in_all(), counts_generations(), subresources(&[status("CronJob")]);
    /// `v1` ServiceAccount.
    ServiceAccount: core::ServiceAccount, short_names(&["sa"]);
    /// `v1` ConfigMap.
    ConfigMap: core::ConfigMap, short_names(&["cm"]);
    /// `v1` Secret.
    Secret: core::Secret;
    /// `scheduling.k8s.io/v1alpha2` Workload.
    Workload: scheduling::Workload;
    /// `scheduling.k8s.io/v1alpha2` PodGroup.
    PodGroup: scheduling::PodGroup, subresources(&[status("PodGroup")]);
    /// `v1` ResourceQuota.
    ResourceQuota: core::ResourceQuota, short_names(&["quota"]), subresources(&[status("ResourceQuota")]);
    /// `v1` Service.
    Service: core::Service, short_names(&["svc"]), in_all(), subresources(&[status("Service")]);
    /// `v1` PersistentVolumeClaim.
    PersistentVolumeClaim: core::PersistentVolumeClaim, short_names(&["pvc"]), subresources(&[
        status("PersistentVolumeClaim"),
    ]);
    /// `v1` PersistentVolume.
    PersistentVolume: core::PersistentVolume, short_names(&["pv"]), cluster_scoped(), subresources(&[
        status("PersistentVolume"),
    ]);
    /// `v1` LimitRange.
    LimitRange: core::LimitRange, short_names(&["limits"]);
    /// `apps/v1` Deployment.
    Deployment: apps::Deployment, short_names(&["deploy"]), in_all(), counts_generations(), subresources(&[
        status("Deployment"),
    ]);
    /// `apps/v1` StatefulSet.
    StatefulSet: apps::StatefulSet, short_names(&["sts"]), in_all(), counts_generations(), subresources(&[
        status("StatefulSet"),
    ]);
    /// `apps/v1` DaemonSet.
    DaemonSet: apps::DaemonSet, short_names(&["ds"]), in_all(), counts_generations(), subresources(&[
        status("DaemonSet"),
    ]);
    /// `rbac.authorization.k8s.io/v1` Role.
    Role: rbac::Role;
    /// `rbac.authorization.k8s.io/v1` RoleBinding.
    RoleBinding: rbac::RoleBinding;
    /// `rbac.authorization.k8s.io/v1` ClusterRole.
    ClusterRole: rbac::ClusterRole, cluster_scoped();
    /// `rbac.authorization.k8s.io/v1` ClusterRoleBinding.
    ClusterRoleBinding: rbac::ClusterRoleBinding, cluster_scoped();
    /// `networking.k8s.io/v1` Ingress.
    Ingress: networking::Ingress, short_names(&["ing"]), counts_generations(), subresources(&[status("Ingress")]);
    /// `networking.k8s.io/v1` IngressClass.
    IngressClass: networking::IngressClass, cluster_scoped(), counts_generations();
    /// `networking.k8s.io/v1` NetworkPolicy.
    NetworkPolicy: networking::NetworkPolicy, short_names(&["netpol"]), counts_generations();
    /// `policy/v1` PodDisruptionBudget.
    PodDisruptionBudget: policy::PodDisruptionBudget, short_names(&["pdb"]), counts_generations(), subresources(&[
        status("PodDisruptionBudget"),
    ]);
    /// `storage.k8s.io/v1` StorageClass.
    StorageClass: storage::StorageClass, short_names(&["sc"]), cluster_scoped();
    /// `resource.k8s.io/v1` ResourceClaimTemplate.
    ResourceClaimTemplate: resource::ResourceClaimTemplate;
    /// `admissionregistration.k8s.io/v1` ValidatingWebhookConfiguration; no webhook is called.
    ValidatingWebhookConfiguration: admission::ValidatingWebhookConfiguration, cluster_scoped(), counts_generations();
    /// `admissionregistration.k8s.io/v1` MutatingWebhookConfiguration; no webhook is called.
    MutatingWebhookConfiguration: admission::MutatingWebhookConfiguration, cluster_scoped(), counts_generations();
}

/// `events.k8s.io/v1` Event: [`Kind::Event`] in another API group.
pub(crate) static EVENTS_V1: KindInfo =
    row::<k8s_openapi::api::events::v1::Event>(Kind::Event).short_names(&["ev"]);

/// The rows of all served kinds, including a stored kind in another API group.
pub(crate) fn served_rows() -> impl Iterator<Item = &'static KindInfo> {
    KINDS.iter().chain([&EVENTS_V1])
}

/// Groups in discovery order without the core group, each with its one version.
pub(crate) const GROUPS: [(&str, &str); 11] = [
    ("apps", "v1"),
    ("events.k8s.io", "v1"),
    ("batch", "v1"),
    ("networking.k8s.io", "v1"),
    ("policy", "v1"),
    ("rbac.authorization.k8s.io", "v1"),
    ("storage.k8s.io", "v1"),
    ("admissionregistration.k8s.io", "v1"),
    ("resource.k8s.io", "v1"),
    ("scheduling.k8s.io", "v1alpha2"),
    ("coordination.k8s.io", "v1"),
];

impl Kind {
    /// This kind's row.
    pub fn info(self) -> &'static KindInfo {
        &KINDS[self as usize]
    }

    /// The kind with this `apiVersion` and `kind`.
    pub(crate) fn named(api_version: &str, name: &str) -> Option<Self> {
        let is_it = |info: &&KindInfo| info.api_version == api_version && info.name == name;
        KINDS.iter().find(is_it).map(|info| info.kind)
    }

    /// Finds the kind that an API group and version serves under a plural name.
    pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<Self> {
        KINDS
            .iter()
            .find(|row| row.plural == plural && row.group == group && row.version == version)
            .map(|row| row.kind)
    }

    /// Finds the kind by the name that [`Self::qualified`] returns.
    pub(crate) fn find_qualified(name: &str) -> Option<Self> {
        Self::all().find(|kind| kind.qualified() == name)
    }

    /// The plural with its group as in error texts: `jobs.batch`.
    pub(crate) fn qualified(self) -> String {
        qualify(self.info().plural, self.info().group)
    }

    /// The type name with its group as in error texts: `Job.batch`.
    pub(crate) fn qualified_name(self) -> String {
        qualify(self.info().name, self.info().group)
    }

    /// All kinds.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|row| row.kind)
    }
}

impl KindInfo {
    /// The first part of the API group, which distinguishes Go types with equal names.
    pub(crate) fn short_group(&self) -> &'static str {
        match self.group {
            "" => "core",
            group => group.split('.').next().unwrap_or(group),
        }
    }

    /// Finds a subresource by its path segment.
    pub(crate) fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }
}

/// A name with its group, if it has one: `jobs.batch`.
pub(crate) fn qualify(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_all_kinds_are_discovered() {
        for row in KINDS {
            let group = (row.group, row.version);
            assert!(
                group == ("", "v1") || GROUPS.contains(&group),
                "{}",
                row.plural
            );
        }
    }
}
