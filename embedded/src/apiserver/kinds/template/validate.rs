//! Checks of pod specs.
//!
//! Responsible for: the mistakes people make in volumes, names, tolerations and scheduling. Must not:
//! check everything a real server checks; sources of volumes and security contexts are taken as they
//! are. Containers have `containers`.

use core::net::IpAddr;

use hashbrown::HashSet;
use serde_json::Value;

use super::{containers::check_container, scheduling};
use crate::apiserver::{
    kinds::metadata,
    object::{
        field_errors::FieldErrors,
        names,
        tree::{self, Tree},
    },
};

/// Names of all containers and init containers.
pub(crate) fn container_names(spec: &Tree) -> impl Iterator<Item = &str> {
    ["initContainers", "containers"]
        .into_iter()
        .flat_map(|list| tree::items(spec, list))
        .filter_map(|container| container.get("name")?.as_str())
}

/// Checks a pod spec found at `path`.
#[doc(alias = "ValidatePodSpec")]
pub(crate) fn validate_spec(spec: &Tree, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let volumes = volumes(spec, path, &mut errors);
    if tree::items(spec, "containers").is_empty() {
        errors.required(format!("{path}.containers"), "");
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for list in ["containers", "initContainers"] {
        for (index, item) in tree::items(spec, list).iter().enumerate() {
            if let Value::Object(container) = item {
                let path = format!("{path}.{list}[{index}]");
                let host_network = tree::flag(spec, "hostNetwork");
                let ends =
                    list == "initContainers" && tree::text(container, "restartPolicy") != "Always";
                check_container(container, &path, ends, &volumes, host_network, &mut errors);
                check_unique(container, &path, &mut seen, &mut errors);
            }
        }
    }
    check_scalars(spec, path, &mut errors);
    check_names(spec, path, &mut errors);
    let selector = tree::section(spec, "nodeSelector");
    metadata::check_labels(selector, &format!("{path}.nodeSelector"), &mut errors);
    scheduling::check(spec, path, &mut errors);
    errors
}

fn check_scalars(spec: &Tree, path: &str, errors: &mut FieldErrors) {
    let policy = tree::text(spec, "restartPolicy");
    if policy.is_empty() {
        errors.required(format!("{path}.restartPolicy"), "");
    } else if !matches!(policy, "Always" | "OnFailure" | "Never") {
        let supported = ["Always", "OnFailure", "Never"];
        errors.unsupported(
            format!("{path}.restartPolicy"),
            Value::from(policy),
            &supported,
        );
    }
    let policy = tree::text(spec, "dnsPolicy");
    let supported = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    if !supported.contains(&policy) {
        errors.unsupported(format!("{path}.dnsPolicy"), Value::from(policy), &supported);
    }
    if let Some(seconds) = tree::int(spec, "activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let path = format!("{path}.activeDeadlineSeconds");
        errors.invalid(path, seconds, "must be between 1 and 2147483647, inclusive");
    }
}

fn check_names(spec: &Tree, path: &str, errors: &mut FieldErrors) {
    for field in ["serviceAccountName", "nodeName", "priorityClassName"] {
        let name = tree::text(spec, field);
        if let Some(problem) = names::dns_subdomain_problem(name).filter(|_| !name.is_empty()) {
            errors.invalid(format!("{path}.{field}"), Value::from(name), &problem);
        }
    }
    for field in ["hostname", "subdomain"] {
        let name = tree::text(spec, field);
        if let Some(problem) = names::dns_label_problem(name).filter(|_| !name.is_empty()) {
            errors.invalid(format!("{path}.{field}"), Value::from(name), &problem);
        }
    }
    for (index, alias) in tree::items(spec, "hostAliases").iter().enumerate() {
        let path = format!("{path}.hostAliases[{index}]");
        let ip = alias.get("ip").and_then(Value::as_str).unwrap_or_default();
        if ip.parse::<IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.invalid(format!("{path}.ip"), Value::from(ip), detail);
        }
        let hosts = alias.get("hostnames").and_then(Value::as_array);
        for (index, host) in hosts.into_iter().flatten().enumerate() {
            let problem = names::dns_subdomain_problem(host.as_str().unwrap_or_default());
            if let Some(problem) = problem {
                errors.invalid(format!("{path}.hostnames[{index}]"), host, &problem);
            }
        }
    }
}

fn volumes<'a>(spec: &'a Tree, path: &str, errors: &mut FieldErrors) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (index, volume) in tree::items(spec, "volumes").iter().enumerate() {
        let name = volume
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let path = format!("{path}.volumes[{index}]");
        let sources = volume.as_object().into_iter().flatten();
        let mut sources = sources
            .map(|(source, _)| source)
            .filter(|have| *have != "name");
        sources.next();
        let before = errors.clone();
        for source in sources {
            let detail = "may not specify more than 1 volume type";
            errors.forbidden(format!("{path}.{source}"), detail);
        }
        let path = format!("{path}.name");
        if name.is_empty() {
            errors.required(path, "");
            continue;
        }
        if let Some(problem) = names::dns_label_problem(name) {
            errors.invalid(path, Value::from(name), &problem);
        } else if names.contains(&name) {
            errors.duplicate(path, Value::from(name));
        }
        // A volume that is wrong in itself does not take its name.
        if *errors == before {
            names.push(name);
        }
    }
    names
}

fn check_unique<'a>(
    container: &'a Tree,
    path: &str,
    seen: &mut HashSet<&'a str>,
    errors: &mut FieldErrors,
) {
    let name = tree::text(container, "name");
    if !name.is_empty() && !seen.insert(name) {
        errors.duplicate(format!("{path}.name"), Value::from(name));
    }
}

/// Checks the metadata of a pod template.
pub(crate) fn validate_template_metadata(metadata: &Tree, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let labels = tree::section(metadata, "labels");
    metadata::check_labels(labels, &format!("{path}.labels"), &mut errors);
    let annotations = tree::section(metadata, "annotations");
    metadata::check_annotations(annotations, &format!("{path}.annotations"), &mut errors);
    errors
}
