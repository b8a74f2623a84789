//! Implements `binding`, `eviction` and `log` of Pods.
//!
//! Responsible for: these three subresources. Must not: schedule, or enforce disruption budgets.

use serde_json::{Value, json};

use super::{pod_output::PodOutput, state::ApiServer};
use crate::{
    apiserver::{
        http::{DeleteOptions, Target},
        object::{ApiError, Kind, Result, Tree, tree},
        print::{Response, TEXT},
    },
    model::Time,
};

const TOPOLOGY_LABELS: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

impl ApiServer {
    /// Binds a Pod to a node.
    pub(crate) fn bind(&mut self, target: &Target, body: &Tree, now: Time) -> Result<Response> {
        let named = tree::text(body, "metadata.name");
        if named != target.name {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Binding object",
            ));
        }
        let to = tree::section(body, "target");
        let kind = tree::text(to, "kind");
        if !matches!(kind, "" | "Node") {
            let why = format!(
                "target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""
            );
            return Err(ApiError::new(500, "", why));
        }
        if tree::text(to, "name").is_empty() {
            return Err(ApiError::new(500, "", "target.name: Required value"));
        }
        let pod = self.find(target)?;
        let mut tree = pod.tree();
        let name = &target.name;
        let refuse = |why: String| {
            let what = "pods/binding";
            let message = format!("Operation cannot be fulfilled on {what} {name:?}: {why}");
            let details = json!({"name": name, "kind": what});
            Err(ApiError::new(409, "Conflict", message).with_details(details))
        };
        if pod.deletion.is_some() {
            return refuse(format!(
                "pod {name} is being deleted, cannot be assigned to a host"
            ));
        }
        if !pod.node.is_empty() {
            return refuse(format!(
                "pod {name} is already assigned to node {:?}",
                pod.node
            ));
        }
        if !tree::items(&tree, "spec.schedulingGates").is_empty() {
            return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        let node = tree::text(body, "target.name").to_owned();
        let metadata = tree::metadata_mut(&mut tree);
        for map in ["labels", "annotations"] {
            let given = tree::section(tree::metadata(body), map);
            if !given.is_empty() {
                tree::section_mut(metadata, map).extend(given.clone());
            }
        }
        if let Some(node) = self.store.get(Kind::Node, "", &node) {
            for label in TOPOLOGY_LABELS {
                if let Some(value) = node.label(label) {
                    tree::section_mut(metadata, "labels").insert(label.into(), value.into());
                }
            }
        }
        tree::section_mut(&mut tree, "spec").insert("nodeName".into(), node.into());
        let scheduled = json!({"type": "PodScheduled", "status": "True"});
        set_condition(&mut tree, scheduled, now);
        if !target.options.dry_run {
            self.store_put(Kind::Pod, &tree);
        }
        Ok(Response::success(201, "code", 201.into()))
    }

    /// Evicts a Pod: adds the condition `DisruptionTarget` and deletes the Pod.
    pub(crate) fn evict(
        &mut self,
        target: &Target,
        body: &Tree,
        options: &DeleteOptions,
        now: Time,
    ) -> Result<Response> {
        let named = tree::text(body, "metadata.name");
        if !named.is_empty() && named != target.name {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        let mut pod = self.find(target)?;
        let live = pod.deletion.is_none() && !matches!(pod.phase.as_str(), "Succeeded" | "Failed");
        if live && !options.dry_run && !pod.node.is_empty() {
            let mut tree = pod.tree();
            let condition = json!({
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            set_condition(&mut tree, condition, now);
            pod = self.store_put(Kind::Pod, &tree);
        }
        self.delete_object(&pod, options, now);
        Ok(Response::success(201, "code", 201.into()))
    }

    /// Returns the log of a container: the lines of [`PodOutput`], or a line that says that the node is hollow. The
    /// response is empty for a Pod without a node.
    pub(crate) fn pod_log(&self, target: &Target) -> Result<Response> {
        let pod = self.find(target)?;
        let (query, container) = (&target.query, target.query.text("container"));
        check_container(&pod.tree(), &target.name, container)?;
        if pod.node.is_empty() {
            return Ok(Response::bytes(204, TEXT, Vec::new()));
        }
        let previous = query.text("previous") == "true";
        let output = self.pod_output.as_ref();
        let output = output.and_then(|PodOutput(output)| output(pod.bytes(), container, previous));
        let mut output = output.unwrap_or_else(|| {
            format!(
                "{}/{} ran on {}, a hollow node without output\n",
                pod.namespace, pod.name, pod.node
            )
        });
        if let Some(lines) = query.get("tailLines").and_then(|lines| lines.parse().ok()) {
            output = last_lines(&output, lines).to_owned();
        }
        let mut output = output.into_bytes();
        if let Some(bytes) = query.get("limitBytes").and_then(|bytes| bytes.parse().ok()) {
            output.truncate(bytes);
        }
        Ok(Response::bytes(200, TEXT, output))
    }

    /// Sets the source of container logs.
    pub fn set_pod_output(&mut self, output: Option<PodOutput>) {
        self.pod_output = output;
    }
}

/// The last `count` lines of a text, including line ends.
fn last_lines(text: &str, count: usize) -> &str {
    let ends = text
        .rmatch_indices('\n')
        .skip_while(|(at, _)| at + 1 == text.len());
    let cut = count
        .checked_sub(1)
        .map(|count| ends.map(|(at, _)| at + 1).nth(count));
    match cut {
        Some(start) => &text[start.unwrap_or(0)..],
        None => "",
    }
}

/// Requires a container name if the Pod has several containers; a given name must exist.
fn check_container(pod: &Tree, name: &str, container: &str) -> Result<()> {
    let spec = tree::section(pod, "spec");
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all = lists.iter().flat_map(|list| tree::items(spec, list));
    let names: Vec<&str> = all
        .filter_map(|container| container.get("name")?.as_str())
        .collect();
    if container.is_empty() && names.len() > 1 {
        let list = names.join(" ");
        return Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{list}]"
        )));
    }
    if !container.is_empty() && !names.contains(&container) {
        return Err(ApiError::bad_request(format!(
            "container {container} is not valid for pod {name}"
        )));
    }
    Ok(())
}

/// Sets a condition by type, with the current time as its transition time.
fn set_condition(tree: &mut Tree, mut condition: Value, now: Time) {
    condition["lastTransitionTime"] = now.to_rfc3339().into();
    let status = tree::section_mut(tree, "status");
    let list = tree::list_mut(status, "conditions");
    match list
        .iter_mut()
        .find(|have| have.get("type") == condition.get("type"))
    {
        Some(have) => *have = condition,
        None => list.push(condition),
    }
}
