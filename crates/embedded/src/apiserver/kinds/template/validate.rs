//! Validates pod specs.
//!
//! Responsible for: common mistakes in volumes, names, tolerations and scheduling. Must not: validate everything that a
//! real server validates; volume sources and security contexts are accepted unchecked. `containers` validates
//! containers.

use core::net::IpAddr;

use hashbrown::HashSet;
use serde_json::Value;

use super::{
    containers::{check_container, check_life, check_restarts, forbid_life},
    scheduling,
    warnings::with_leading_zeros,
};
use crate::apiserver::{
    kinds::metadata,
    object::{CheckedField, Tree, names, tree},
};

/// The names of all init containers and containers.
pub(crate) fn container_names(spec: &Tree) -> impl Iterator<Item = &str> {
    ["initContainers", "containers"]
        .into_iter()
        .flat_map(|list| tree::items(spec, list))
        .filter_map(|container| container.get("name")?.as_str())
}

/// Validates a pod spec.
#[doc(alias = "ValidatePodSpec")]
pub(crate) fn validate_spec<'v>(spec: &CheckedField<'_, 'v>) {
    let volumes = volumes(&spec.at("volumes"));
    if spec.at("containers").list().is_empty() {
        spec.at("containers").required("");
    }
    let mut seen: HashSet<&str> = HashSet::new();
    let mut check_name = |container: &CheckedField<'_, 'v>| {
        let name = container.at("name");
        if !name.text().is_empty() && !seen.insert(name.text()) {
            name.duplicate();
        }
    };
    for container in spec.at("containers").items() {
        check_container(&container, &volumes, spec);
        check_name(&container);
        check_life(&container, spec);
        check_restarts(&container);
    }
    for container in spec.at("initContainers").items() {
        check_container(&container, &volumes, spec);
        check_restarts(&container);
        check_name(&container);
        match container.at("restartPolicy").text() {
            "Always" => check_life(&container, spec),
            _ => forbid_life(&container),
        }
    }
    check_policies(spec);
    metadata::check_labels(&spec.at("nodeSelector"), None);
    scheduling::check_affinity(&spec.at("affinity"));
    check_dns(spec);
    for gate in spec.at("readinessGates").items() {
        gate.at("conditionType").must_be_qualified_name();
    }
    scheduling::check_gates(&spec.at("schedulingGates"));
    for constraint in spec.at("topologySpreadConstraints").items() {
        scheduling::check_spread(&constraint);
    }
    check_names(spec);
}

fn check_dns(spec: &CheckedField<'_, '_>) {
    let config = spec.at("dnsConfig");
    let servers = config.at("nameservers");
    if spec.at("dnsPolicy").text() == "None" {
        if !config.is_set() {
            return config.required("must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.list().is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return servers.required(detail);
        }
    }
    for server in servers.items() {
        check_ip(&server);
    }
    for option in config.at("options").items() {
        if option.at("name").text().is_empty() {
            option.required("must not be empty");
        }
    }
}

#[doc(alias = "IsValidIPForLegacyField")]
fn check_ip(ip: &CheckedField<'_, '_>) {
    let detail = match ip.text().parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            "must not be an IPv4-mapped IPv6 address"
        }
        Ok(_) => return,
        Err(_) if with_leading_zeros(ip.text()).is_some() => "must not have leading 0s",
        Err(_) => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    };
    ip.invalid_as(Value::from(ip.text()), detail);
}

fn check_policies(spec: &CheckedField<'_, '_>) {
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
}

fn check_names(spec: &CheckedField<'_, '_>) {
    let check = |field: &str, problems: fn(&str) -> Vec<String>| {
        let name = spec.at(field);
        if !name.text().is_empty() {
            name.complain_of(name.text(), problems(name.text()));
        }
    };
    for field in ["serviceAccountName", "nodeName"] {
        check(field, names::dns_subdomain_problems);
    }
    let deadline = spec.at("activeDeadlineSeconds");
    let range = 1..=i64::from(i32::MAX);
    if deadline
        .int()
        .is_some_and(|seconds| !range.contains(&seconds))
    {
        deadline.invalid("must be between 1 and 2147483647, inclusive");
    }
    for field in ["hostname", "subdomain"] {
        check(field, names::dns_label_problems);
    }
    for toleration in spec.at("tolerations").items() {
        scheduling::check_toleration(&toleration);
    }
    for alias in spec.at("hostAliases").items() {
        check_ip(&alias.at("ip"));
        for host in alias.at("hostnames").items() {
            host.complain_of(host.text(), names::dns_subdomain_problems(host.text()));
        }
    }
    check("priorityClassName", names::dns_subdomain_problems);
    let preemption = spec.at("preemptionPolicy");
    if preemption.is_set() {
        preemption.must_be_one_of(&["PreemptLowerPriority", "Never"]);
    }
}

/// Validates volumes and returns the names that containers can mount.
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
        // Containers cannot mount an invalid volume.
        if name.found() == before {
            names.push(name.text());
        }
    }
    names
}

/// Validates images by rules that apply to Pods but not to templates.
#[doc(alias = "validateContainersOnlyForPod")]
pub(crate) fn check_images(spec: &CheckedField<'_, '_>) {
    for list in ["containers", "initContainers"] {
        for container in spec.at(list).items() {
            let image = container.at("image");
            if image.text().trim() != image.text() {
                image.invalid("must not have leading or trailing whitespace");
            }
        }
    }
}

/// Validates the metadata of a pod template; like a real server, it omits `metadata` from the paths.
pub(crate) fn validate_metadata(template: &CheckedField<'_, '_>) {
    let metadata = template.at("metadata");
    metadata::check_labels(&template.showing("labels", metadata.at("labels")), None);
    metadata::check_annotations(&template.showing("annotations", metadata.at("annotations")));
}
