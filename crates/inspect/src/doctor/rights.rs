//! Lists the permissions that the controller needs. The roles of `deploy/overlays` and `deploy/components` grant the
//! same, and give the reason for each verb; a test here compares them.
//!
//! Must not: check permissions.

use super::{facts::RightFacts, patient::Patient};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ControllerPart {
    /// Any of the controllers.
    Any,
    Jobs,
    /// The controllers that delete finished Jobs.
    Deletion,
    /// The controllers that record Events.
    Telling,
    CronJobs,
    Gangs,
    /// The UI for clients with a bearer token. Reviews have no namespace.
    Page,
    /// Leader election, in one namespace.
    Election,
}

/// Resource, group, verbs, and the part of the controller that needs them.
type Right = (
    &'static str,
    &'static str,
    &'static [&'static str],
    ControllerPart,
);

const BATCH: &str = "batch";
const SCHEDULING: &str = "scheduling.k8s.io";
const READ: &[&str] = &["get", "list", "watch"];
const OF_PODS: &[&str] = &["list", "watch", "get", "create", "patch", "delete"];
const OF_GANGS: &[&str] = &["list", "watch", "create"];
const CREATE: &[&str] = &["create"];
const OF_LEASES: &[&str] = &["get", "watch", "create", "update"];

const RIGHTS: &[Right] = &[
    ("jobs", BATCH, READ, ControllerPart::Any),
    ("jobs", BATCH, &["delete"], ControllerPart::Deletion),
    ("jobs/status", BATCH, &["patch"], ControllerPart::Jobs),
    ("jobs/finalizers", BATCH, &["update"], ControllerPart::Jobs),
    ("pods", "", OF_PODS, ControllerPart::Jobs),
    ("events", "", &["create", "patch"], ControllerPart::Telling),
    ("jobs", BATCH, CREATE, ControllerPart::CronJobs),
    ("cronjobs", BATCH, READ, ControllerPart::CronJobs),
    (
        "cronjobs/status",
        BATCH,
        &["patch"],
        ControllerPart::CronJobs,
    ),
    (
        "cronjobs/finalizers",
        BATCH,
        &["update"],
        ControllerPart::CronJobs,
    ),
    ("workloads", SCHEDULING, OF_GANGS, ControllerPart::Gangs),
    ("podgroups", SCHEDULING, OF_GANGS, ControllerPart::Gangs),
    (
        "tokenreviews",
        "authentication.k8s.io",
        CREATE,
        ControllerPart::Page,
    ),
    (
        "subjectaccessreviews",
        "authorization.k8s.io",
        CREATE,
        ControllerPart::Page,
    ),
    (
        "leases",
        "coordination.k8s.io",
        OF_LEASES,
        ControllerPart::Election,
    ),
];

