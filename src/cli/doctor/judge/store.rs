//! Finds API servers that cannot write to their store. Each API server renews a Lease of its own every ten seconds; one that
//! answers reads and has stopped renewing it cannot write. A dry run would not show that: it ends before the store.

use std::time::Duration;

use crate::cli::{
    doctor::{
        facts::{Facts, LeaseFacts},
        patient::Patient,
        report::{Diagnosis, Level},
    },
    words::span,
};

/// A server that is only slow renews its Lease within this.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn judge(_: &Patient, facts: &Facts) -> Diagnosis {
    let mut diagnosis = Diagnosis::new("store").without(&facts.leases.unseen);
    let leases = facts.leases.found.iter();
    let newest = leases
        .filter(|lease| lease.is_of_server())
        .max_by_key(|lease| lease.renewed);
    let Some(lease) = newest else {
        if facts.leases.unseen.is_empty() {
            diagnosis.summary = "no Lease of an API server shows whether it can write".to_owned();
        }
        return diagnosis;
    };
    let age = age(lease);
    if !is_stuck(facts) {
        diagnosis.summary = format!(
            "the API server can write: it renewed Lease {} {} ago",
            lease.key(),
            span(age)
        );
        return diagnosis;
    }
    diagnosis.summary = "the API server cannot write".to_owned();
    diagnosis.find(
        Level::Failed,
        format!(
            "the API server answers, and has not renewed its Lease {} for {}",
            lease.key(),
            span(age)
        ),
        "its store takes no writes: etcd has reached its quota (alarm NOSPACE), has no quorum, or its disk is full. \
         Meanwhile no controller can lead, count or make Pods",
        "see etcdctl endpoint status and etcdctl alarm list; compact and defragment etcd and disarm the alarm, or raise \
         its --quota-backend-bytes. Do not restart or add controllers for that",
    );
    diagnosis
}

/// Returns true if no API server has renewed its Lease of late.
pub(super) fn is_stuck(facts: &Facts) -> bool {
    let leases = facts.leases.found.iter();
    let mut ages = leases
        .filter(|lease| lease.is_of_server())
        .map(age)
        .peekable();
    ages.peek().is_some() && ages.all(|age| age > PATIENCE)
}

fn age(lease: &LeaseFacts) -> Duration {
    lease.seen.since(lease.renewed.unwrap_or_default())
}
