//! Finds the API paths of objects.
//!
//! Responsible for: the paths of the kinds that lakh's embedded cluster serves, and telling unserved kinds from
//! mistakes. Must not: read more than kind, version and namespace.

use super::{Document, ManifestError, ObjectName};
use crate::apiserver::{KINDS, KindInfo};

/// The namespace of objects without one.
pub const DEFAULT_NAMESPACE: &str = "default";

/// API paths of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePath {
    /// The path to POST to.
    pub collection: String,
    /// The path of the object itself; none if the API server will choose its name.
    pub object: Option<String>,
}

/// Returns the path of an object, or none if the embedded cluster does not serve its kind. `default_namespace` applies
/// to objects without a namespace.
///
/// # Errors
///
/// If kind and version look like a mistaken Job or CronJob: such an object must not be skipped silently.
pub fn resource_path(
    document: &Document,
    default_namespace: &str,
) -> Result<Option<ResourcePath>, ManifestError> {
    let Some(info) = served(&document.api_version, &document.kind) else {
        return check_mistake(document).map(|()| None);
    };
    let KindInfo {
        api_version,
        plural,
        ..
    } = info;
    let root = if info.group.is_empty() {
        "/api"
    } else {
        "/apis"
    };
    let collection = if info.namespaced {
        let namespace = document.namespace.as_deref().unwrap_or(default_namespace);
        format!("{root}/{api_version}/namespaces/{namespace}/{plural}")
    } else {
        format!("{root}/{api_version}/{plural}")
    };
    let object = match &document.name {
        ObjectName::Given(name) => Some(format!("{collection}/{name}")),
        ObjectName::Prefix(_) | ObjectName::None => None,
    };
    Ok(Some(ResourcePath { collection, object }))
}

/// Returns true if the embedded cluster serves a kind in this version.
pub(super) fn is_served(api_version: &str, kind: &str) -> bool {
    served(api_version, kind).is_some()
}

fn served(api_version: &str, kind: &str) -> Option<&'static KindInfo> {
    let is_it = |info: &&KindInfo| info.api_version == api_version && info.name == kind;
    KINDS.iter().find(is_it)
}

/// Rejects unknown kinds of the group `batch`, and a Job or CronJob in another group of Kubernetes itself. Groups with
/// a dot in their names are third-party and may have Jobs of their own.
fn check_mistake(document: &Document) -> Result<(), ManifestError> {
    let (kind, version) = (document.kind.as_str(), document.api_version.as_str());
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let is_job = matches!(kind, "Job" | "CronJob");
    if is_job && !group.contains('.') {
        let problem = format!("{kind} is supported as {BATCH}, not as {version}");
        return Err(document.bad("apiVersion", problem));
    }
    if group == "batch" {
        let problem = format!("{version} has no {kind}, only Job and CronJob");
        return Err(document.bad("kind", problem));
    }
    Ok(())
}

/// API version of Jobs and CronJobs.
const BATCH: &str = "batch/v1";
