//! Checks of containers.
//!
//! Responsible for: the mistakes people make in names, images, probes, ports, variables, mounts and
//! resources. Must not: check security contexts, which are taken as they are.

use hashbrown::HashSet;
use serde_json::{Value, json};

use crate::apiserver::object::{
    field_errors::FieldErrors,
    names,
    quantity::Quantity,
    tree::{self, Tree},
};

/// Checks a container found at `path`; `volumes` are the Pod's. One that `ends` before others start is
/// neither probed nor has lifecycle hooks.
pub(super) fn check_container(
    container: &Tree,
    path: &str,
    ends: bool,
    volumes: &[&str],
    host_network: bool,
    errors: &mut FieldErrors,
) {
    let name = tree::text(container, "name");
    if name.is_empty() {
        errors.required(format!("{path}.name"), "");
    } else if let Some(problem) = names::dns_label_problem(name) {
        errors.invalid(format!("{path}.name"), Value::from(name), &problem);
    }
    let image = tree::text(container, "image");
    if image.is_empty() {
        errors.required(format!("{path}.image"), "");
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.invalid(format!("{path}.image"), Value::from(image), detail);
    }
    check_restarts(container, path, errors);
    if ends {
        for field in PROBES.into_iter().chain(["lifecycle"]) {
            if container.get(field).is_some_and(|value| !value.is_null()) {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.forbidden(format!("{path}.{field}"), detail);
            }
        }
    } else {
        check_lifecycle(container, path, errors);
        check_probes(container, path, errors);
    }
    check_ports(container, path, host_network, errors);
    let policy = tree::text(container, "terminationMessagePolicy");
    if !matches!(policy, "File" | "FallbackToLogsOnError") {
        let supported = ["File", "FallbackToLogsOnError"];
        let path = format!("{path}.terminationMessagePolicy");
        errors.unsupported(path, json!(policy), &supported);
    }
    check_env(container, path, errors);
    let mut paths: HashSet<&str> = HashSet::new();
    for (index, mount) in tree::items(container, "volumeMounts").iter().enumerate() {
        let text = |field: &str| mount.get(field).and_then(Value::as_str).unwrap_or_default();
        let path = format!("{path}.volumeMounts[{index}]");
        if text("name").is_empty() {
            errors.required(format!("{path}.name"), "");
        } else if !volumes.contains(&text("name")) {
            let name = Value::from(text("name"));
            errors.push(format!("{path}.name"), format!("Not found: {name}"));
        }
        let mounted = text("mountPath");
        if mounted.is_empty() {
            errors.required(format!("{path}.mountPath"), "");
        } else if !paths.insert(mounted) {
            errors.invalid(
                format!("{path}.mountPath"),
                json!(mounted),
                "must be unique",
            );
        }
    }
    let policy = tree::text(container, "imagePullPolicy");
    let supported = ["Always", "IfNotPresent", "Never"];
    if !supported.contains(&policy) {
        errors.unsupported(
            format!("{path}.imagePullPolicy"),
            Value::from(policy),
            &supported,
        );
    }
    check_resources(tree::section(container, "resources"), path, errors);
}

fn check_env(container: &Tree, path: &str, errors: &mut FieldErrors) {
    for (index, variable) in tree::items(container, "env").iter().enumerate() {
        let text = |field: &str| variable.get(field).and_then(Value::as_str);
        let name = text("name").unwrap_or_default();
        let path = format!("{path}.env[{index}]");
        if name.is_empty() {
            errors.required(format!("{path}.name"), "");
        } else if !name
            .bytes()
            .all(|byte| byte != b'=' && (b' '..=b'~').contains(&byte))
        {
            let detail = "a valid environment variable name must consist only of printable ASCII \
                          characters other than '='";
            errors.invalid(format!("{path}.name"), json!(name), detail);
        }
        if let Some(Value::Object(source)) = variable.get("valueFrom") {
            check_source(source, text("value").unwrap_or_default(), &path, errors);
        }
    }
}

fn check_source(source: &Tree, value: &str, path: &str, errors: &mut FieldErrors) {
    let path = format!("{path}.valueFrom");
    if source.is_empty() {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
                      `secretKeyRef` or `fileKeyRef`";
        return errors.invalid(path, "\"\"", detail);
    }
    if !value.is_empty() {
        let detail = "may not be specified when `value` is not empty";
        errors.invalid(path.as_str(), "\"\"", detail);
    }
    if let Some(Value::Object(field)) = source.get("fieldRef") {
        let name = tree::text(field, "fieldPath");
        let path = format!("{path}.fieldRef.fieldPath");
        if name.is_empty() {
            errors.required(path, "");
        } else if !is_field(name) {
            let detail = format!("error converting fieldPath: field label not supported: {name}");
            errors.invalid(path, json!(name), &detail);
        }
    }
}

/// Whether a variable may have the value of this field of its Pod.
fn is_field(name: &str) -> bool {
    const FIELDS: [&str; 11] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.labels",
        "metadata.annotations",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    let of_map = |map: &str| {
        name.strip_prefix(map)
            .is_some_and(|key| key.starts_with("['") && key.ends_with("']"))
    };
    FIELDS.contains(&name) || of_map("metadata.labels") || of_map("metadata.annotations")
}

/// What a probe or a hook does.
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

fn check_handler(handler: &Tree, path: &str, errors: &mut FieldErrors) {
    if !HANDLERS.iter().any(|have| handler.contains_key(*have)) {
        errors.required(path, "must specify a handler type");
    }
    if let Some(Value::Object(exec)) = handler.get("exec")
        && tree::items(exec, "command").is_empty()
    {
        errors.required(format!("{path}.exec.command"), "");
    }
}

