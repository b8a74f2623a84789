//! Decodes Workloads and PodGroups, and builds the bodies of new ones.

use compact_str::CompactString;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use lakh_model::{
    GangObject, JobKey, NewPodGroup, NewWorkload, PodGroup, PodGroupTemplate, Uid, Workload,
};

use super::{SchedulingApi, metadata::RawMetadata, ownership};

/// A Workload or PodGroup, its namespace and the object that it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedGangObject<T> {
    /// Its UID.
    pub uid: Uid,
    /// The resourceVersion that this was read from.
    pub resource_version: u64,
    /// Its namespace.
    pub namespace: CompactString,
    /// The name of the object in its namespace that it refers to: a Job for a Workload, a Workload for a PodGroup.
    pub refers_to: Option<CompactString>,
    /// The fields that decisions need.
    pub record: T,
}

/// Decodes a Workload.
pub fn decode_workload(json: &str) -> Result<DecodedGangObject<Workload>, serde_json::Error> {
    let object: RawGangObject<RawWorkloadSpec> = serde_json::from_str(json)?;
    let job = |found: &RawControllerRef| found.api_group == "batch" && found.kind == "Job";
    let job = object.spec.controller_ref.filter(job);
    let templates = object.spec.pod_group_templates.into_iter();
    let templates = templates.map(|template| PodGroupTemplate {
        name: template.name,
        policy: template
            .scheduling_policy
            .map_or("{}".into(), |policy| policy.get().into()),
    });
    let (uid, _) = object.metadata.identity()?;
    let record = Workload {
        name: object.metadata.name.clone(),
        uid,
        controller: controller(&object.metadata),
        templates: templates.collect(),
    };
    decoded(object.metadata, job.map(|found| found.name), record)
}

/// Decodes a PodGroup.
pub fn decode_pod_group(json: &str) -> Result<DecodedGangObject<PodGroup>, serde_json::Error> {
    let object: RawGangObject<RawPodGroupSpec> = serde_json::from_str(json)?;
    let first = object.spec.pod_group_template_ref;
    let later = object.spec.workload_ref;
    let workload = later.or(first.and_then(|found| found.workload));
    let record = PodGroup {
        name: object.metadata.name.clone(),
        controller: controller(&object.metadata),
    };
    let refers_to = workload.map(|found| found.workload_name);
    decoded(object.metadata, refers_to, record)
}

/// The body of a new Workload or PodGroup of a Job.
pub fn gang_object_body(
    api: &SchedulingApi,
    job: &JobKey,
    uid: Uid,
    object: &GangObject,
) -> Vec<u8> {
    let body = match object {
        GangObject::Workload(workload) => workload_body(api, job, uid, workload),
        GangObject::PodGroup(group) => pod_group_body(api, job, uid, group),
    };
    body.to_string().into_bytes()
}

fn workload_body(api: &SchedulingApi, job: &JobKey, uid: Uid, new: &NewWorkload) -> Value {
    json!({
        "apiVersion": api.api_version(),
        "kind": "Workload",
        "metadata": {
            "name": new.name.as_str(),
            "namespace": job.namespace.as_str(),
            "ownerReferences": [ownership::controller("Job", job, uid)],
        },
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": job.name.as_str()},
            "podGroupTemplates": [{
                "name": new.template.as_str(),
                "schedulingPolicy": {"gang": {"minCount": new.min_count}},
            }],
        },
    })
}

fn pod_group_body(api: &SchedulingApi, job: &JobKey, uid: Uid, new: &NewPodGroup) -> Value {
    let policy: Value = serde_json::from_str(&new.template.policy).unwrap_or_default();
    let mut spec = json!({"schedulingPolicy": policy});
    let (member, reference) = api.reference(&new.workload, &new.template.name);
    spec[member] = reference;
    json!({
        "apiVersion": api.api_version(),
        "kind": "PodGroup",
        "metadata": {
            "name": new.name.as_str(),
            "namespace": job.namespace.as_str(),
            "ownerReferences": [ownership::controller("Job", job, uid), {
                "apiVersion": api.api_version(),
                "kind": "Workload",
                "name": new.workload.as_str(),
                "uid": new.workload_uid.to_string(),
            }],
        },
        "spec": spec,
    })
}

