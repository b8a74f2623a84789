//! Reads the Leases for leader election: lakh's, and the built-in controllers'.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;

use lakh_client::Result;
use lakh_wire::paths;

use lakh_model::SYSTEM_NAMESPACE;

use crate::doctor::{
    Asker,
    facts::{BUILT_IN, LeaseFacts, Sight, Unseen},
    patient::Patient,
};

use super::{Ahead, on};

/// The namespace of lakh in `deploy/`.
const OWN_NAMESPACE: &str = "lakh-system";

/// Name prefix of lakh's Leases, unless they were given a name.
const OWN_PREFIX: &str = "lakh-";

/// Each node has a Lease in this namespace, so there may be thousands.
const OF_NODES: &str = "kube-node-lease";

/// Within this time a leader renews its Lease, and a standby takes a released one: every 2 s and a jitter of 1.2 times
/// that, by default.
const TURN: Duration = Duration::from_secs(5);

pub(super) async fn look(asker: &Asker, patient: &Patient, ahead: Ahead) -> Sight<LeaseFacts> {
    let mut leases = all(asker, patient, ahead).await;
    let own = |lease: &LeaseFacts| patient.leases.contains(&lease.name);
    let somebody_leads = leases.found.iter().any(|it| own(it) && it.is_live());
    if somebody_leads || !leases.found.iter().any(own) {
        return leases;
    }
    // The lead may be about to change. And a holder with a clock that is behind seems to be gone.
    tokio::time::sleep(TURN).await;
    for lease in leases.found.iter_mut().filter(|lease| own(lease)) {
        let path = paths::lease(&lease.namespace, &lease.name);
        let Ok(later) = asker.get::<Lease>(&path).await else {
            continue;
        };
        let later = LeaseFacts::of(&later, on(asker.now(), ahead));
        *lease = LeaseFacts {
            is_moving: later.renewed != lease.renewed,
            ..later
        };
    }
    leases
}

async fn all(asker: &Asker, patient: &Patient, ahead: Ahead) -> Sight<LeaseFacts> {
    let path = paths::collection("/apis/coordination.k8s.io/v1", None, "leases");
    let path = format!("{path}?fieldSelector=metadata.namespace%21%3D{OF_NODES}");
    let listed: Result<Vec<Lease>> = asker.list_whole(path).await;
    let seen = on(asker.now(), ahead);
    let mut sight = Sight::default();
    let refused = match listed {
        Err(error) if error.code == 403 => error,
        other => {
            let leases = other.map(|all| all.iter().map(|it| LeaseFacts::of(it, seen)).collect());
            sight.take("Leases", leases);
            sight.found.retain(|lease| matters(lease, patient));
            return sight;
        }
    };
    // Some of them may be readable by name.
    for (namespace, name) in places(patient) {
        let lease: Result<Lease> = asker.get(&paths::lease(namespace, name)).await;
        if let Ok(lease) = lease {
            let seen = on(asker.now(), ahead);
            sight.found.push(LeaseFacts::of(&lease, seen));
        }
    }
    let others = if sight.found.is_empty() {
        "Leases"
    } else {
        "other Leases"
    };
    sight.unseen.push(Unseen::new(others, &refused));
    sight
}

fn matters(lease: &LeaseFacts, patient: &Patient) -> bool {
    let is_built_in = lease.namespace == SYSTEM_NAMESPACE && lease.name == BUILT_IN;
    is_built_in
        || lease.is_of_server()
        || patient.leases.contains(&lease.name)
        || lease.name.starts_with(OWN_PREFIX)
}

/// Returns the names of Leases to try if they may not be listed.
fn places(patient: &Patient) -> BTreeSet<(&str, &str)> {
    let namespaces = [&patient.lease_namespace, OWN_NAMESPACE, SYSTEM_NAMESPACE];
    let own = patient.leases.iter();
    let own = own.flat_map(|name| namespaces.map(|namespace| (namespace, name.as_str())));
    own.chain([(SYSTEM_NAMESPACE, BUILT_IN)]).collect()
}
