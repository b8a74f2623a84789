//! Reads all facts from the cluster, with the permissions of the user.
//!
//! Objects that may not be read, or do not exist, are recorded as such. Only a server that does not respond ends the
//! examination.
//!
//! Must not: judge, or write anything.

mod admission;
mod leases;
mod rights;
mod server;

use k8s_openapi::api::core::v1::{Event, ResourceQuota};

use lakh_client::Result;
use lakh_model::Time;
use lakh_wire::{Call, ErrorKind, paths};

use super::{
    Asker,
    facts::{Facts, NamespaceFacts, Sight, jobs::JobFacts, pods::HeldPod},
    patient::{Patient, place},
};

const FLOW: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

/// The difference between the server's clock and ours, in milliseconds.
type Ahead = i64;

/// Reads all facts.
pub(super) async fn look(asker: &Asker, patient: &Patient) -> Result<Facts> {
    let server = server::look(asker).await?;
    let ahead = server.clock.map_or(0, |clock| clock.ahead);
    let now = on(asker.now(), ahead);
    let namespaces = namespaces(asker, patient).await?;
    let (rights, account, leases, (jobs, pods), events, quotas, admission, schemas, levels) = tokio::join!(
        rights::look(asker, patient),
        rights::account(asker, patient),
        leases::look(asker, patient, ahead),
        jobs_and_pods(asker, patient),
        events(asker, patient),
        quotas(asker, patient),
        admission::look(asker),
        asker.list_whole(format!("{FLOW}/flowschemas")),
        asker.list_whole(format!("{FLOW}/prioritylevelconfigurations")),
    );
    let mut facts = Facts {
        now,
        server,
        rights,
        account,
        leases,
        jobs,
        pods,
        events,
        quotas,
        namespaces,
        admission,
        ..Facts::default()
    };
    facts.flow_schemas.take("FlowSchemas", schemas);
    facts
        .priority_levels
        .take("PriorityLevelConfigurations", levels);
    Ok(facts)
}

/// Converts a time of our clock to the server's.
fn on(ours: Time, ahead: Ahead) -> Time {
    Time::from_millis(ours.as_millis() + ahead)
}

/// Lists Pods before Jobs: otherwise a Job created between the two lists would seem to be gone. Where Jobs cannot be
/// listed, no Pod's Job may be considered gone either.
async fn jobs_and_pods(asker: &Asker, patient: &Patient) -> (Sight<JobFacts>, Sight<HeldPod>) {
    let (mut jobs, mut pods) = (Sight::default(), Sight::default());
    for scope in patient.scopes() {
        let held = asker.list(Call::list_metadata(paths::pods(scope)), HeldPod::read);
        let held = held.await;
        let read = |json: &str| JobFacts::read(json).map(Some);
        let found = asker.list(Call::get(paths::jobs(scope)), read).await;
        let place = place(scope);
        match &found {
            Ok(_) => pods.take(&format!("Pods of {place}"), held),
            Err(error) => pods.take(
                &format!("Jobs of {place} that own Pods"),
                Err(error.clone()),
            ),
        }
        jobs.take(&format!("Jobs of {place}"), found);
    }
    (jobs, pods)
}

async fn events(asker: &Asker, patient: &Patient) -> Sight<Event> {
    let mut events = Sight::default();
    for scope in patient.scopes() {
        let all = paths::collection("/api/v1", scope, "events");
        let path = format!("{all}?fieldSelector=involvedObject.kind%3DJob%2Ctype%3DWarning");
        let what = format!("Warning Events of {}", place(scope));
        events.take(&what, asker.list_whole(path).await);
    }
    events
}

async fn quotas(asker: &Asker, patient: &Patient) -> Sight<ResourceQuota> {
    let mut quotas = Sight::default();
    for scope in patient.scopes() {
        let path = paths::collection("/api/v1", scope, "resourcequotas");
        let what = format!("ResourceQuotas of {}", place(scope));
        quotas.take(&what, asker.list_whole(path).await);
    }
    quotas
}

/// Reads the labels of namespaces, for the selectors of webhooks. Fails if a given namespace does not exist: it would
/// seem to be healthy.
async fn namespaces(asker: &Asker, patient: &Patient) -> Result<Sight<NamespaceFacts>> {
    const ALL: &str = "/api/v1/namespaces";
    let mut namespaces = Sight::default();
    for scope in patient.scopes() {
        let found = match scope {
            Some(name) => asker.get(&format!("{ALL}/{name}")).await.map(|it| vec![it]),
            None => asker.list_whole(ALL.to_owned()).await,
        };
        let found = match found {
            Err(error) if error.kind == ErrorKind::NotFound => return Err(error),
            other => other.map(|all| all.into_iter().map(NamespaceFacts::of).collect()),
        };
        let what = scope.map_or_else(
            || "namespaces".to_owned(),
            |name| format!("namespace {name}"),
        );
        namespaces.take(&what, found);
    }
    Ok(namespaces)
}