#[derive(Deserialize)]
struct RawGangObject<S> {
    metadata: RawMetadata,
    spec: S,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawWorkloadSpec {
    controller_ref: Option<RawControllerRef>,
    #[serde(default)]
    pod_group_templates: Vec<RawPodGroupTemplate>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawControllerRef {
    api_group: String,
    kind: String,
    name: CompactString,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPodGroupTemplate {
    name: CompactString,
    scheduling_policy: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPodGroupSpec {
    /// In `v1alpha2`.
    pod_group_template_ref: Option<RawTemplateRef>,
    /// In later versions.
    workload_ref: Option<RawWorkloadRef>,
}

#[derive(Deserialize)]
struct RawTemplateRef {
    workload: Option<RawWorkloadRef>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawWorkloadRef {
    workload_name: CompactString,
}

fn controller(metadata: &RawMetadata) -> Option<Uid> {
    let owner = metadata.controller()?;
    Uid::parse(&owner.uid)
}

fn decoded<T>(
    metadata: RawMetadata,
    refers_to: Option<CompactString>,
    record: T,
) -> Result<DecodedGangObject<T>, serde_json::Error> {
    let (uid, resource_version) = metadata.identity()?;
    Ok(DecodedGangObject {
        uid,
        resource_version,
        namespace: metadata.namespace,
        refers_to: refers_to.filter(|name| !name.is_empty()),
        record,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: Uid = Uid::from_u128(1);
    const WORKLOAD: Uid = Uid::from_u128(2);

    fn api() -> SchedulingApi {
        let group = br#"{"versions":[{"version":"v1alpha2"}]}"#;
        let mut offered = SchedulingApi::offered(group).expect("a group");
        offered.remove(0)
    }

    fn job() -> JobKey {
        JobKey {
            namespace: "ml".into(),
            name: "train".into(),
        }
    }

    /// The object that a server makes of a body.
    fn stored(object: &GangObject, uid: Uid) -> Value {
        let body = gang_object_body(&api(), &job(), JOB, object);
        let mut stored: Value = serde_json::from_slice(&body).expect("JSON");
        stored["metadata"]["uid"] = uid.to_string().into();
        stored["metadata"]["resourceVersion"] = "7".into();
        stored
    }

    #[test]
    fn a_workload_is_read_as_it_was_written() {
        let new = GangObject::Workload(NewWorkload {
            name: "train-x".into(),
            template: "train-pgt-0".into(),
            min_count: 4,
        });
        let stored = stored(&new, WORKLOAD);
        assert_eq!(stored["apiVersion"], "scheduling.k8s.io/v1alpha2");
        assert_eq!(
            stored["spec"]["controllerRef"],
            json!({"apiGroup": "batch", "kind": "Job", "name": "train"})
        );
        let owner = &stored["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["controller"], &owner["blockOwnerDeletion"]),
            (&json!(true), &json!(true))
        );
        let read = decode_workload(&stored.to_string()).expect("a Workload");
        assert_eq!(
            (read.refers_to.as_deref(), read.resource_version),
            (Some("train"), 7)
        );
        let workload = read.record;
        assert_eq!(
            (workload.name.as_str(), workload.controller),
            ("train-x", Some(JOB))
        );
        assert_eq!(&*workload.templates[0].policy, r#"{"gang":{"minCount":4}}"#);
    }

    #[test]
    fn a_pod_group_copies_the_policy_and_names_both_owners() {
        let new = GangObject::PodGroup(NewPodGroup {
            name: "g".into(),
            workload: "train-x".into(),
            workload_uid: WORKLOAD,
            template: PodGroupTemplate {
                name: "t".into(),
                policy: r#"{"gang":{"minCount":4,"someday":[1.5]}}"#.into(),
            },
        });
        let stored = stored(&new, Uid::from_u128(3));
        assert_eq!(
            stored["spec"],
            json!({
                "podGroupTemplateRef": {
                    "workload": {"workloadName": "train-x", "podGroupTemplateName": "t"},
                },
                "schedulingPolicy": {"gang": {"minCount": 4, "someday": [1.5]}},
            })
        );
        assert_eq!(
            stored["metadata"]["ownerReferences"][1],
            json!({
                "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "name": "train-x",
                "uid": WORKLOAD.to_string(),
            })
        );
        let read = decode_pod_group(&stored.to_string()).expect("a PodGroup");
        assert_eq!(read.refers_to.as_deref(), Some("train-x"));
        assert_eq!(read.record.controller, Some(JOB));
    }

    #[test]
    fn references_to_others_are_none_of_a_jobs() {
        let meta = format!(r#""metadata":{{"name":"w","uid":"{WORKLOAD}","resourceVersion":"1"}}"#);
        for reference in [
            r#"{"apiGroup":"apps","kind":"Job","name":"j"}"#,
            r#"{"apiGroup":"batch","kind":"CronJob","name":"j"}"#,
            r#"{"apiGroup":"batch","kind":"Job","name":""}"#,
            "null",
        ] {
            let json = format!(r#"{{{meta},"spec":{{"controllerRef":{reference}}}}}"#);
            let read = decode_workload(&json).expect("a Workload");
            assert_eq!(
                (read.refers_to, read.record.controller),
                (None, None),
                "{reference}"
            );
        }
        let json = format!(r#"{{{meta},"spec":{{"workloadRef":{{"workloadName":"w"}}}}}}"#);
        let read = decode_pod_group(&json).expect("a PodGroup");
        assert_eq!(read.refers_to.as_deref(), Some("w"), "a later version");
    }
}