fn check_lifecycle(container: &Tree, path: &str, errors: &mut FieldErrors) {
    let lifecycle = tree::section(container, "lifecycle");
    for hook in ["postStart", "preStop"] {
        if let Some(Value::Object(handler)) = lifecycle.get(hook) {
            check_handler(handler, &format!("{path}.lifecycle.{hook}"), errors);
        }
    }
}

/// Whether a container is started again, whatever its Pod says.
fn check_restarts(container: &Tree, path: &str, errors: &mut FieldErrors) {
    let rules = tree::items(container, "restartPolicyRules");
    let Some(policy) = container.get("restartPolicy").and_then(Value::as_str) else {
        if !rules.is_empty() {
            let detail = "must specify restartPolicy when restart rules are used";
            errors.required(format!("{path}.restartPolicy"), detail);
        }
        return;
    };
    let supported = ["Always", "Never", "OnFailure"];
    if !supported.contains(&policy) {
        errors.unsupported(format!("{path}.restartPolicy"), json!(policy), &supported);
    }
    let path = format!("{path}.restartPolicyRules");
    if rules.len() > MAX_RULES {
        errors.too_many(path.as_str(), rules.len(), MAX_RULES);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let action = rule["action"].as_str().unwrap_or_default();
        let supported = ["Restart", "RestartAllContainers"];
        if !supported.contains(&action) {
            errors.unsupported(format!("{path}.action"), json!(action), &supported);
        }
        let Some(Value::Object(codes)) = rule.get("exitCodes") else {
            errors.required(format!("{path}.exitCodes"), "must be specified");
            continue;
        };
        let path = format!("{path}.exitCodes");
        let operator = tree::text(codes, "operator");
        let supported = ["In", "NotIn"];
        if !supported.contains(&operator) {
            errors.unsupported(format!("{path}.operator"), json!(operator), &supported);
        }
        let values = tree::items(codes, "values").len();
        if values > MAX_CODES {
            errors.too_many(format!("{path}.values"), values, MAX_CODES);
        }
    }
}

/// Most rules of a container that say when it is started again.
const MAX_RULES: usize = 20;
/// Most exit codes in one of them.
const MAX_CODES: usize = 255;

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

fn check_probes(container: &Tree, path: &str, errors: &mut FieldErrors) {
    for name in PROBES {
        let Some(Value::Object(probe)) = container.get(name) else {
            continue;
        };
        let path = format!("{path}.{name}");
        check_handler(probe, &path, errors);
        for field in [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ] {
            errors.not_negative(format!("{path}.{field}"), tree::int(probe, field));
        }
        let successes = tree::int(probe, "successThreshold").unwrap_or_default();
        if name != "readinessProbe" && successes != 1 {
            errors.invalid(format!("{path}.successThreshold"), successes, "must be 1");
        }
    }
}

fn check_ports(container: &Tree, path: &str, host_network: bool, errors: &mut FieldErrors) {
    let mut port_names = HashSet::new();
    for (index, port) in tree::items(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let int = |field: &str| port.get(field).and_then(Value::as_i64).unwrap_or_default();
        let text = |field: &str| port.get(field).and_then(Value::as_str).unwrap_or_default();
        let name = text("name");
        let plain = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '-');
        if !name.to_lowercase().chars().all(plain) {
            let detail = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
            errors.invalid(format!("{path}.name"), json!(name), detail);
        } else if !name.is_empty() && !port_names.insert(name) {
            errors.duplicate(format!("{path}.name"), json!(name));
        }
        let range = "must be between 1 and 65535, inclusive";
        let number = int("containerPort");
        match number {
            0 => errors.required(format!("{path}.containerPort"), ""),
            1..=65535 => {}
            number => errors.invalid(format!("{path}.containerPort"), number, range),
        }
        let on_host = int("hostPort");
        if !(0..=65535).contains(&on_host) {
            errors.invalid(format!("{path}.hostPort"), on_host, range);
        } else if host_network && on_host != 0 && on_host != number {
            let detail = "must match `containerPort` when `hostNetwork` is true";
            errors.invalid(format!("{path}.hostPort"), on_host, detail);
        }
        let protocol = text("protocol");
        let supported = ["SCTP", "TCP", "UDP"];
        if !supported.contains(&protocol) {
            errors.unsupported(format!("{path}.protocol"), json!(protocol), &supported);
        }
    }
}

/// Whether containers may ask for a resource of this name; the errors if not.
fn check_resource_name(name: &str, path: &str, errors: &mut FieldErrors) {
    let standard =
        ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-");
    if !standard && !name.contains('/') {
        for detail in [
            "must be a standard resource type or fully qualified",
            "must be a standard resource for containers",
        ] {
            errors.invalid(path, json!(name), detail);
        }
    }
}

fn check_resources(resources: &Tree, path: &str, errors: &mut FieldErrors) {
    let limits = tree::section(resources, "limits");
    for (side, quantities) in [
        ("limits", limits),
        ("requests", tree::section(resources, "requests")),
    ] {
        for (name, quantity) in quantities {
            let text = quantity.as_str().unwrap_or_default();
            let path = format!("{path}.resources.{side}");
            check_resource_name(name, &format!("{path}[{name}]"), errors);
            let Some(amount) = nanos(text) else {
                continue;
            };
            if amount < 0 {
                let path = format!("{path}[{name}]");
                errors.invalid(path, json!(text), "must be greater than or equal to 0");
            }
            let limit = limits
                .get(name)
                .and_then(Value::as_str)
                .filter(|_| side == "requests");
            if let Some(limit) = limit
                && nanos(limit).is_some_and(|limit| amount > limit)
            {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errors.invalid(path, json!(text), &detail);
            }
        }
    }
}

fn nanos(text: &str) -> Option<i128> {
    Quantity::parse(text).map(Quantity::nanos)
}
