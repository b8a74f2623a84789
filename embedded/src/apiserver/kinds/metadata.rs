//! Rules about `metadata` that hold for every kind.
//!
//! Responsible for: what clients may set there. Must not: know kinds beyond their names' form.

use serde_json::Value;

use crate::apiserver::object::{
    field_errors::{FieldErrors, shown},
    kind::Kind,
    names,
    tree::{self, Tree},
};

/// Members that clients may send on creation but that only the server decides.
pub(crate) const SERVER_OWNED: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "selfLink",
    "resourceVersion",
];

/// Largest sum of annotation sizes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Restores on update what clients cannot change, and reports the changes that are refused
/// rather than read over.
pub(crate) fn restore(tree: &mut Tree, old: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let old = tree::metadata(old);
    let metadata = tree::metadata_mut(tree);
    let uid = metadata.get("uid").filter(|uid| !uid.is_null());
    if uid.is_some() && uid != old.get("uid") {
        // Update rules run twice on the real server, and so does this cause.
        for _ in 0..2 {
            errors.invalid("metadata.uid", shown(uid), "field is immutable");
        }
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let value = metadata.get(field).filter(|value| !value.is_null());
        if value.is_some() && value != old.get(field) {
            for _ in 0..2 {
                let path = format!("metadata.{field}");
                errors.invalid(path, shown(value), "field is immutable");
            }
        }
    }
    metadata.remove("selfLink");
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "namespace",
        "resourceVersion",
        "generateName",
    ] {
        tree::restore(metadata, old, field);
    }
    errors
}

/// Checks the metadata of a new object.
#[doc(alias = "ValidateObjectMeta")]
pub(crate) fn check_create(kind: Kind, tree: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let metadata = tree::metadata(tree);
    let name = tree::text(metadata, "name");
    if name.is_empty() {
        errors.required("metadata.name", "name or generateName is required");
    } else {
        let problem = if kind == Kind::Namespace {
            let dots = name
                .contains('.')
                .then(|| "must not contain dots".to_owned());
            dots.or_else(|| names::dns_label_problem(name))
        } else {
            names::dns_subdomain_problem(name)
        };
        if let Some(problem) = problem {
            errors.invalid("metadata.name", Value::from(name), &problem);
        }
    }
    if kind == Kind::Job {
        // A Job's own name among its labels is judged where it was put into the template.
        let mut metadata = metadata.clone();
        if let Some(Value::Object(labels)) = metadata.get_mut("labels") {
            labels.retain(|key, value| !(key.ends_with("job-name") && value == name));
        }
        check_common(&metadata, &mut errors);
    } else {
        check_common(metadata, &mut errors);
    }
    errors
}

/// Checks the metadata of a changed object.
#[doc(alias = "ValidateObjectMetaUpdate")]
pub(crate) fn check_update(kind: Kind, tree: &Tree, old: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let metadata = tree::metadata(tree);
    let old = tree::metadata(old);
    if old.contains_key("deletionTimestamp") {
        let had: Vec<&str> = tree::strings(old, "finalizers").collect();
        let fresh: Vec<String> = tree::strings(metadata, "finalizers")
            .filter(|finalizer| !had.contains(finalizer))
            .map(|finalizer| format!("{finalizer:?}"))
            .collect();
        if !fresh.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new \
                 finalizers []string{{{}}}",
                fresh.join(", ")
            );
            // As above.
            for _ in 0..2 {
                errors.forbidden("metadata.finalizers", &detail);
            }
        }
    }
    let changed = |name: &str| metadata.get(name) != old.get(name);
    if ["labels", "annotations", "finalizers", "ownerReferences"]
        .into_iter()
        .any(changed)
    {
        let mut common = FieldErrors::new();
        check_common(metadata, &mut common);
        // A Job's update looks at the metadata four times.
        let times = if kind == Kind::Job { 4 } else { 1 };
        for _ in 0..times {
            errors.append(common.clone());
        }
    }
    errors
}

fn check_common(metadata: &Tree, errors: &mut FieldErrors) {
    check_labels(tree::section(metadata, "labels"), "metadata.labels", errors);
    check_annotations(
        tree::section(metadata, "annotations"),
        "metadata.annotations",
        errors,
    );
    check_owners(metadata, errors);
    check_finalizers(metadata, errors);
}

/// Checks a map of labels.
pub(crate) fn check_labels(labels: &Tree, path: &str, errors: &mut FieldErrors) {
    for (key, value) in labels {
        for problem in names::qualified_name_problems(key) {
            errors.invalid(path, Value::from(key.as_str()), &problem);
        }
        let value = value.as_str().unwrap_or_default();
        for problem in names::label_value_problems(value) {
            errors.invalid(path, Value::from(value), &problem);
        }
    }
}

/// Checks a map of annotations.
pub(crate) fn check_annotations(annotations: &Tree, path: &str, errors: &mut FieldErrors) {
    let mut size = 0;
    for (key, value) in annotations {
        for problem in names::qualified_name_problems(&key.to_lowercase()) {
            errors.invalid(path, Value::from(key.as_str()), &problem);
        }
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > MAX_ANNOTATIONS {
        errors.too_long(path, MAX_ANNOTATIONS);
    }
}

fn check_owners(metadata: &Tree, errors: &mut FieldErrors) {
    let path = "metadata.ownerReferences";
    let mut controllers = Vec::new();
    for owner in tree::items(metadata, "ownerReferences") {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .is_empty()
            {
                let path = format!("{path}.{field}");
                let detail = if field == "apiVersion" {
                    "version must not be empty"
                } else {
                    "must not be empty"
                };
                errors.invalid(path, "\"\"", detail);
            }
        }
        let is = |name: &str, value: &str| owner.get(name).is_some_and(|have| have == value);
        if is("apiVersion", "v1") && is("kind", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.invalid(path, shown_owner(owner), detail);
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
            controllers.push(format!("{}/{}", text("kind"), text("name")));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references \
             for {first} and {second}"
        );
        let owners: Vec<String> = tree::items(metadata, "ownerReferences")
            .iter()
            .map(shown_owner)
            .collect();
        errors.invalid(path, format!("[{}]", owners.join(",")), &detail);
    }
}

/// An owner with its members in the order in which the API has them.
fn shown_owner(owner: &Value) -> String {
    let fields = [
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    let members: Vec<String> = fields
        .into_iter()
        .filter_map(|field| Some(format!("{field:?}:{}", owner.get(field)?)))
        .collect();
    format!("{{{}}}", members.join(","))
}

fn check_finalizers(metadata: &Tree, errors: &mut FieldErrors) {
    let path = "metadata.finalizers";
    let finalizers: Vec<&str> = tree::strings(metadata, "finalizers").collect();
    for (index, finalizer) in finalizers.iter().enumerate() {
        for problem in names::qualified_name_problems(finalizer) {
            errors.invalid(path, Value::from(*finalizer), &problem);
        }
        let standard = ["orphan", "foregroundDeletion", "kubernetes"].contains(finalizer);
        if !standard && !finalizer.contains('/') {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(format!("{path}[{index}]"), Value::from(*finalizer), detail);
        }
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(path, shown(metadata.get("finalizers")), detail);
    }
}
