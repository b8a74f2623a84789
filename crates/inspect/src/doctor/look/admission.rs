//! Reads admission webhooks and policies, and the endpoints of the webhooks.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    admissionregistration::v1::ValidatingAdmissionPolicy, discovery::v1::EndpointSlice,
};

use crate::doctor::{
    Asker,
    facts::{
        Unseen,
        admission::{AdmissionFacts, Hook, HookConfiguration, HookService, Policy, meant_by},
    },
};

const API: &str = "/apis/admissionregistration.k8s.io/v1";

const KINDS: [&str; 2] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
];

pub(super) async fn look(asker: &Asker) -> AdmissionFacts {
    let mut facts = AdmissionFacts::default();
    for kind in KINDS {
        let path = format!("{API}/{}s", kind.to_lowercase());
        let listed = asker.list_whole::<HookConfiguration>(path).await;
        let hooks = listed.map(|all| {
            let all = all.into_iter();
            all.flat_map(|configuration| Hook::all_of(kind, configuration))
                .collect()
        });
        facts.hooks.take(&format!("{kind}s"), hooks);
    }
    let path = format!("{API}/validatingadmissionpolicies");
    let policies = asker.list_whole::<ValidatingAdmissionPolicy>(path).await;
    let policies = policies.map(|all| all.into_iter().map(Policy::of).collect());
    facts.policies.take("ValidatingAdmissionPolicies", policies);

    // The endpoints of webhooks that are not called for Pods or Jobs do not matter.
    facts
        .hooks
        .found
        .retain(|hook| !meant_by(&hook.rules).is_empty());
    facts
        .policies
        .found
        .retain(|policy| !meant_by(&policy.rules).is_empty());
    let hooks = facts.hooks.found.iter();
    let services: BTreeSet<HookService> = hooks.filter_map(|hook| hook.service.clone()).collect();
    for (namespace, name) in services {
        let ready = ready(asker, &namespace, &name).await;
        facts.endpoints.insert((namespace, name), ready);
    }
    facts
}

/// Returns the number of ready endpoints of a Service.
async fn ready(asker: &Asker, namespace: &str, service: &str) -> Result<usize, Unseen> {
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    let path = format!("{slices}?labelSelector=kubernetes.io%2Fservice-name%3D{service}");
    let slices = asker.list_whole::<EndpointSlice>(path).await;
    let slices = slices.map_err(|error| {
        Unseen::new(
            &format!("endpoints of Service {namespace}/{service}"),
            &error,
        )
    })?;
    let endpoints = slices
        .into_iter()
        .flat_map(|slice| slice.endpoints.into_iter().flatten());
    let is_ready = endpoints.filter(|endpoint| {
        // By the API's rules an unset condition means ready.
        let conditions = endpoint.conditions.as_ref();
        conditions.and_then(|it| it.ready) != Some(false)
    });
    Ok(is_ready.count())
}
