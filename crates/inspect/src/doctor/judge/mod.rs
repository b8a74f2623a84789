//! Judges the snapshot. A file is one check: facts in, a diagnosis out.
//!
//! Must not: make a request, or read a clock.

mod admission;
mod clocks;
mod contests;
mod events;
mod leader;
mod managers;
pub(super) mod pods;
mod priority;
mod quotas;
mod refusals;
mod rights;
mod store;
mod versions;
mod writes;

use super::{facts::Facts, patient::Patient, report::Diagnosis};

/// All checks, in the order of the output: those that concern everything come first.
const CHECKS: [fn(&Patient, &Facts) -> Diagnosis; 13] = [
    versions::judge,
    clocks::judge,
    store::judge,
    rights::judge,
    leader::judge,
    contests::judge,
    managers::judge,
    pods::judge,
    admission::judge,
    quotas::judge,
    refusals::judge,
    writes::judge,
    priority::judge,
];

/// Runs all checks.
pub(super) fn judge(patient: &Patient, facts: &Facts) -> Vec<Diagnosis> {
    CHECKS.iter().map(|check| check(patient, facts)).collect()
}
