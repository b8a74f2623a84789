//! Golden cases of the judges: facts, and the resulting diagnosis.
//!
//! A file of `tests/` is one check with its cases. The output is the check's lines of the text.

use clap::Parser;
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingAdmissionPolicy,
    coordination::v1::Lease,
    core::v1::{Event, Namespace, ResourceQuota},
    flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    args::DoctorArgs,
    facts::{
        ClockFacts, Facts, LeaseFacts, NamespaceFacts, ServerFacts, Sight, Unseen,
        admission::{Hook, HookConfiguration, Policy},
        jobs::JobFacts,
        pods::HeldPod,
    },
    judge,
    patient::Patient,
    print::{self, Examination},
    rights,
};
use lakh_model::{Time, Uid, stable_hash};

use crate::golden;

/// The time of all cases.
const NOW: &str = "2026-11-26T03:00:00Z";

#[derive(Debug, Parser)]
struct Flags {
    #[command(flatten)]
    doctor: DoctorArgs,
}

/// The facts of a case. Objects are as in the API; names and UIDs are abbreviated.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct SeenByCase {
    flags: Vec<String>,
    version: Option<String>,
    user: Option<String>,
    /// Milliseconds by which the server's clock is ahead.
    ahead: Option<i64>,
    flow: Option<[String; 2]>,
    /// `VERB RESOURCE`: denied permissions.
    denied: Vec<String>,
    /// False if the account of --service-account does not exist; `unseen` accepts `account`, too.
    account: Option<bool>,
    leases: Vec<Value>,
    /// Leases that are renewed between two reads.
    moving: Vec<String>,
    jobs: Vec<Value>,
    pods: Vec<Value>,
    events: Vec<Value>,
    quotas: Vec<Value>,
    namespaces: Vec<Value>,
    validating_hooks: Vec<Value>,
    mutating_hooks: Vec<Value>,
    policies: Vec<Value>,
    /// Services, with the number of their ready endpoints.
    endpoints: Vec<(String, String, Option<usize>)>,
    flow_schemas: Vec<Value>,
    levels: Vec<Value>,
    /// Kinds that could not be read.
    unseen: Vec<String>,
}

fn typed<T: DeserializeOwned>(objects: &[Value]) -> Vec<T> {
    let objects = objects.iter();
    let typed = objects.map(|object| serde_json::from_value(object.clone()).expect("an object"));
    typed.collect()
}

/// Derives the UID of an object from its name.
fn uid(name: &str) -> String {
    Uid::from_u128(u128::from(stable_hash(name.bytes()))).to_string()
}

/// Returns an object as the server would return it.
fn whole(object: &Value) -> String {
    let mut object = object.clone();
    let metadata = &mut object["metadata"];
    let name = metadata["name"].as_str().expect("a name").to_owned();
    metadata["resourceVersion"] = "7".into();
    if metadata["uid"].is_null() {
        metadata["uid"] = uid(&name).into();
    }
    if let Some(owner) = metadata["owner"].as_str() {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": owner,
            "uid": uid(owner), "controller": true});
        metadata["ownerReferences"] = json!([owner]);
    }
    if object["spec"]["template"].is_null() {
        object["spec"]["template"] = json!({});
    }
    object.to_string()
}

impl SeenByCase {
    fn sight<T>(&self, kind: &str, found: Vec<T>) -> Sight<T> {
        let is_unseen = self.unseen.iter().any(|unseen| unseen == kind);
        let unseen = is_unseen.then(|| Unseen {
            what: kind.to_owned(),
            why: format!("{kind} is forbidden"),
        });
        Sight {
            found: if is_unseen { Vec::new() } else { found },
            unseen: unseen.into_iter().collect(),
        }
    }

    fn account(&self, patient: &Patient) -> Option<Result<bool, Unseen>> {
        patient.account.as_ref()?;
        let mut unseen = self.sight::<()>("account", Vec::new()).unseen;
        Some(match unseen.pop() {
            Some(unseen) => Err(unseen),
            None => Ok(self.account.unwrap_or(true)),
        })
    }

