//! Checks that the admission webhooks for Pods have ready endpoints.

use lakh_model::Selector;

use crate::doctor::{
    facts::{
        Facts, Unseen,
        admission::{Hook, meant_by},
    },
    patient::Patient,
    report::{Diagnosis, Level},
};

use crate::words::{count, names};

pub(super) fn judge(_: &Patient, facts: &Facts) -> Diagnosis {
    let admission = &facts.admission;
    let mut diagnosis = Diagnosis::new("webhooks")
        .without(&admission.hooks.unseen)
        .without(&admission.policies.unseen);
    let hooks = admission.hooks.found.iter();
    let hooks: Vec<&Hook> = hooks
        .filter(|hook| means_some_namespace(hook, facts))
        .collect();
    let policies: Vec<&str> = admission
        .policies
        .found
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    if hooks
        .iter()
        .any(|hook| hook.namespaces != Selector::default())
    {
        diagnosis = diagnosis.without(&facts.namespaces.unseen);
    }
    if admission.hooks.unseen.is_empty() {
        diagnosis.summary = format!(
            "{} asked about Pods and Jobs",
            count(hooks.len(), "webhook")
        );
        if !policies.is_empty() {
            diagnosis.summary += &format!("; policies look at them: {}", names(policies));
        }
    }
    for hook in hooks {
        let Some(service) = &hook.service else {
            diagnosis.unseen.push(Unseen {
                what: format!("webhook {} ({})", hook.name, hook.configuration),
                why: "it is outside of the cluster, so whether it answers cannot be seen"
                    .to_owned(),
            });
            continue;
        };
        match facts.admission.endpoints.get(service) {
            Some(Ok(0)) => unanswered(hook, &mut diagnosis),
            Some(Ok(_)) => {}
            Some(Err(unseen)) => diagnosis.unseen.push(unseen.clone()),
            None => {}
        }
    }
    diagnosis
}

/// Returns true if a webhook applies to any of the namespaces, or they are unknown.
fn means_some_namespace(hook: &Hook, facts: &Facts) -> bool {
    let namespaces = &facts.namespaces;
    hook.namespaces == Selector::default()
        || !namespaces.unseen.is_empty()
        || namespaces
            .found
            .iter()
            .any(|it| hook.namespaces.matches(&it.labels))
}

/// Reports a webhook without ready endpoints.
fn unanswered(hook: &Hook, diagnosis: &mut Diagnosis) {
    let (namespace, service) = hook.service.as_ref().expect("somebody is to answer");
    let requests = meant_by(&hook.rules);
    let consequences: Vec<&str> = requests.iter().map(|request| request.consequence).collect();
    let some = match (hook.is_choosy, hook.namespaces == Selector::default()) {
        (true, _) => ", of the objects that it chooses",
        (false, false) => ", in the namespaces that it chooses",
        (false, true) => "",
    };
    let Hook {
        name,
        configuration,
        timeout_seconds,
        ..
    } = hook;
    let what = format!("nobody answers for webhook {name} ({configuration})");
    let cause = format!("Service {namespace}/{service} has no ready endpoint, or is not there");
    match hook.must_answer {
        true => diagnosis.find(
            Level::Failed,
            format!("{what}: {}{some}", consequences.join(", ")),
            format!("{cause}, and failurePolicy is Fail"),
            format!(
                "bring the Service back. Until then, if nobody is harmed: kubectl delete {configuration}, or set its \
                 failurePolicy to Ignore"
            ),
        ),
        false => diagnosis.find(
            Level::Warning,
            format!("{what}: each write may take {timeout_seconds} s longer{some}"),
            format!("{cause}; failurePolicy is Ignore, so writes go on without it"),
            format!("bring the Service back, or delete {configuration}"),
        ),
    }
}
