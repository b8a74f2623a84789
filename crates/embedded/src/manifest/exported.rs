//! Prepares objects that `kubectl get -o yaml` printed for a new create.
//!
//! Responsible for: removing fields that an API server sets, and refuses or ignores in a new object. Must not: remove
//! fields that a user may have written.

use serde_json::{Map, Value};

use super::Document;

impl Document {
    /// Removes the fields set by the API server of another cluster: `status`, most of `metadata`, and a Job's generated
    /// selector with its labels. An object written by hand stays as it is.
    pub fn clear_server_fields(&mut self) {
        let Some(object) = self.body.as_object_mut() else {
            return;
        };
        object.remove("status");
        if let Some(metadata) = section(object, "metadata") {
            for field in SET_BY_SERVER {
                metadata.remove(field);
            }
        }
        if self.kind == "Job" {
            clear_generated_selector(object);
        }
    }

    /// Returns kind and name of the controller that owns the object, as in `Job pi` for a Pod. The controller creates
    /// its own objects on each cluster.
    pub fn controller(&self) -> Option<String> {
        let owners = self.body["metadata"]["ownerReferences"].as_array()?;
        let owner = owners.iter().find(|owner| owner["controller"] == true)?;
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        Some(format!("{} {}", text("kind"), text("name")))
    }
}

/// Removes a selector with a Job's UID, which cannot be known in advance, and its labels. With `manualSelector` both
/// are the user's own.
fn clear_generated_selector(job: &mut Map<String, Value>) {
    let Some(spec) = section(job, "spec") else {
        return;
    };
    let selector = &spec.get("selector").unwrap_or(&Value::Null)["matchLabels"];
    let is_generated = UID_LABELS.iter().any(|label| selector[label].is_string());
    if !is_generated || spec.get("manualSelector").is_some_and(|it| *it == true) {
        return;
    }
    spec.remove("selector");
    let template = section(spec, "template");
    if let Some(metadata) = template.and_then(|template| section(template, "metadata")) {
        clear_generated_labels(metadata);
    }
    if let Some(metadata) = section(job, "metadata") {
        clear_generated_labels(metadata);
    }
}

fn clear_generated_labels(metadata: &mut Map<String, Value>) {
    let Some(labels) = section(metadata, "labels") else {
        return;
    };
    for label in UID_LABELS.iter().chain(&NAME_LABELS) {
        labels.remove(*label);
    }
    // The API server copies a template's labels only to a Job without labels.
    if labels.is_empty() {
        metadata.remove("labels");
    }
}

fn section<'a>(
    object: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    object.get_mut(name)?.as_object_mut()
}

/// Fields of `metadata` that an API server sets, or that refer to objects of its cluster by UID.
const SET_BY_SERVER: [&str; 9] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];
/// Labels of a Job's Pods that hold its UID.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
/// Labels of a Job's Pods that hold its name.
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
