//! The patches by which a Pod comes to a Job, and leaves it or is let go. All are strategic merge patches
//! and name the Pod's UID, so that they never meet another Pod of the same name.
//!
//! Source: docs/rules/jobs.md, 3.5 and 9.

use serde_json::{Value, json};

use crate::model::{JobId, JobKey, Uid};

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
pub fn adoption_patch(pod: Uid, job: &JobId, finalizer: &str) -> Vec<u8> {
    let body = json!({"metadata": {
        "ownerReferences": [controller(&job.key, job.uid)],
        "uid": pod.to_string(),
        "finalizers": [finalizer],
    }});
    body.to_string().into_bytes()
}

/// Takes our finalizer off a Pod. There are as many of them as Pods: it is written at one go.
pub fn freeing_patch(pod: Uid, finalizer: &str) -> Vec<u8> {
    format!(
        r#"{{"metadata":{{"uid":"{pod}","$deleteFromPrimitiveList/finalizers":["{finalizer}"]}}}}"#
    )
    .into_bytes()
}

/// The same, if the Pod is still of this version.
pub fn freeing_patch_of_version(pod: Uid, version: u64, finalizer: &str) -> Vec<u8> {
    let body = json!({"metadata": {
        "uid": pod.to_string(),
        "resourceVersion": version.to_string(),
        "$deleteFromPrimitiveList/finalizers": [finalizer],
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_names_the_pod() {
        let (pod, job) = (Uid::from_u128(7), JobId::default());
        for patch in [
            adoption_patch(pod, &job, "f/f"),
            freeing_patch(pod, "f/f"),
            release_patch(pod, job.uid, "f/f"),
        ] {
            let patch: Value = serde_json::from_slice(&patch).expect("JSON");
            assert_eq!(patch["metadata"]["uid"], pod.to_string(), "{patch}");
        }
        let freed: Value = serde_json::from_slice(&freeing_patch(pod, "f/f")).expect("JSON");
        let all = json!({"uid": pod.to_string(), "$deleteFromPrimitiveList/finalizers": ["f/f"]});
        assert_eq!(freed, json!({"metadata": all}));
    }
}
