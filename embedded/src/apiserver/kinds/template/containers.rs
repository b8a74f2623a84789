//! Checks of containers.
//!
//! Responsible for: the mistakes people make in names, images, probes, ports, variables, mounts and
//! resources. Must not: check security contexts, which are taken as they are.

use hashbrown::HashSet;
use serde_json::{Value, json};

use crate::apiserver::object::{CheckedField, Quantity};

/// Most rules of a container that say when it is started again.
const MAX_RULES: usize = 20;
/// Most exit codes in one of them.
const MAX_CODES: usize = 255;

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// What a probe or a hook does.
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// Checks a container of a Pod that has these volumes. One that `ends` before others start is neither probed nor has
/// lifecycle hooks.
pub(super) fn check_container(
    container: &CheckedField<'_, '_>,
    ends: bool,
    volumes: &[&str],
    host_network: bool,
) {
    container.at("name").must_be_dns_label();
    let image = container.at("image");
    if image.must_be_given() && image.text().trim() != image.text() {
        image.invalid("must not have leading or trailing whitespace");
    }
    check_restarts(container);
    if ends {
        for field in PROBES.into_iter().chain(["lifecycle"]) {
            if container.at(field).is_set() {
                let detail = "may not be set for init containers without restartPolicy=Always";
                container.at(field).forbidden(detail);
            }
        }
    } else {
        for hook in ["lifecycle.postStart", "lifecycle.preStop"] {
            check_handler(&container.at(hook));
        }
        check_probes(container);
    }
    check_ports(&container.at("ports"), host_network);
    container
        .at("terminationMessagePolicy")
        .must_be_one_of(&["File", "FallbackToLogsOnError"]);
    for variable in container.at("env").items() {
        check_variable(&variable);
    }
    let mut paths: HashSet<&str> = HashSet::new();
    for mount in container.at("volumeMounts").items() {
        let (name, path) = (mount.at("name"), mount.at("mountPath"));
        if name.must_be_given() && !volumes.contains(&name.text()) {
            name.complain(format!("Not found: {}", name.value()));
        }
        if path.must_be_given() && !paths.insert(path.text()) {
            path.invalid("must be unique");
        }
    }
    container
        .at("imagePullPolicy")
        .must_be_one_of(&["Always", "IfNotPresent", "Never"]);
    check_resources(&container.at("resources"));
}

fn check_variable(variable: &CheckedField<'_, '_>) {
    let name = variable.at("name");
    let mut bytes = name.text().bytes();
    if name.must_be_given() && !bytes.all(|byte| byte != b'=' && (b' '..=b'~').contains(&byte)) {
        let detail = "a valid environment variable name must consist only of printable ASCII \
                      characters other than '='";
        name.invalid(detail);
    }
    let source = variable.at("valueFrom");
    if !source.is_set() {
        return;
    }
    if source.tree().is_empty() {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
                      `secretKeyRef` or `fileKeyRef`";
        return source.invalid_as("\"\"", detail);
    }
    if !variable.at("value").text().is_empty() {
        source.invalid_as("\"\"", "may not be specified when `value` is not empty");
    }
    let field = source.at("fieldRef.fieldPath");
    if source.at("fieldRef").is_set() && field.must_be_given() && !is_field(field.text()) {
        let label = field.text();
        let detail = format!("error converting fieldPath: field label not supported: {label}");
        field.invalid(&detail);
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

/// Checks a probe or a hook, if there is one.
fn check_handler(handler: &CheckedField<'_, '_>) {
    if !handler.is_set() {
        return;
    }
    if !HANDLERS.iter().any(|have| handler.at(have).is_set()) {
        handler.required("must specify a handler type");
    }
    let command = handler.at("exec.command");
    if handler.at("exec").is_set() && command.list().is_empty() {
        command.required("");
    }
}

/// Whether a container is started again, whatever its Pod says.
fn check_restarts(container: &CheckedField<'_, '_>) {
    let policy = container.at("restartPolicy");
    let rules = container.at("restartPolicyRules");
    if !policy.is_set() {
        if !rules.list().is_empty() {
            policy.required("must specify restartPolicy when restart rules are used");
        }
        return;
    }
    policy.must_be_one_of(&["Always", "Never", "OnFailure"]);
    rules.must_have_at_most(MAX_RULES);
    for rule in rules.items() {
        rule.at("action")
            .must_be_one_of(&["Restart", "RestartAllContainers"]);
        let codes = rule.at("exitCodes");
        if !codes.is_set() {
            codes.required("must be specified");
            continue;
        }
        codes.at("operator").must_be_one_of(&["In", "NotIn"]);
        codes.at("values").must_have_at_most(MAX_CODES);
    }
}

fn check_probes(container: &CheckedField<'_, '_>) {
    for name in PROBES {
        let probe = container.at(name);
        if !probe.is_set() {
            continue;
        }
        check_handler(&probe);
        for field in [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ] {
            probe.at(field).must_not_be_negative();
        }
        let successes = probe.at("successThreshold");
        if name != "readinessProbe" && successes.int() != Some(1) {
            successes.invalid_as(successes.number(), "must be 1");
        }
    }
}

fn check_ports(ports: &CheckedField<'_, '_>, host_network: bool) {
    let mut port_names = HashSet::new();
    for port in ports.items() {
        let name = port.at("name");
        let plain = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '-');
        if !name.text().to_lowercase().chars().all(plain) {
            name.invalid("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
        } else if !name.text().is_empty() && !port_names.insert(name.text()) {
            name.duplicate();
        }
        let range = "must be between 1 and 65535, inclusive";
        let (inside, outside) = (port.at("containerPort"), port.at("hostPort"));
        match inside.number() {
            0 => inside.required(""),
            1..=65535 => {}
            _ => inside.invalid(range),
        }
        let on_host = outside.number();
        if !(0..=65535).contains(&on_host) {
            outside.invalid(range);
        } else if host_network && on_host != 0 && outside.int() != inside.int() {
            outside.invalid("must match `containerPort` when `hostNetwork` is true");
        }
        port.at("protocol").must_be_one_of(&["SCTP", "TCP", "UDP"]);
    }
}

/// Checks whether containers may ask for a resource of this name.
fn check_resource_name(name: &str, quantity: &CheckedField<'_, '_>) {
    let standard =
        ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-");
    if !standard && !name.contains('/') {
        for detail in [
            "must be a standard resource type or fully qualified",
            "must be a standard resource for containers",
        ] {
            quantity.invalid_as(json!(name), detail);
        }
    }
}

fn check_resources(resources: &CheckedField<'_, '_>) {
    let limits = resources.at("limits").tree();
    for side in ["limits", "requests"] {
        let quantities = resources.at(side);
        for name in quantities.tree().keys() {
            let quantity = quantities.entry(name);
            check_resource_name(name, &quantity);
            let Some(amount) = nanos(quantity.text()) else {
                continue;
            };
            if amount < 0 {
                quantity.invalid("must be greater than or equal to 0");
            }
            let limit = limits.get(name).and_then(Value::as_str);
            if let Some(limit) = limit.filter(|_| side == "requests")
                && nanos(limit).is_some_and(|limit| amount > limit)
            {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                quantities.invalid_as(quantity.value(), &detail);
            }
        }
    }
}

fn nanos(text: &str) -> Option<i128> {
    Quantity::parse(text).map(Quantity::nanos)
}
