//! Builds owner references, and the patches with which a Job adopts a Pod, releases it, or removes its finalizer. All
//! are strategic merge patches that name the Pod's UID, so that they never change another Pod of the same name.
//!
//! Source: docs/rules/jobs.md, 3.5 and 9.

use serde_json::{Value, json};

use lakh_model::{JobId, JobKey, Uid};

/// The controller reference in an object that a Job or CronJob owns.
#[doc(alias = "NewControllerRef")]
pub(super) fn controller(kind: &str, owner: &JobKey, uid: Uid) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": kind,
        "name": owner.name.as_str(),
        "uid": uid.to_string(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Makes a Job the Pod's controller, and adds the finalizer.
#[doc(alias = "AdoptPod")]
pub fn adoption_patch(pod: Uid, job: &JobId, finalizer: &str) -> Vec<u8> {
    let body = json!({"metadata": {
        "ownerReferences": [controller("Job", &job.key, job.uid)],
        "uid": pod.to_string(),
        "finalizers": [finalizer],
    }});
    body.to_string().into_bytes()
}

/// Removes the finalizer from a Pod. Every Pod needs this patch, so it is formatted in one pass.
#[doc(alias = "removeTrackingFinalizerPatch")]
pub fn freeing_patch(pod: Uid, finalizer: &str) -> Vec<u8> {
    format!(
        r#"{{"metadata":{{"uid":"{pod}","$deleteFromPrimitiveList/finalizers":["{finalizer}"]}}}}"#
    )
    .into_bytes()
}

/// The same, provided that the Pod still has this resourceVersion.
pub fn freeing_patch_of_version(pod: Uid, version: u64, finalizer: &str) -> Vec<u8> {
    let body = json!({"metadata": {
        "uid": pod.to_string(),
        "resourceVersion": version.to_string(),
        "$deleteFromPrimitiveList/finalizers": [finalizer],
    }});
    body.to_string().into_bytes()
}

/// Removes a Job from the Pod's owners, and the finalizer.
#[doc(alias = "ReleasePod")]
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
