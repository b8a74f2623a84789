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
    object::{CheckedField, Tree, names, tree},
};

/// Names of all containers and init containers.
pub(crate) fn container_names(spec: &Tree) -> impl Iterator<Item = &str> {
    ["initContainers", "containers"]
        .into_iter()
        .flat_map(|list| tree::items(spec, list))
        .filter_map(|container| container.get("name")?.as_str())
}

/// Checks a pod spec.
#[doc(alias = "ValidatePodSpec")]
pub(crate) fn validate_spec(spec: &CheckedField<'_, '_>) {
    let volumes = volumes(&spec.at("volumes"));
    let host_network = spec.at("hostNetwork").flag();
    if spec.at("containers").list().is_empty() {
        spec.at("containers").required("");
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for list in ["containers", "initContainers"] {
        for container in spec.at(list).items() {
            let ends = list == "initContainers" && container.at("restartPolicy").text() != "Always";
            check_container(&container, ends, &volumes, host_network);
            let name = container.at("name");
            if !name.text().is_empty() && !seen.insert(name.text()) {
                name.duplicate();
            }
        }
    }
    check_scalars(spec);
    check_names(spec);
    metadata::check_labels(&spec.at("nodeSelector"), None);
    scheduling::check(spec);
}

fn check_scalars(spec: &CheckedField<'_, '_>) {
    let policy = spec.at("restartPolicy");
    if policy.must_be_given() {
        policy.must_be_one_of(&["Always", "OnFailure", "Never"]);
    }
    spec.at("dnsPolicy").must_be_one_of(&[
        "ClusterFirstWithHostNet",
        "ClusterFirst",
        "Default",
        "None",
    ]);
    let deadline = spec.at("activeDeadlineSeconds");
    let range = 1..=i64::from(i32::MAX);
    if deadline
        .int()
        .is_some_and(|seconds| !range.contains(&seconds))
    {
        deadline.invalid("must be between 1 and 2147483647, inclusive");
    }
}

fn check_names(spec: &CheckedField<'_, '_>) {
    let check = |field: &str, problems: fn(&str) -> Vec<String>| {
        let name = spec.at(field);
        if !name.text().is_empty() {
            name.complain_of(name.text(), problems(name.text()));
        }
    };
    for field in ["serviceAccountName", "nodeName", "priorityClassName"] {
        check(field, names::dns_subdomain_problems);
    }
    for field in ["hostname", "subdomain"] {
        check(field, names::dns_label_problems);
    }
    for alias in spec.at("hostAliases").items() {
        let ip = alias.at("ip");
        if ip.text().parse::<IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            ip.invalid_as(Value::from(ip.text()), detail);
        }
        for host in alias.at("hostnames").items() {
            host.complain_of(host.text(), names::dns_subdomain_problems(host.text()));
        }
    }
}

/// The names of the volumes that there are for containers.
fn volumes<'v>(volumes: &CheckedField<'_, 'v>) -> Vec<&'v str> {
    let mut names: Vec<&str> = Vec::new();
    for volume in volumes.items() {
        let before = volume.found();
        let sources = volume.tree().keys().filter(|have| *have != "name");
        for source in sources.skip(1) {
            let detail = "may not specify more than 1 volume type";
            volume.at(source).forbidden(detail);
        }
        let name = volume.at("name");
        if names.contains(&name.text()) {
            name.duplicate();
        } else {
            name.must_be_dns_label();
        }
        // A volume that is wrong in itself does not take its name.
        if name.found() == before {
            names.push(name.text());
        }
    }
    names
}

/// Checks the metadata of a pod template; a real server leaves it out of the paths.
pub(crate) fn validate_metadata(template: &CheckedField<'_, '_>) {
    let metadata = template.at("metadata");
    metadata::check_labels(&template.showing("labels", metadata.at("labels")), None);
    metadata::check_annotations(&template.showing("annotations", metadata.at("annotations")));
}
