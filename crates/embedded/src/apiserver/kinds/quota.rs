//! Implements the rules of ResourceQuotas.
//!
//! Responsible for: the resources that a quota may limit, and the kind or resource that each limit counts. Must not:
//! count; the server does.

use serde_json::{Value, json};

use crate::apiserver::object::{CheckedField, Kind, Quantity, Tree, names, tree};

/// Resources of Pods that a quota may limit.
const COMPUTE: [&str; 9] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// Objects that a quota counts by their plural alone.
const COUNTS: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Scopes, each with the resources that a quota with that scope may limit.
const SCOPES: [(&str, &[&str]); 7] = [
    ("Terminating", &OF_PODS),
    ("NotTerminating", &OF_PODS),
    ("BestEffort", &["pods"]),
    ("NotBestEffort", &OF_PODS),
    ("PriorityClass", &OF_PODS),
    (
        "VolumeAttributesClass",
        &["persistentvolumeclaims", "requests.storage"],
    ),
    ("CrossNamespacePodAffinity", &OF_PODS),
];

const OF_PODS: [&str; 7] = [
    "pods",
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
];

/// Validates a new quota.
#[doc(alias = "ValidateResourceQuota")]
pub(crate) fn validate(quota: &CheckedField<'_, '_>) {
    let spec = quota.at("spec");
    let hard = spec.at("hard");
    for name in hard.tree().keys() {
        check_limit(name, &hard.entry(name));
    }
    check_scopes(&spec);
    check_scope_selector(&spec);
}

/// Validates an update of a quota.
#[doc(alias = "ValidateResourceQuotaUpdate")]
pub(crate) fn validate_update(quota: &CheckedField<'_, '_>) {
    validate(quota);
    let scopes = quota.at("spec.scopes");
    let set = |list: &[Value]| {
        let mut names: Vec<String> = list.iter().map(Value::to_string).collect();
        names.sort();
        names.dedup();
        names
    };
    if set(scopes.list()) != set(scopes.old().list()) {
        scopes.invalid("field is immutable");
    }
}

fn check_limit(name: &str, limit: &CheckedField<'_, '_>) {
    let problems = names::qualified_name_problems(name);
    if problems.is_empty() && !name.contains('/') && !is_standard(name) && name != "storage" {
        limit.invalid_as(
            json!(name),
            "must be a standard resource type or fully qualified",
        );
    }
    limit.complain_of(name, problems);
    if !name.contains('/') && !is_standard(name) {
        limit.invalid_as(json!(name), "must be a standard resource for quota");
    }
    let Some(quantity) = Quantity::of_json(limit.value()) else {
        return;
    };
    if quantity.nanos() < 0 {
        limit.invalid("must be greater than or equal to 0");
    }
    if is_counted_in_whole(name) && !quantity.is_whole() {
        limit.invalid("must be an integer");
    }
}