/// Returns all permissions that the controller needs, none of them granted yet.
pub(super) fn needed(patient: &Patient) -> Vec<RightFacts> {
    let on = patient.controllers;
    let is_needed = |part| match part {
        ControllerPart::Any => on.job || on.ttl || on.cronjob,
        ControllerPart::Jobs => on.job,
        ControllerPart::Deletion => on.ttl || on.cronjob,
        ControllerPart::Telling => on.job || on.cronjob,
        ControllerPart::CronJobs => on.cronjob,
        ControllerPart::Gangs => patient.gangs,
        ControllerPart::Page => patient.takes_tokens,
        ControllerPart::Election => true,
    };
    let mut all = Vec::new();
    let rights = RIGHTS.iter().filter(|(.., part)| is_needed(*part));
    for &(resource, group, verbs, part) in rights {
        let scopes = match part {
            ControllerPart::Election => vec![Some(patient.lease_namespace.as_str())],
            ControllerPart::Page => vec![None],
            _ => patient.scopes(),
        };
        for scope in scopes {
            // All but creation may be limited to the Lease's name.
            let lease = patient.leases.first();
            let lease = lease.filter(|_| part == ControllerPart::Election);
            all.extend(verbs.iter().map(|verb| RightFacts {
                verb,
                group,
                resource,
                namespace: scope.map(str::to_owned),
                name: lease.filter(|_| *verb != "create").cloned(),
                is_allowed: false,
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use k8s_openapi::api::rbac::v1::PolicyRule;
    use serde::Deserialize;

    use super::*;
    use lakh_core::ownership::{Controllers, Mode};

    /// Verb, resource and group.
    type Triple = (String, String, String);

    #[derive(Deserialize)]
    struct Role {
        kind: String,
        #[serde(default)]
        rules: Vec<PolicyRule>,
    }

    /// Returns the permissions in a manifest's roles of this kind.
    fn granted(path: &str, kind: &str) -> BTreeSet<Triple> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../deploy")
            .join(path);
        let text = fs::read_to_string(path).expect("it is there");
        let documents = text.split("\n---\n");
        let documents = documents.filter(|document| document.contains("\nkind: "));
        let roles =
            documents.map(|document| serde_saphyr::from_str::<Role>(document).expect("an object"));
        let rules = roles
            .filter(|role| role.kind == kind)
            .flat_map(|role| role.rules);
        let mut granted = BTreeSet::new();
        for rule in rules {
            let groups = rule.api_groups.iter().flatten();
            for group in groups {
                for resource in rule.resources.iter().flatten() {
                    let verbs = rule.verbs.iter();
                    granted
                        .extend(verbs.map(|verb| (verb.clone(), resource.clone(), group.clone())));
                }
            }
        }
        granted
    }

    fn patient(controllers: Controllers) -> Patient {
        Patient {
            mode: Mode::Replace,
            controllers,
            gangs: false,
            takes_tokens: false,
            namespaces: Vec::new(),
            account: None,
            leases: Vec::new(),
            lease_namespace: "lakh-system".to_owned(),
        }
    }

    /// Returns the permissions for leader election, or all others.
    fn needed_of(patient: &Patient, election: bool) -> BTreeSet<Triple> {
        let rights = needed(patient).into_iter();
        let rights = rights.filter(|right| right.namespace.is_some() == election);
        rights
            .map(|right| (right.verb.into(), right.resource.into(), right.group.into()))
            .collect()
    }

    #[test]
    fn the_manifests_grant_exactly_the_needed_rights() {
        let without_cron = Controllers {
            cronjob: false,
            ..Controllers::default()
        };
        let base = granted("overlays/managed-by/lakh.yaml", "ClusterRole");
        assert!(!base.is_empty());
        let usual = patient(without_cron);
        assert_eq!(needed_of(&usual, false), base);
        let election = granted("overlays/managed-by/lakh.yaml", "Role");
        assert_eq!(needed_of(&usual, true), election);
        let cron = granted("components/cron-jobs/lakh.yaml", "ClusterRole");
        let both: BTreeSet<Triple> = base.union(&cron).cloned().collect();
        assert_eq!(needed_of(&patient(Controllers::default()), false), both);
        let gangs = granted("components/gang-scheduling/lakh.yaml", "ClusterRole");
        let with_gangs: BTreeSet<Triple> = base.union(&gangs).cloned().collect();
        let of_gangs = Patient {
            gangs: true,
            ..patient(without_cron)
        };
        assert_eq!(needed_of(&of_gangs, false), with_gangs);
        let page = granted("components/ui/lakh.yaml", "ClusterRole");
        let with_page: BTreeSet<Triple> = base.union(&page).cloned().collect();
        let of_page = Patient {
            takes_tokens: true,
            ..patient(without_cron)
        };
        assert_eq!(needed_of(&of_page, false), with_page);
    }

    #[test]
    fn the_ttl_controller_alone_needs_few_rights() {
        let ttl_only = Controllers {
            job: false,
            cronjob: false,
            ttl: true,
        };
        let needed = needed_of(&patient(ttl_only), false);
        let verbs: Vec<&str> = needed.iter().map(|(verb, ..)| verb.as_str()).collect();
        assert_eq!(verbs, ["delete", "get", "list", "watch"]);
    }
}
