//! Where objects are sent.
//!
//! Responsible for: the paths of the kinds that lakh's embedded cluster serves.
//! Must not: look at anything but kind, version and namespace.

use super::{Document, ManifestError, ObjectName};

/// The namespace of objects that name none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The kinds that [`resource_path`] knows, with version and plural.
pub const SUPPORTED_KINDS: [(&str, &str, &str); 8] = [
    ("Job", "batch/v1", "jobs"),
    ("CronJob", "batch/v1", "cronjobs"),
    ("Pod", "v1", "pods"),
    ("Namespace", "v1", "namespaces"),
    ("ConfigMap", "v1", "configmaps"),
    ("ServiceAccount", "v1", "serviceaccounts"),
    ("Secret", "v1", "secrets"),
    ("ResourceQuota", "v1", "resourcequotas"),
];

/// Where an object is created and found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePath {
    /// The path to POST to.
    pub collection: String,
    /// The path of the object itself; none if the API server will choose its name.
    pub object: Option<String>,
}

/// Gives the path of an object; `default_namespace` is for objects that name none.
///
/// # Errors
///
/// If the kind is not one of [`SUPPORTED_KINDS`], or has another version.
pub fn resource_path(
    document: &Document,
    default_namespace: &str,
) -> Result<ResourcePath, ManifestError> {
    let mut kinds = SUPPORTED_KINDS.iter();
    let Some((_, version, plural)) = kinds.find(|(kind, ..)| *kind == document.kind) else {
        let known = SUPPORTED_KINDS.map(|(kind, ..)| kind).join(", ");
        let problem = format!("{} is not supported, only {known}", document.kind);
        return Err(document.bad("kind", problem));
    };
    if document.api_version != *version {
        let (kind, found) = (&document.kind, &document.api_version);
        let problem = format!("{kind} is supported as {version}, not as {found}");
        return Err(document.bad("apiVersion", problem));
    }
    let root = if *version == "v1" { "/api" } else { "/apis" };
    let collection = if document.kind == "Namespace" {
        format!("{root}/{version}/{plural}")
    } else {
        let namespace = document.namespace.as_deref().unwrap_or(default_namespace);
        format!("{root}/{version}/namespaces/{namespace}/{plural}")
    };
    let object = match &document.name {
        ObjectName::Given(name) => Some(format!("{collection}/{name}")),
        ObjectName::Prefix(_) => None,
    };
    Ok(ResourcePath { collection, object })
}
