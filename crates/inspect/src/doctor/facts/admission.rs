//! Reads admission webhooks and policies: the requests that they apply to, and the Services behind them.
//!
//! Must not: judge.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::admissionregistration::v1::{
        RuleWithOperations, ValidatingAdmissionPolicy, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use serde::{Deserialize, de::IgnoredAny};

use lakh_model::Selector;
use lakh_wire::selector;

use super::{Sight, Unseen};

/// The timeout of a webhook that does not set one, in seconds.
const USUAL_TIMEOUT: i32 = 10;

/// The webhooks and policies that apply to the controller's requests.
#[derive(Debug, Default)]
pub(crate) struct AdmissionFacts {
    pub(crate) hooks: Sight<Hook>,
    pub(crate) policies: Sight<Policy>,
    /// The number of ready endpoints of each webhook's Service.
    pub(crate) endpoints: BTreeMap<HookService, Result<usize, Unseen>>,
}

/// Namespace and name of a webhook's Service.
pub(crate) type HookService = (String, String);

/// An admission webhook.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    /// Kind and name of the object that contains it.
    pub(crate) configuration: String,
    pub(crate) name: String,
    /// A request is refused if the webhook cannot be called.
    pub(crate) must_answer: bool,
    pub(crate) timeout_seconds: i32,
    /// None if the webhook is outside of the cluster.
    pub(crate) service: Option<HookService>,
    pub(crate) rules: Vec<RuleWithOperations>,
    pub(crate) namespaces: Selector,
    /// It applies only to some of the objects.
    pub(crate) is_choosy: bool,
}

/// A ValidatingAdmissionPolicy.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) rules: Vec<RuleWithOperations>,
}

/// A ValidatingWebhookConfiguration or a MutatingWebhookConfiguration: the relevant fields are the same in both.
#[derive(Deserialize)]
pub(crate) struct HookConfiguration {
    metadata: HookMetadata,
    #[serde(default)]
    webhooks: Vec<RawHook>,
}

#[derive(Deserialize)]
struct HookMetadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawHook {
    name: String,
    client_config: WebhookClientConfig,
    failure_policy: Option<String>,
    timeout_seconds: Option<i32>,
    #[serde(default)]
    rules: Vec<RuleWithOperations>,
    namespace_selector: Option<LabelSelector>,
    object_selector: Option<LabelSelector>,
    #[serde(default)]
    match_conditions: Vec<IgnoredAny>,
}

impl Hook {
    /// Returns the webhooks of a configuration of this kind.
    pub(crate) fn all_of(kind: &str, configuration: HookConfiguration) -> Vec<Self> {
        let place = format!("{kind} {}", configuration.metadata.name);
        let hooks = configuration.webhooks.into_iter();
        hooks.map(|hook| Self::of(&place, hook)).collect()
    }

    fn of(configuration: &str, hook: RawHook) -> Self {
        let service = hook.client_config.service;
        let objects = hook.object_selector.map(selector).unwrap_or_default();
        Self {
            configuration: configuration.to_owned(),
            name: hook.name,
            must_answer: hook.failure_policy.as_deref() != Some("Ignore"),
            timeout_seconds: hook.timeout_seconds.unwrap_or(USUAL_TIMEOUT),
            service: service.map(|service| (service.namespace, service.name)),
            rules: hook.rules,
            namespaces: hook.namespace_selector.map(selector).unwrap_or_default(),
            is_choosy: !hook.match_conditions.is_empty() || objects != Selector::default(),
        }
    }
}

/// A request of the controller that webhooks and policies may refuse: operation, group, resource, and the consequence
/// of a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AdmittedRequest {
    operation: &'static str,
    group: &'static str,
    resource: &'static str,
    pub(crate) consequence: &'static str,
}

