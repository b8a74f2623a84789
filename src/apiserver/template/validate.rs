//! Checks of pod specs.
//!
//! Responsible for: the mistakes people make in containers, volumes and numbers. Must not: check
//! everything a real server checks; probes, security contexts and volume sources are taken as
//! they are.

use serde_json::{Value, json};

use crate::apiserver::{fields::FieldErrors, meta, metadata_rules, names, object::Tree};

/// Names of all containers and init containers.
pub(crate) fn container_names(spec: &Tree) -> impl Iterator<Item = &str> {
    ["initContainers", "containers"]
        .into_iter()
        .flat_map(|list| meta::items(spec, list))
        .filter_map(|container| container.get("name")?.as_str())
}

/// Checks a pod spec found at `path`.
pub(crate) fn validate_spec(spec: &Tree, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let volumes = volumes(spec, path, &mut errors);
    if meta::items(spec, "containers").is_empty() {
        errors.required(format!("{path}.containers"), "");
    }
    let mut seen: Vec<&str> = Vec::new();
    for list in ["containers", "initContainers"] {
        for (index, item) in meta::items(spec, list).iter().enumerate() {
            if let Value::Object(container) = item {
                let path = format!("{path}.{list}[{index}]");
                check_container(container, &path, &volumes, &mut errors);
                check_unique(container, &path, &mut seen, &mut errors);
            }
        }
    }
    check_scalars(spec, path, &mut errors);
    for key in meta::section(spec, "nodeSelector").keys() {
        for problem in names::qualified_name_problems(key) {
            errors.invalid(
                format!("{path}.nodeSelector"),
                Value::from(key.as_str()),
                &problem,
            );
        }
    }
    let selector = meta::section(spec, "nodeSelector");
    let values = selector
        .iter()
        .filter_map(|(key, value)| Some((key, value.as_str()?)));
    for (key, value) in values {
        for problem in names::label_value_problems(value) {
            errors.invalid(
                format!("{path}.nodeSelector.{key}"),
                Value::from(value),
                &problem,
            );
        }
    }
    errors
}

fn check_scalars(spec: &Tree, path: &str, errors: &mut FieldErrors) {
    let policy = meta::text(spec, "restartPolicy");
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
    let policy = meta::text(spec, "dnsPolicy");
    let supported = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
    if !supported.contains(&policy) {
        errors.unsupported(format!("{path}.dnsPolicy"), Value::from(policy), &supported);
    }
    if let Some(seconds) = meta::int(spec, "activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let path = format!("{path}.activeDeadlineSeconds");
        errors.invalid(path, seconds, "must be between 1 and 2147483647, inclusive");
    }
    let hostname = meta::text(spec, "hostname");
    if let Some(problem) = names::dns_label_problem(hostname).filter(|_| !hostname.is_empty()) {
        errors.invalid(format!("{path}.hostname"), Value::from(hostname), &problem);
    }
}

fn volumes<'a>(spec: &'a Tree, path: &str, errors: &mut FieldErrors) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (index, volume) in meta::items(spec, "volumes").iter().enumerate() {
        let name = volume
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let path = format!("{path}.volumes[{index}].name");
        if name.is_empty() {
            errors.required(path, "");
            continue;
        }
        if let Some(problem) = names::dns_label_problem(name) {
            errors.invalid(path, Value::from(name), &problem);
        } else if names.contains(&name) {
            errors.duplicate(path, Value::from(name));
        }
        names.push(name);
    }
    names
}

fn check_unique<'a>(
    container: &'a Tree,
    path: &str,
    seen: &mut Vec<&'a str>,
    errors: &mut FieldErrors,
) {
    let name = meta::text(container, "name");
    if !name.is_empty() && seen.contains(&name) {
        errors.duplicate(format!("{path}.name"), Value::from(name));
    }
    seen.push(name);
}

fn check_container(container: &Tree, path: &str, volumes: &[&str], errors: &mut FieldErrors) {
    let name = meta::text(container, "name");
    if name.is_empty() {
        errors.required(format!("{path}.name"), "");
    } else if let Some(problem) = names::dns_label_problem(name) {
        errors.invalid(format!("{path}.name"), Value::from(name), &problem);
    }
    let image = meta::text(container, "image");
    if image.is_empty() {
        errors.required(format!("{path}.image"), "");
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.invalid(format!("{path}.image"), Value::from(image), detail);
    }
    check_env(container, path, errors);
    for (index, mount) in meta::items(container, "volumeMounts").iter().enumerate() {
        let text = |field: &str| mount.get(field).and_then(Value::as_str).unwrap_or_default();
        let path = format!("{path}.volumeMounts[{index}]");
        if text("name").is_empty() {
            errors.required(format!("{path}.name"), "");
        } else if !volumes.contains(&text("name")) {
            let name = Value::from(text("name"));
            errors.push(format!("{path}.name"), format!("Not found: {name}"));
        }
        if text("mountPath").is_empty() {
            errors.required(format!("{path}.mountPath"), "");
        }
    }
    let policy = meta::text(container, "imagePullPolicy");
    let supported = ["Always", "IfNotPresent", "Never"];
    if !supported.contains(&policy) {
        errors.unsupported(
            format!("{path}.imagePullPolicy"),
            Value::from(policy),
            &supported,
        );
    }
    check_resources(meta::section(container, "resources"), path, errors);
    check_ports(container, path, errors);
}

fn check_env(container: &Tree, path: &str, errors: &mut FieldErrors) {
    for (index, variable) in meta::items(container, "env").iter().enumerate() {
        if variable
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .is_empty()
        {
            errors.required(format!("{path}.env[{index}].name"), "");
        }
    }
}

fn check_ports(container: &Tree, path: &str, errors: &mut FieldErrors) {
    for (index, port) in meta::items(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{index}].containerPort");
        match port.get("containerPort").and_then(Value::as_i64) {
            None | Some(0) => errors.required(path, ""),
            Some(1..=65535) => {}
            Some(number) => {
                errors.invalid(path, number, "must be between 1 and 65535, inclusive");
            }
        }
    }
}

fn check_resources(resources: &Tree, path: &str, errors: &mut FieldErrors) {
    let limits = meta::section(resources, "limits");
    for (side, quantities) in [
        ("limits", limits),
        ("requests", meta::section(resources, "requests")),
    ] {
        for (name, quantity) in quantities {
            let text = quantity.as_str().unwrap_or_default();
            let path = format!("{path}.resources.{side}");
            let Some(amount) = quantity_millis(text) else {
                continue;
            };
            if amount < 0.0 {
                let path = format!("{path}[{name}]");
                errors.invalid(path, json!(text), "must be greater than or equal to 0");
            }
            let limit = limits
                .get(name)
                .and_then(Value::as_str)
                .filter(|_| side == "requests");
            if let Some(limit) = limit
                && quantity_millis(limit).is_some_and(|limit| amount > limit)
            {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errors.invalid(path, json!(text), &detail);
            }
        }
    }
}

/// A quantity in thousandths; good enough to compare two of them.
fn quantity_millis(text: &str) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 15] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    let (number, factor) = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)))
        .unwrap_or((text, 1.0));
    Some(number.parse::<f64>().ok()? * factor * 1000.0)
}

/// Checks the metadata of a pod template.
pub(crate) fn validate_template_metadata(metadata: &Tree, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let labels = meta::section(metadata, "labels");
    metadata_rules::check_labels(labels, &format!("{path}.labels"), &mut errors);
    let annotations = meta::section(metadata, "annotations");
    metadata_rules::check_annotations(annotations, &format!("{path}.annotations"), &mut errors);
    errors
}
