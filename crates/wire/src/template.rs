//! Builds the bodies of a Job's new Pods.
//!
//! They follow upstream's `manageJob` (docs/rules/jobs.md, 4.6). The template is rendered once, with gaps; each Pod
//! fills in its name and index. Every field that the server sent in the template is kept, known to lakh or not.

use std::sync::Arc;

use serde_json::{Map, Value, json, value::RawValue};

use lakh_model::{
    COMPLETION_INDEX, CONTROLLER_UID, FailureCounts, INDEX_FAILURES, INDEX_IGNORED_FAILURES, Job,
    Labelled as _, PodSuffix, names,
};

use super::{answer_metadata, ownership};

/// The reason why a Job's template cannot be made into Pods.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The template is not a JSON object.
    #[error("spec.template is no object: {0}")]
    NotAnObject(#[from] serde_json::Error),
    /// The template has no labels, so its Pods could not be found again.
    #[error("unable to create pods, no labels")]
    NoLabels,
}

/// A rendered Pod template with gaps for the values of each Pod.
#[derive(Debug)]
#[doc(alias = "GetPodFromTemplate")]
pub struct PodTemplate {
    job: String,
    indexed: bool,
    /// Literal text. Each item but the last is followed by a gap.
    text: Vec<(String, Option<Gap>)>,
    marks: Arc<PodMarks>,
}

/// The finalizer and label by which a Job recognizes its Pods.
#[derive(Debug)]
pub struct PodMarks {
    finalizer: String,
    /// The value of the label that the server's generated selector matches, if the template has it.
    controller_uid: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    Name,
    GenerateName,
    Index,
    Hostname,
    /// The value of the annotation of failures, followed by the annotation of ignored failures if there were any.
    Failures,
    /// Empty, or a comma and the field that names the PodGroup.
    Group,
}

