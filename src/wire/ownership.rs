//! The patches by which a Pod comes to a Job, and leaves it. Both are strategic merge patches and
//! name the Pod's UID, so that they never meet another Pod of the same name.

use serde_json::{Value, json};

use crate::model::{JobKey, Uid};

/// What an object of a Job names as its controller.
pub(super) fn controller(job: &JobKey, uid: Uid) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job.name.as_str(),
        "uid": uid.to_string(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Makes a Job the Pod's controller, and puts our finalizer on.
pub fn adoption_patch(pod: Uid, job: Uid, key: &JobKey, finalizer: &str) -> Vec<u8> {
    let body = json!({"metadata": {
        "ownerReferences": [controller(key, job)],
        "uid": pod.to_string(),
        "finalizers": [finalizer],
    }});
    body.to_string().into_bytes()
}

/// Takes a Job from the Pod's owners, and our finalizer off.
pub fn release_patch(pod: Uid, job: Uid, finalizer: &str) -> Vec<u8> {
    let body = json!({"metadata": {
        "uid": pod.to_string(),
        "ownerReferences": [{"$patch": "delete", "uid": job.to_string()}],
        "$deleteFromPrimitiveList/finalizers": [finalizer],
    }});
    body.to_string().into_bytes()
}
