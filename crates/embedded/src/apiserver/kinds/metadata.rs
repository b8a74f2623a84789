//! Implements the rules for `metadata` of all kinds.
//!
//! Responsible for: the members that clients may set. Must not: know kinds, except for the syntax of their names.

use serde_json::Value;

use crate::apiserver::object::{CheckedField, FieldErrors, Kind, Tree, check_change, names, tree};

/// Members that clients may send on creation but only the server sets.
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

/// The largest total size of annotations, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Restores the members that clients cannot change on update. Returns errors for changes that are rejected instead of
/// ignored.
pub(crate) fn restore(tree: &mut Tree, old: &Tree) -> FieldErrors {
    let errors = check_change(tree, old, |object| {
        let metadata = object.at("metadata");
        for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            let field = metadata.at(field);
            // A real server runs the update rules twice and reports this error twice.
            for _ in 0..2 {
                if field.is_set() {
                    field.must_not_change();
                }
            }
        }
    });
    let metadata = tree::metadata_mut(tree);
    for field in SERVER_OWNED.iter().chain(&["namespace"]) {
        tree::restore(metadata, tree::metadata(old), field);
    }
    errors
}

/// Validates the metadata of a new object.
#[doc(alias = "ValidateObjectMeta")]
pub(crate) fn check_create(kind: Kind, object: &CheckedField<'_, '_>) {
    let metadata = object.at("metadata");
    let name = metadata.at("name");
    match name.text() {
        "" => name.required("name or generateName is required"),
        text if kind != Kind::Namespace => {
            name.complain_of(text, names::dns_subdomain_problems(text));
        }
        text => name.complain_of(text, names::dns_label_problems(text)),
    }
    // Labels with the Job's own name are copies of template labels, which are validated there.
    let own_name = (kind == Kind::Job).then(|| name.text());
    check_common(&metadata, own_name);
}

/// Validates the metadata of an updated object.
#[doc(alias = "ValidateObjectMetaUpdate")]
pub(crate) fn check_update(kind: Kind, object: &CheckedField<'_, '_>) {
    let metadata = object.at("metadata");
    if metadata.at("deletionTimestamp").old().is_set() {
        check_new_finalizers(&metadata.at("finalizers"));
    }
    if has_changed(&metadata) {
        // Several layers of a real server validate the metadata of an update, and each reports its errors.
        for _ in 0..2 {
            check_but_finalizers(&metadata, None);
        }
        check_common(&metadata, None);
    }
    if matches!(kind, Kind::Pod | Kind::Secret | Kind::ConfigMap) {
        check_again(object);
    }
}

/// Validates the metadata of an updated object once more, as the rules of some kinds do.
pub(crate) fn check_again(object: &CheckedField<'_, '_>) {
    let metadata = object.at("metadata");
    if has_changed(&metadata) {
        check_common(&metadata, None);
    }
}

fn has_changed(metadata: &CheckedField<'_, '_>) -> bool {
    ["labels", "annotations", "finalizers", "ownerReferences"]
        .into_iter()
        .any(|field| metadata.at(field).has_changed())
}

fn check_new_finalizers(finalizers: &CheckedField<'_, '_>) {
    let had = finalizers.old().list();
    let fresh = finalizers.list().iter().filter(|it| !had.contains(it));
    let fresh: Vec<String> = fresh.map(Value::to_string).collect();
    if fresh.is_empty() {
        return;
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new \
         finalizers []string{{{}}}",
        fresh.join(", ")
    );
    // A real server reports this twice, too.
    for _ in 0..2 {
        finalizers.forbidden(&detail);
    }
}

/// Validates the members that all objects have; skips `job-name` labels with the value `own_name`.
fn check_common(metadata: &CheckedField<'_, '_>, own_name: Option<&str>) {
    check_but_finalizers(metadata, own_name);
    check_finalizers(&metadata.at("finalizers"));
}

fn check_but_finalizers(metadata: &CheckedField<'_, '_>, own_name: Option<&str>) {
    check_labels(&metadata.at("labels"), own_name);
    check_annotations(&metadata.at("annotations"));
    check_owners(&metadata.at("ownerReferences"));
}

/// Validates labels; skips `job-name` labels with the value `own_name`.
pub(crate) fn check_labels(labels: &CheckedField<'_, '_>, own_name: Option<&str>) {
    for (key, value) in labels.tree() {
        let value = value.as_str().unwrap_or_default();
        if key.ends_with("job-name") && own_name == Some(value) {
            continue;
        }
        labels.complain_of(key, names::qualified_name_problems(key));
        labels.complain_of(value, names::label_value_problems(value));
    }
}

/// Validates annotations.
pub(crate) fn check_annotations(annotations: &CheckedField<'_, '_>) {
    let mut size = 0;
    for (key, value) in annotations.tree() {
        annotations.complain_of(key, names::qualified_name_problems(&key.to_lowercase()));
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    annotations.must_be_within(size, MAX_ANNOTATIONS);
}

fn check_owners(owners: &CheckedField<'_, '_>) {
    let mut controllers = Vec::new();
    for owner in owners.items() {
        for (field, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner.at(field).text().is_empty() {
                // The path omits the index of the owner.
                owners.at(field).invalid_as("\"\"", detail);
            }
        }
        if (owner.at("apiVersion").text(), owner.at("kind").text()) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            owners.invalid_as(shown_owner(owner.value()), detail);
        }
        if owner.at("controller").flag() {
            let (kind, name) = (owner.at("kind").text(), owner.at("name").text());
            controllers.push(format!("{kind}/{name}"));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references \
             for {first} and {second}"
        );
        let all: Vec<String> = owners.list().iter().map(shown_owner).collect();
        owners.invalid_as(format!("[{}]", all.join(",")), &detail);
    }
}

/// An owner reference as error texts print it: with its members in the API's order.
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

fn check_finalizers(finalizers: &CheckedField<'_, '_>) {
    for finalizer in finalizers.items() {
        let text = finalizer.text();
        finalizers.complain_of(text, names::qualified_name_problems(text));
        let standard = ["orphan", "foregroundDeletion", "kubernetes"].contains(&text);
        if !standard && !text.contains('/') {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            finalizer.invalid(detail);
        }
    }
    let has = |name: &str| finalizers.list().iter().any(|have| have == name);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        finalizers.invalid(detail);
    }
}