const REQUESTS: [AdmittedRequest; 4] = [
    AdmittedRequest {
        operation: "CREATE",
        group: "",
        resource: "pods",
        consequence: "no Pod is created",
    },
    AdmittedRequest {
        operation: "UPDATE",
        group: "",
        resource: "pods",
        consequence: "no finalizer is removed from a terminated Pod",
    },
    AdmittedRequest {
        operation: "DELETE",
        group: "",
        resource: "pods",
        consequence: "no Pod is deleted",
    },
    AdmittedRequest {
        operation: "UPDATE",
        group: "batch",
        resource: "jobs/status",
        consequence: "no Job status is updated",
    },
];

/// Returns the controller's requests that these rules match.
pub(crate) fn meant_by(rules: &[RuleWithOperations]) -> Vec<&'static AdmittedRequest> {
    let is_meant = |request: &&AdmittedRequest| {
        mean(rules, request.operation, request.group, request.resource)
    };
    REQUESTS.iter().filter(is_meant).collect()
}

impl Policy {
    /// Reads a policy.
    pub(crate) fn of(policy: ValidatingAdmissionPolicy) -> Self {
        let constraints = policy.spec.and_then(|spec| spec.match_constraints);
        let rules = constraints.and_then(|constraints| constraints.resource_rules);
        let rules = rules.into_iter().flatten().map(|rule| RuleWithOperations {
            api_groups: rule.api_groups,
            api_versions: rule.api_versions,
            operations: rule.operations,
            resources: rule.resources,
            scope: rule.scope,
        });
        Self {
            name: policy.metadata.name.unwrap_or_default(),
            rules: rules.collect(),
        }
    }
}

/// Returns true if the rules match this request for objects in namespaces.
fn mean(rules: &[RuleWithOperations], operation: &str, group: &str, resource: &str) -> bool {
    let names = |list: &Option<Vec<String>>, wanted: &str| {
        let mut list = list.iter().flatten();
        list.any(|name| name == wanted || name == "*")
    };
    // As in the API server: each part of `a/b` may be `*`, and without a slash no subresource matches.
    let is_resource = |written: &String| {
        let (kind, part) = written.split_once('/').unwrap_or((written, ""));
        let (wanted_kind, wanted_part) = resource.split_once('/').unwrap_or((resource, ""));
        (kind == "*" || kind == wanted_kind) && (part == "*" || part == wanted_part)
    };
    rules.iter().any(|rule| {
        names(&rule.operations, operation)
            && names(&rule.api_groups, group)
            && names(&rule.api_versions, "v1")
            && rule.resources.iter().flatten().any(is_resource)
            && rule.scope.as_deref() != Some("Cluster")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(operations: &str, group: &str, resources: &str) -> RuleWithOperations {
        let list = |text: &str| Some(text.split(' ').map(str::to_owned).collect());
        RuleWithOperations {
            api_groups: Some(vec![group.to_owned()]),
            api_versions: list("v1"),
            operations: list(operations),
            resources: list(resources),
            scope: None,
        }
    }

    #[test]
    fn webhook_rules_match_like_an_api_server() {
        let table = [
            (rule("CREATE UPDATE", "", "pods"), true, false),
            (rule("*", "*", "*/*"), true, true),
            (rule("*", "*", "*"), true, false),
            (rule("CREATE", "", "pods/*"), true, false),
            (rule("UPDATE", "batch", "jobs/*"), false, true),
            (rule("UPDATE", "batch", "*/status"), false, true),
            (rule("UPDATE", "", "pods"), false, false),
            (rule("CREATE", "apps", "pods"), false, false),
        ];
        for (rule, pods, statuses) in table {
            let said = [("CREATE", "", "pods"), ("UPDATE", "batch", "jobs/status")]
                .map(|(verb, group, kind)| mean(std::slice::from_ref(&rule), verb, group, kind));
            assert_eq!(said, [pods, statuses], "{rule:?}");
        }
        let cluster = RuleWithOperations {
            scope: Some("Cluster".to_owned()),
            ..rule("*", "*", "*")
        };
        assert!(!mean(&[cluster], "CREATE", "", "pods"));
    }
}
