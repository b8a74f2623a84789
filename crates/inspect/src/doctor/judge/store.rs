//! Detects an API server that cannot write to its store, from the Leases of API servers.

use crate::{
    doctor::{
        facts::Facts,
        patient::Patient,
        report::{Diagnosis, Level},
    },
    objects::{STUCK_CAUSE, STUCK_REMEDY, ServerLease},
    words::span,
};

pub(super) fn judge(_: &Patient, facts: &Facts) -> Diagnosis {
    let mut diagnosis = Diagnosis::new("store").without(&facts.leases.unseen);
    let Some((lease, is_stuck)) = newest(facts) else {
        if facts.leases.unseen.is_empty() {
            diagnosis.summary = "no Lease of an API server shows whether it can write".to_owned();
        }
        return diagnosis;
    };
    if !is_stuck {
        diagnosis.summary = format!(
            "the API server can write: it renewed Lease {} {} ago",
            lease.key,
            span(lease.age)
        );
        return diagnosis;
    }
    diagnosis.summary = "the API server cannot write".to_owned();
    diagnosis.find(Level::Failed, lease.stuck(), STUCK_CAUSE, STUCK_REMEDY);
    diagnosis
}

/// Returns true if no API server has renewed its Lease recently.
pub(super) fn is_stuck(facts: &Facts) -> bool {
    newest(facts).is_some_and(|(_, is_stuck)| is_stuck)
}

fn newest(facts: &Facts) -> Option<(ServerLease, bool)> {
    let leases = facts.leases.found.iter();
    let of_servers = leases.filter(|lease| lease.is_of_server());
    ServerLease::newest(of_servers.map(|lease| ServerLease {
        key: lease.key(),
        age: lease.seen.since(lease.renewed.unwrap_or_default()),
    }))
}
