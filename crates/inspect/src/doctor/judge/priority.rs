//! Checks the priority level of the controller's requests. On a level that all clients share the controller waits for
//! all of them.

use k8s_openapi::api::flowcontrol::v1::{
    FlowSchema, PriorityLevelConfiguration, ResourcePolicyRule, Subject,
};

use crate::doctor::{
    facts::{Facts, Unseen},
    patient::{Patient, ServiceAccount},
    report::{Diagnosis, Level},
};

/// The level of requests that no other FlowSchema matches.
const CATCH_ALL: &str = "catch-all";

/// The most frequent request of the controller.
const CALL: [&str; 3] = ["create", "", "pods"];

/// The FlowSchema and priority level of a user's requests.
struct Flow<'a> {
    who: String,
    schema: &'a str,
    level: &'a str,
}

pub(super) fn judge(patient: &Patient, facts: &Facts) -> Diagnosis {
    let mut diagnosis = Diagnosis::new("api-priority")
        .without(&facts.flow_schemas.unseen)
        .without(&facts.priority_levels.unseen);
    let flow = match &patient.account {
        Some(account) => of_account(account, facts),
        None => own(facts, &mut diagnosis),
    };
    let Some(Flow { who, schema, level }) = flow else {
        return diagnosis;
    };
    let mut levels = facts.priority_levels.found.iter();
    let found = levels.find(|it| it.metadata.name.as_deref() == Some(level));
    let kind = found.map(kind).unwrap_or_default();
    diagnosis.summary = format!("calls of {who} go by FlowSchema {schema} to level {level}{kind}");
    if level == CATCH_ALL {
        diagnosis.find(
            Level::Warning,
            format!("calls of {who} go to priority level {CATCH_ALL}"),
            "no other FlowSchema means them. This level lets next to nothing in at once, and what is too much is refused \
             (429)",
            "see whether the FlowSchemas service-accounts and global-default are there, or make one for the controller \
             (kubectl get flowschemas)",
        );
    }
    diagnosis
}

/// Returns those of our own requests, from a response's headers.
fn own<'a>(facts: &'a Facts, diagnosis: &mut Diagnosis) -> Option<Flow<'a>> {
    let Some([schema, level]) = &facts.server.flow else {
        diagnosis.unseen.push(Unseen {
            what: "the priority level of a call".to_owned(),
            why: "the server's answers do not name one".to_owned(),
        });
        return None;
    };
    let mut schemas = facts.flow_schemas.found.iter().map(|it| &it.metadata);
    let mut levels = facts.priority_levels.found.iter().map(|it| &it.metadata);
    let schema = schemas.find(|it| it.uid.as_ref() == Some(schema));
    let level = levels.find(|it| it.uid.as_ref() == Some(level));
    Some(Flow {
        who: facts
            .server
            .user
            .clone()
            .unwrap_or_else(|| "whoever calls".to_owned()),
        schema: schema?.name.as_deref()?,
        level: level?.name.as_deref()?,
    })
}

/// Returns those of a service account's requests.
fn of_account<'a>(account: &ServiceAccount, facts: &'a Facts) -> Option<Flow<'a>> {
    let mut schemas: Vec<&FlowSchema> = facts.flow_schemas.found.iter().collect();
    schemas.sort_by_key(|schema| {
        let precedence = schema
            .spec
            .as_ref()
            .and_then(|spec| spec.matching_precedence);
        // The API's default precedence.
        (precedence.unwrap_or(1000), schema.metadata.name.as_deref())
    });
    let schema = schemas.into_iter().find(|schema| means(schema, account))?;
    Some(Flow {
        who: account.to_string(),
        schema: schema.metadata.name.as_deref()?,
        level: &schema.spec.as_ref()?.priority_level_configuration.name,
    })
}

fn means(schema: &FlowSchema, account: &ServiceAccount) -> bool {
    let rules = schema
        .spec
        .iter()
        .flat_map(|spec| spec.rules.iter().flatten());
    rules.into_iter().any(|rule| {
        let mut resources = rule.resource_rules.iter().flatten();
        rule.subjects
            .iter()
            .any(|subject| is_subject(subject, account))
            && resources.any(is_of_call)
    })
}

fn is_subject(subject: &Subject, account: &ServiceAccount) -> bool {
    let is = |name: &str, wanted: &str| name == "*" || name == wanted;
    let user = subject.user.as_ref();
    let group = subject.group.as_ref();
    let of_namespace = subject.service_account.as_ref();
    user.is_some_and(|user| is(&user.name, &account.to_string()))
        || group.is_some_and(|group| account.groups().iter().any(|own| is(&group.name, own)))
        || of_namespace
            .is_some_and(|it| it.namespace == account.namespace && is(&it.name, &account.name))
}

/// Returns true if a rule matches the creation of a Pod, in any namespace.
fn is_of_call(rule: &ResourcePolicyRule) -> bool {
    let has = |list: &[String], wanted: &str| list.iter().any(|it| it == "*" || it == wanted);
    let [verb, group, resource] = CALL;
    let namespaces = rule.namespaces.as_deref().unwrap_or_default();
    has(&rule.verbs, verb)
        && has(&rule.api_groups, group)
        && has(&rule.resources, resource)
        && namespaces.iter().any(|it| it == "*")
}

/// Describes a priority level.
fn kind(level: &PriorityLevelConfiguration) -> String {
    let Some(spec) = &level.spec else {
        return String::new();
    };
    let shares = spec
        .limited
        .as_ref()
        .and_then(|limited| limited.nominal_concurrency_shares);
    match shares {
        Some(shares) => format!(" ({}, {shares} shares)", spec.type_),
        None => format!(" ({})", spec.type_),
    }
}