impl PodTemplate {
    /// Renders the template of a Job.
    pub fn new(job: &Job, template: &RawValue, finalizer: &str) -> Result<Self, TemplateError> {
        let mut template: Map<String, Value> = serde_json::from_str(template.get())?;
        // No template contains this text by chance: the UID was generated after the template.
        let start = format!("<{}:", job.uid);
        let mark = |gap: &str| format!("{start}{gap}>");
        let indexed = job.spec.is_indexed();
        let meta = metadata(job, template.remove("metadata"), finalizer, &mark)?;
        let mut spec = template.remove("spec").unwrap_or_else(|| json!({}));
        if indexed {
            spec["hostname"] = mark("hostname").into();
            if spec.get("schedulingGroup").is_none_or(Value::is_null) {
                // Placed after the hostname, so that a comma precedes it.
                spec["schedulingGroup"] = mark("group").into();
            }
            add_index_variable(&mut spec);
        }
        let body = format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{meta},"spec":{spec}}}"#);
        let text = split(&body, &start);
        let label = &meta["labels"][CONTROLLER_UID];
        Ok(Self {
            job: job.key.name.to_string(),
            indexed,
            text,
            marks: Arc::new(PodMarks {
                finalizer: finalizer.to_owned(),
                controller_uid: label.as_str().map(str::to_owned),
            }),
        })
    }

    /// The approximate memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        let text = self.text.iter();
        let text = text.map(|(text, _)| text.capacity() + size_of::<(String, Option<Gap>)>());
        size_of::<Self>() + text.sum::<usize>()
    }

    /// The finalizer and label by which the Job recognizes its Pods.
    pub fn marks(&self) -> &Arc<PodMarks> {
        &self.marks
    }

    /// The name and body of a new Pod. `failures` are those of its index, if the Job counts them per index. `group` is
    /// its PodGroup, if the Job is a gang.
    pub fn pod(
        &self,
        index: Option<u32>,
        failures: Option<FailureCounts>,
        suffix: PodSuffix,
        group: Option<&str>,
    ) -> (String, Vec<u8>) {
        let prefix = match index.filter(|_| self.indexed) {
            Some(index) => names::generate_name_indexed(&self.job, index),
            None => names::generate_name(&self.job),
        };
        let name = names::pod_name(&prefix, suffix);
        let index = index.unwrap_or(0).to_string();
        let length = self.text.iter().map(|(text, _)| text.len() + 64).sum();
        let mut body = String::with_capacity(length);
        for (text, gap) in &self.text {
            body.push_str(text);
            match gap {
                Some(Gap::Name) => body.push_str(&name),
                Some(Gap::GenerateName) => body.push_str(&prefix),
                Some(Gap::Index) => body.push_str(&index),
                Some(Gap::Hostname) => {
                    body.push_str(&self.job);
                    body.push('-');
                    body.push_str(&index);
                }
                Some(Gap::Failures) => {
                    body.push_str(&failure_values(failures.unwrap_or_default()));
                }
                Some(Gap::Group) => {
                    if let Some(group) = group {
                        let member = json!({"podGroupName": group});
                        body.push_str(&format!(r#","schedulingGroup":{member}"#));
                    }
                }
                None => {}
            }
        }
        (name.into(), body.into_bytes())
    }
}

impl PodMarks {
    /// Returns the part that a created Pod lacks, by the server's response. A mutating webhook may have removed the
    /// finalizer or label by which the Job recognizes and counts the Pod.
    pub fn lacks(&self, answer: &[u8]) -> Option<String> {
        let marks = answer_metadata::marks(answer)?;
        if !marks.finalizers.iter().any(|it| **it == *self.finalizer) {
            return Some(format!("finalizer {}", self.finalizer));
        }
        let wanted = self.controller_uid.as_deref()?;
        let has = marks.labels.label(CONTROLLER_UID) == Some(wanted);
        (!has).then(|| format!("label {CONTROLLER_UID}"))
    }
}

fn metadata(
    job: &Job,
    own: Option<Value>,
    finalizer: &str,
    mark: &dyn Fn(&str) -> String,
) -> Result<Value, TemplateError> {
    let mut own = match own {
        Some(Value::Object(own)) => own,
        _ => Map::new(),
    };
    let mut map = |field: &str| match own.remove(field) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let (mut labels, mut annotations) = (map("labels"), map("annotations"));
    if labels.is_empty() {
        return Err(TemplateError::NoLabels);
    }
    if job.spec.is_indexed() {
        labels.insert(COMPLETION_INDEX.into(), mark("index").into());
        annotations.insert(COMPLETION_INDEX.into(), mark("index").into());
    }
    if job.spec.per_index.is_some() {
        annotations.remove(INDEX_IGNORED_FAILURES);
        annotations.insert(INDEX_FAILURES.into(), mark("failures").into());
    }
    let mut finalizers = match own.remove("finalizers") {
        Some(Value::Array(finalizers)) => finalizers,
        _ => Vec::new(),
    };
    if !finalizers.iter().any(|name| name == finalizer) {
        finalizers.push(finalizer.into());
    }
    let owner = ownership::controller("Job", &job.key, job.uid);
    let mut meta = Map::new();
    let mut put = |name: &str, value: Value| meta.insert(name.into(), value);
    put("name", mark("name").into());
    put("generateName", mark("generateName").into());
    put("labels", labels.into());
    put("finalizers", finalizers.into());
    put("ownerReferences", vec![owner].into());
    if !annotations.is_empty() {
        put("annotations", annotations.into());
    }
    Ok(meta.into())
}

/// The text between the quotes of the annotation of failures.
fn failure_values(failures: FailureCounts) -> String {
    let FailureCounts { counted, ignored } = failures;
    match ignored {
        0 => counted.to_string(),
        _ => format!(r#"{counted}","{INDEX_IGNORED_FAILURES}":"{ignored}"#),
    }
}

/// Adds the variable with the completion index to each container that has none of that name.
fn add_index_variable(spec: &mut Value) {
    for list in ["initContainers", "containers"] {
        let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) else {
            continue;
        };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            let env = container.entry("env").or_insert(Value::Null);
            if env.is_null() {
                *env = json!([]);
            }
            let Some(env) = env.as_array_mut() else {
                continue;
            };
            let is_it = |variable: &Value| variable["name"] == "JOB_COMPLETION_INDEX";
            if env.iter().any(is_it) {
                continue;
            }
            env.push(json!({
                "name": "JOB_COMPLETION_INDEX",
                "valueFrom": {
                    "fieldRef": {"fieldPath": format!("metadata.labels['{COMPLETION_INDEX}']")},
                },
            }));
        }
    }
}

/// Splits a body at its marks, which share a prefix.
fn split(body: &str, start: &str) -> Vec<(String, Option<Gap>)> {
    let mut text = Vec::new();
    let mut pieces = body.split(start);
    let mut before = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match gap(&before, piece) {
            Some((gap, end, after)) => {
                before.truncate(end);
                text.push((std::mem::replace(&mut before, after.to_owned()), Some(gap)));
            }
            // The template contains the UID in text that is not a mark.
            None => before.extend([start, piece]),
        }
    }
    text.push((before, None));
    text
}

