//! Validates containers.
//!
//! Responsible for: common mistakes in names, images, probes, ports, variables, mounts and resources. Must not:
//! validate security contexts, which are accepted unchecked.

use hashbrown::HashSet;
use serde_json::{Value, json};

use crate::apiserver::object::{CheckedField, Quantity, names};

/// The largest number of restart policy rules of a container.
const MAX_RULES: usize = 20;
/// The largest number of exit codes in a rule.
const MAX_CODES: usize = 255;

const NO_VARIABLE: &str = "a valid environment variable name must consist only of printable ASCII characters \
                           other than '='";

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Actions of a probe or a hook.
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// Validates the fields that containers and init containers share; `volumes` are the names of the Pod's volumes.
#[doc(alias = "validateContainerCommon")]
pub(super) fn check_container(
    container: &CheckedField<'_, '_>,
    volumes: &[&str],
    pod: &CheckedField<'_, '_>,
) {
    container.at("name").must_be_dns_label();
    container.at("image").must_be_given();
    container
        .at("terminationMessagePolicy")
        .must_be_one_of(&["File", "FallbackToLogsOnError"]);
    check_ports(&container.at("ports"), pod.at("hostNetwork").flag());
    for variable in container.at("env").items() {
        check_variable(&variable);
    }
    check_env_from(&container.at("envFrom"));
    let mut paths: HashSet<&str> = HashSet::new();
    let mounts = container.at("volumeMounts");
    for mount in mounts.items() {
        let (name, path) = (mount.at("name"), mount.at("mountPath"));
        name.must_be_given();
        if !volumes.contains(&name.text()) {
            name.complain(format!("Not found: {:?}", name.text()));
        }
        path.must_be_given();
        if !paths.insert(path.text()) {
            path.invalid_as(json!(path.text()), "must be unique");
        }
        for field in ["subPath", "subPathExpr"] {
            check_descending(&mount.at(field), &mounts.at(field));
        }
    }
    container
        .at("imagePullPolicy")
        .must_be_one_of(&["Always", "IfNotPresent", "Never"]);
    check_resources(&container.at("resources"));
}

/// Validates the hooks and probes of a container that runs alongside others.
pub(super) fn check_life(container: &CheckedField<'_, '_>, pod: &CheckedField<'_, '_>) {
    for hook in ["lifecycle.postStart", "lifecycle.preStop"] {
        check_handler(&container.at(hook), pod);
    }
    check_probes(container, pod);
}

/// Rejects probes and lifecycle hooks of an init container that terminates before other containers start.
pub(super) fn forbid_life(container: &CheckedField<'_, '_>) {
    for field in ["lifecycle"].into_iter().chain(PROBES) {
        if container.at(field).is_set() {
            let detail = "may not be set for init containers without restartPolicy=Always";
            container.at(field).forbidden(detail);
        }
    }
}

fn check_variable(variable: &CheckedField<'_, '_>) {
    let name = variable.at("name");
    let mut bytes = name.text().bytes();
    if name.must_be_given() && !bytes.all(|byte| byte != b'=' && (b' '..=b'~').contains(&byte)) {
        name.invalid(NO_VARIABLE);
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
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let reference = source.at(kind);
        let (name, key) = (reference.at("name"), reference.at("key"));
        if !reference.is_set() {
            continue;
        }
        name.complain_of(name.text(), names::dns_subdomain_problems(name.text()));
        if key.must_be_given() {
            key.complain_of(key.text(), names::config_key_problems(key.text()));
        }
    }
    if source.at("fieldRef").is_set() && field.must_be_given() && !is_field(field.text()) {
        let label = field.text();
        let detail = format!("error converting fieldPath: field label not supported: {label}");
        field.invalid(&detail);
    }
}

fn check_env_from(sources: &CheckedField<'_, '_>) {
    for source in sources.items() {
        let prefix = source.at("prefix");
        let mut bytes = prefix.text().bytes();
        if !bytes.all(|byte| byte != b'=' && (b' '..=b'~').contains(&byte)) {
            prefix.invalid(NO_VARIABLE);
        }
        let mut given = 0;
        for kind in ["configMapRef", "secretRef"] {
            let reference = source.at(kind);
            if !reference.is_set() {
                continue;
            }
            given += 1;
            let name = reference.at("name");
            if name.must_be_given() {
                name.complain_of(name.text(), names::dns_subdomain_problems(name.text()));
            }
        }
        match given {
            0 => sources.invalid_as("\"\"", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => sources.invalid_as(
                "\"\"",
                "may not have more than one field specified at a time",
            ),
        }
    }
}

/// Requires a relative path without `..`; the path of the error omits the index of the mount.
fn check_descending(path: &CheckedField<'_, '_>, shown: &CheckedField<'_, '_>) {
    let text = path.text();
    if text.starts_with('/') {
        shown.invalid_as(json!(text), "must be a relative path");
    }
    if text.split('/').any(|part| part == "..") {
        shown.invalid_as(json!(text), "must not contain '..'");
    }
}

/// Returns true if a variable may refer to this field of the Pod.
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

/// Validates a probe or a hook, if set.
fn check_handler(handler: &CheckedField<'_, '_>, pod: &CheckedField<'_, '_>) {
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
    for kind in ["httpGet", "tcpSocket"] {
        let target = handler.at(kind);
        if target.is_set() {
            check_port(&target.at("port"));
        }
    }
    let (sleep, grace) = (
        handler.at("sleep"),
        pod.at("terminationGracePeriodSeconds").int(),
    );
    if let Some(grace) = grace.filter(|_| sleep.is_set())
        && !(0..=grace).contains(&sleep.at("seconds").number())
    {
        let detail =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        sleep.invalid_as(sleep.at("seconds").number(), &detail);
    }
}

/// Validates a port number or port name.
fn check_port(port: &CheckedField<'_, '_>) {
    match port.as_text() {
        Some(name) => port.complain_of(name, names::port_name_problems(name)),
        None if !(1..=65535).contains(&port.number()) => {
            port.invalid_as(port.number(), "must be between 1 and 65535, inclusive");
        }
        None => {}
    }
}

/// Validates a container's own restart policy and its rules.
pub(super) fn check_restarts(container: &CheckedField<'_, '_>) {
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

fn check_probes(container: &CheckedField<'_, '_>, pod: &CheckedField<'_, '_>) {
    for name in PROBES {
        let probe = container.at(name);
        if !probe.is_set() {
            continue;
        }
        check_handler(&probe, pod);
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
        let problems = match name.text() {
            "" => Vec::new(),
            text => names::port_name_problems(text),
        };
        if problems.is_empty() && !name.text().is_empty() && !port_names.insert(name.text()) {
            name.duplicate();
        }
        name.complain_of(name.text(), problems);
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

/// Requires a resource name that containers may request.
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
            let is_extended = name.contains('/') && !name.contains("kubernetes.io/");
            if is_extended && Quantity::parse(quantity.text()).is_some_and(|it| !it.is_whole()) {
                quantity.invalid("must be an integer");
            }
            let is_overcommitable = !is_extended && !name.starts_with("hugepages-");
            if side == "requests" && !is_overcommitable && !limits.contains_key(name) {
                let detail = "Limit must be set for non overcommitable resources";
                resources.at("limits").required(detail);
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