    fn facts(&self, patient: &Patient) -> Facts {
        let now = Time::parse_rfc3339(NOW).expect("a time");
        let numbers = self.version.as_deref().and_then(|version| {
            let mut parts = version.trim_start_matches('v').split('.');
            parts.next()?.parse().ok().zip(parts.next()?.parse().ok())
        });
        let mut needed = rights::needed(patient);
        for right in &mut needed {
            let words = format!("{} {}", right.verb, right.resource);
            right.is_allowed = !self.denied.contains(&words);
        }
        let jobs = self.jobs.iter().map(whole);
        let jobs = jobs.map(|json| JobFacts::read(&json).expect("a Job"));
        let pods = self.pods.iter().map(whole);
        let pods = pods.filter_map(|json| HeldPod::read(&json).expect("a Pod"));
        let leases = typed::<Lease>(&self.leases);
        let leases = leases.iter().map(|lease| {
            let lease = LeaseFacts::of(lease, now);
            LeaseFacts {
                is_moving: self.moving.contains(&lease.name),
                ..lease
            }
        });
        let namespaces = typed::<Namespace>(&self.namespaces).into_iter();
        let kinds = [
            ("ValidatingWebhookConfiguration", &self.validating_hooks),
            ("MutatingWebhookConfiguration", &self.mutating_hooks),
        ];
        let hooks = kinds.into_iter().flat_map(|(kind, objects)| {
            let configurations = typed::<HookConfiguration>(objects).into_iter();
            configurations.flat_map(move |it| Hook::all_of(kind, it))
        });
        let policies = typed::<ValidatingAdmissionPolicy>(&self.policies);
        let mut facts = Facts {
            now,
            server: ServerFacts {
                numbers,
                version: self.version.clone().unwrap_or_default(),
                unseen: None,
                user: self.user.clone(),
                clock: self.ahead.map(|ahead| ClockFacts {
                    ahead,
                    precision: 600,
                }),
                flow: self.flow.clone(),
            },
            rights: self.sight("rights", needed),
            account: self.account(patient),
            leases: self.sight("leases", leases.collect()),
            jobs: self.sight("jobs", jobs.collect()),
            pods: self.sight("pods", pods.collect()),
            events: self.sight("events", typed::<Event>(&self.events)),
            quotas: self.sight("quotas", typed::<ResourceQuota>(&self.quotas)),
            namespaces: self.sight("namespaces", namespaces.map(NamespaceFacts::of).collect()),
            flow_schemas: self.sight("flowSchemas", typed::<FlowSchema>(&self.flow_schemas)),
            priority_levels: self
                .sight("levels", typed::<PriorityLevelConfiguration>(&self.levels)),
            ..Facts::default()
        };
        facts.admission.hooks = self.sight("hooks", hooks.collect());
        let policies = policies.into_iter().map(Policy::of).collect();
        facts.admission.policies = self.sight("policies", policies);
        for (namespace, name, ready) in &self.endpoints {
            let ready = ready.ok_or_else(|| Unseen {
                what: format!("endpoints of Service {namespace}/{name}"),
                why: "endpointslices is forbidden".to_owned(),
            });
            let service = (namespace.clone(), name.clone());
            facts.admission.endpoints.insert(service, ready);
        }
        facts
    }
}

/// Returns the output of one check for a case, or of all.
fn said(check: &str, seen: &SeenByCase) -> String {
    let flags = ["doctor".to_owned()].into_iter().chain(seen.flags.clone());
    let flags = Flags::try_parse_from(flags).expect("good flags");
    let patient = flags.doctor.patient().expect("good flags");
    let facts = seen.facts(&patient);
    let mut diagnoses = judge::judge(&patient, &facts);
    assert!(check == "all" || diagnoses.iter().any(|it| it.check == check));
    diagnoses.retain(|diagnosis| check == "all" || diagnosis.check == check);
    let text = print::text(
        Examination {
            url: "https://cluster.example",
            patient: &patient,
            facts: &facts,
            diagnoses: &diagnoses,
            fixed: None,
        },
        false,
    );
    let lines = text
        .lines()
        .map(|line| line.replace(crate::VERSION, "VERSION"));
    // The first line and the last are in the output of all checks only.
    let about = |at: usize, line: &str| {
        check == "all" || (at > 1 && !line.starts_with("found") && !line.starts_with("nothing"))
    };
    let lines = lines.enumerate().filter(|(at, line)| about(*at, line));
    let lines: Vec<String> = lines.map(|(_, line)| line).collect();
    format!("{}\n", lines.join("\n").trim())
}

#[test]
fn cases() {
    golden::check("src/doctor/tests", 40, |check, input| {
        let seen = match input.trim() {
            "" => SeenByCase::default(),
            _ => serde_saphyr::from_str(input)
                .unwrap_or_else(|error| panic!("{check}: {error}: {input}")),
        };
        said(check, &seen)
    });
}