/// The gap at a mark between two texts. Returns the gap, the length of the text before it, and the text after it.
fn gap<'t>(before: &str, after: &'t str) -> Option<(Gap, usize, &'t str)> {
    let (word, after) = after.split_once('>')?;
    let gap = match word {
        "name" => Gap::Name,
        "generateName" => Gap::GenerateName,
        "index" => Gap::Index,
        "hostname" => Gap::Hostname,
        "failures" => Gap::Failures,
        "group" => {
            // The whole field may be left out.
            let before = before.strip_suffix(r#","schedulingGroup":""#)?;
            return Some((Gap::Group, before.len(), after.strip_prefix('"')?));
        }
        _ => return None,
    };
    Some((gap, before.len(), after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode_job;
    use lakh_model::TRACKING_FINALIZER;

    fn suffix() -> PodSuffix {
        PodSuffix::of_name("bcdfg").expect("letters of the alphabet")
    }

    fn pod(spec: &str, index: Option<u32>) -> Value {
        pod_after(spec, index, None)
    }

    fn pod_after(spec: &str, index: Option<u32>, failures: Option<FailureCounts>) -> Value {
        let json = format!(
            r#"{{"metadata":{{"name":"train","namespace":"ml","uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
            "resourceVersion":"7"}},"spec":{spec}}}"#
        );
        let decoded = decode_job(&json).expect("a good Job");
        let template = PodTemplate::new(
            &decoded.job,
            &decoded.template.expect("it makes Pods"),
            TRACKING_FINALIZER,
        )
        .expect("a good template");
        let (name, body) = template.pod(index, failures, suffix(), None);
        let pod: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(pod["metadata"]["name"], name);
        let (_, body) = template.pod(index, failures, suffix(), Some("g"));
        let mut grouped: Value = serde_json::from_slice(&body).expect("JSON");
        let group = grouped["spec"]
            .as_object_mut()
            .expect("a spec")
            .remove("schedulingGroup");
        let own = pod["spec"].get("schedulingGroup");
        let expected = json!({"podGroupName": "g"});
        match index {
            Some(_) => assert_eq!(group.as_ref(), Some(own.unwrap_or(&expected))),
            None => assert_eq!(group.as_ref(), own),
        }
        pod
    }

    const INDEXED: &str = r#"{"completionMode":"Indexed","completions":9,"template":{
        "metadata":{"labels":{"a":"b"},"annotations":{"c":"d"},"ownerReferences":[{"uid":"x"}],
                    "finalizers":["own/one"]},
        "spec":{"hostname":"mine","subdomain":"sub","someday":{"new":[1.5,true]},
                "initContainers":[{"name":"i","env":[{"name":"JOB_COMPLETION_INDEX","value":"x"}]}],
                "containers":[{"name":"c","env":[{"name":"Z","value":"1"}]},{"name":"d"}]}}}"#;

    #[test]
    fn an_indexed_pod_has_its_index_everywhere() {
        let pod = pod(INDEXED, Some(7));
        let meta = &pod["metadata"];
        assert_eq!(meta["generateName"], "train-7-");
        assert_eq!(meta["labels"], json!({"a": "b", COMPLETION_INDEX: "7"}));
        assert_eq!(
            meta["annotations"],
            json!({"c": "d", COMPLETION_INDEX: "7"})
        );
        assert_eq!(meta["finalizers"], json!(["own/one", TRACKING_FINALIZER]));
        assert_eq!(meta["ownerReferences"].as_array().map(Vec::len), Some(1));
        assert_eq!(meta["ownerReferences"][0]["kind"], "Job");
        let spec = &pod["spec"];
        assert_eq!(
            (&spec["hostname"], &spec["subdomain"]),
            (&json!("train-7"), &json!("sub"))
        );
        assert_eq!(
            spec["someday"],
            json!({"new": [1.5, true]}),
            "unknown fields are kept"
        );
    }

    #[test]
    fn marks_removed_by_admission_are_detected_in_the_response() {
        use crate::protobuf_writer::{bytes, object};
        const UID: &str = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
        let spec = INDEXED.replace(
            r#"{"a":"b"}"#,
            &format!(r#"{{"a":"b","{CONTROLLER_UID}":"{UID}"}}"#),
        );
        let json = format!(
            r#"{{"metadata":{{"name":"train","namespace":"ml","uid":"{UID}","resourceVersion":"7"}},
                "spec":{spec}}}"#
        );
        let decoded = decode_job(&json).expect("a good Job");
        let template = PodTemplate::new(
            &decoded.job,
            &decoded.template.expect("it makes Pods"),
            TRACKING_FINALIZER,
        );
        let template = template.expect("a good template");
        let (_, made) = template.pod(Some(1), None, suffix(), None);
        assert_eq!(template.marks().lacks(&made), None);
        let answer = |labels: &[(&str, &str)], finalizers: &[&str]| {
            let labels = labels
                .iter()
                .map(|(key, value)| bytes(11, [bytes(1, *key), bytes(2, *value)].concat()));
            let finalizers = finalizers.iter().map(|name| bytes(14, *name));
            let metadata = labels.chain(finalizers).collect::<Vec<_>>().concat();
            object(&bytes(1, metadata))
        };
        let (own, wrong) = ((CONTROLLER_UID, UID), (CONTROLLER_UID, "x"));
        let both = ["own/one", TRACKING_FINALIZER];
        assert_eq!(
            template.marks().lacks(&answer(&[("a", "b"), own], &both)),
            None
        );
        for (labels, finalizers, lacks) in [
            (
                &[own][..],
                &both[..1],
                "finalizer batch.kubernetes.io/job-tracking",
            ),
            (&[wrong], &both, "label batch.kubernetes.io/controller-uid"),
            (
                &[("a", "b")],
                &both,
                "label batch.kubernetes.io/controller-uid",
            ),
        ] {
            assert_eq!(
                template
                    .marks()
                    .lacks(&answer(labels, finalizers))
                    .as_deref(),
                Some(lacks)
            );
        }
        // A Job with its own selector lacks this label.
        let plain = pod(INDEXED, Some(1));
        assert!(plain["metadata"]["labels"].get(CONTROLLER_UID).is_none());
    }

    #[test]
    fn containers_learn_their_index_once() {
        let spec = pod(INDEXED, Some(7))["spec"].clone();
        assert_eq!(
            spec["initContainers"][0]["env"].as_array().map(Vec::len),
            Some(1)
        );
        let variable = json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef":
            {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}});
        assert_eq!(spec["containers"][0]["env"][1], variable, "the last one");
        assert_eq!(spec["containers"][1]["env"], json!([variable]));
    }

    #[test]
    fn a_pod_has_its_indexs_failure_count() {
        let spec = INDEXED.replace(
            r#""completions":9"#,
            r#""completions":9,"backoffLimitPerIndex":3"#,
        );
        let annotations = |counted, ignored| {
            let failures = FailureCounts { counted, ignored };
            pod_after(&spec, Some(7), Some(failures))["metadata"]["annotations"].clone()
        };
        assert_eq!(
            annotations(0, 0),
            json!({"c": "d", COMPLETION_INDEX: "7", INDEX_FAILURES: "0"})
        );
        assert_eq!(
            annotations(2, 1),
            json!({"c": "d", COMPLETION_INDEX: "7", INDEX_FAILURES: "2", INDEX_IGNORED_FAILURES: "1"})
        );
    }

    #[test]
    fn similar_names_are_not_taken_for_marks() {
        let uid = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
        let texts = [
            format!("<{uid}:what>"),
            format!("<{uid}:group>"),
            format!("<{uid}:"),
        ];
        let spec = json!({"completionMode": "Indexed", "completions": 9, "template": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": texts.concat()}},
            "spec": {"containers": [{"name": "c", "args": texts}]}}});
        let pod = pod(&spec.to_string(), Some(7));
        assert_eq!(pod["metadata"]["annotations"]["c"], texts.concat());
        assert_eq!(pod["spec"]["containers"][0]["args"], json!(texts));
        assert_eq!(pod["spec"]["hostname"], "train-7");
    }

    #[test]
    fn a_pod_without_index_is_left_as_its_template() {
        let spec = r#"{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c"}]}}}"#;
        let pod = pod(spec, None);
        assert_eq!(pod["metadata"]["generateName"], "train-");
        assert_eq!(pod["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(pod["spec"], json!({"containers": [{"name": "c"}]}));
        assert!(pod["metadata"].get("annotations").is_none());
    }
}