/// Returns true if a quota may limit a resource of this name.
#[doc(alias = "IsStandardQuotaResourceName")]
fn is_standard(name: &str) -> bool {
    COMPUTE.contains(&name)
        || COUNTS.contains(&name)
        || name == "requests.storage"
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

/// Returns true if a resource is counted in whole numbers.
#[doc(alias = "IsIntegerResourceName")]
fn is_counted_in_whole(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    let is_extended = !is_native && !name.starts_with("requests.");
    COUNTS.contains(&name)
        || is_extended && names::qualified_name_problems(&format!("requests.{name}")).is_empty()
}

fn check_scopes(spec: &CheckedField<'_, '_>) {
    let scopes = spec.at("scopes");
    let given: Vec<&str> = scopes.items().map(|scope| scope.text()).collect();
    for scope in &given {
        let (is_known, misfits) = judge_scope(scope, spec);
        if !is_known {
            scopes.invalid("unsupported scope");
        }
        for _ in 0..misfits {
            scopes.invalid("unsupported scope applied to resource");
        }
    }
    for _ in 0..conflicts(&given) {
        scopes.invalid("conflicting scopes");
    }
}

fn check_scope_selector(spec: &CheckedField<'_, '_>) {
    let selector = spec.at("scopeSelector");
    let expressions = selector.at("matchExpressions");
    let mut given = Vec::new();
    for expression in expressions.items() {
        let scope = expression.at("scopeName").text();
        let (operator, values) = (expression.at("operator").text(), expression.at("values"));
        let (is_known, misfits) = judge_scope(scope, spec);
        // The error's path omits the index of the expression.
        let field = expressions.at("scopeName");
        if !is_known {
            field.invalid_as(json!(scope), "unsupported scope");
        }
        for _ in 0..misfits {
            let detail = "unsupported scope applied to resource";
            expressions.invalid_as(selector.value(), detail);
        }
        let field = expressions.at("operator");
        let takes_values = ["PriorityClass", "VolumeAttributesClass"].contains(&scope);
        if is_known && !takes_values && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                          ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                          ResourceQuotaScopeNotBestEffort or \
                          ResourceQuotaScopeCrossNamespacePodAffinity";
            field.invalid_as(json!(operator), detail);
        }
        let listed = expressions.at("values");
        match operator {
            "In" | "NotIn" if values.list().is_empty() => listed.required(
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            "Exists" | "DoesNotExist" if !values.list().is_empty() => listed.invalid_as(
                values.value(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => field.invalid_as(json!(operator), "not a valid selector operator"),
        }
        given.push(scope);
    }
    for _ in 0..conflicts(&given) {
        expressions.invalid_as(spec.at("scopes").value(), "conflicting scopes");
    }
}

/// Returns true if the scope is known, and the number of limits that it does not apply to.
fn judge_scope(scope: &str, spec: &CheckedField<'_, '_>) -> (bool, usize) {
    let Some((_, fitting)) = SCOPES.iter().find(|(known, _)| *known == scope) else {
        return (false, 0);
    };
    let limits = spec.at("hard").tree().keys();
    let misfits = limits.filter(|name| is_standard(name) && !fitting.contains(&name.as_str()));
    (true, misfits.count())
}

/// Counts the pairs of scopes that exclude each other.
fn conflicts(scopes: &[&str]) -> usize {
    let pairs = [
        ["BestEffort", "NotBestEffort"],
        ["Terminating", "NotTerminating"],
    ];
    let has_both = |pair: &&[&str; 2]| pair.iter().all(|scope| scopes.contains(scope));
    pairs.iter().filter(has_both).count()
}

/// Warnings for a new quota.
pub(crate) fn warnings(quota: &Tree) -> Vec<String> {
    let hard = tree::section(quota, "spec.hard");
    let mut warnings = Vec::new();
    for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let mut requests = format!("requests.{resource}");
        if !hard.contains_key(&requests) && ["cpu", "memory"].contains(&resource) {
            requests = resource.to_owned();
        }
        let limits = format!("limits.{resource}");
        let (Some(request), Some(limit)) = (hard.get(&requests), hard.get(&limits)) else {
            continue;
        };
        let nanos = |value| Quantity::of_json(value).map(Quantity::nanos);
        if nanos(request) > nanos(limit) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            warnings.push(format!(
                "ResourceQuota {requests} ({}) should be less than {limits} ({})",
                text(request),
                text(limit)
            ));
        }
    }
    warnings
}

/// The resource that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limited<'n> {
    /// The number of objects of a kind.
    Count(Kind),
    /// The sum of a resource's requests or limits over all Pods that have not terminated.
    Compute {
        side: &'static str,
        resource: &'n str,
    },
}

/// The resource that the limit `name` counts; `None` if the server counts no such resource.
pub(crate) fn limited(name: &str) -> Option<Limited<'_>> {
    if let Some(qualified) = name.strip_prefix("count/") {
        return Kind::find_qualified(qualified).map(Limited::Count);
    }
    if COUNTS.contains(&name) {
        return Kind::find("", "v1", name).map(Limited::Count);
    }
    let (side, resource) = match name.split_once('.') {
        Some(("requests", resource)) => ("requests", resource),
        Some(("limits", resource)) => ("limits", resource),
        _ => ("requests", name),
    };
    let is_resource = resource.starts_with("hugepages-") || resource.contains('/');
    (is_resource || COMPUTE.contains(&name)).then_some(Limited::Compute { side, resource })
}
