//! Checks that exactly one controller leads.

use crate::doctor::{
    facts::{Facts, LeaseFacts},
    patient::Patient,
    report::{Diagnosis, Level},
};

use crate::words::{names, span};

use super::store;

pub(super) fn judge(patient: &Patient, facts: &Facts) -> Diagnosis {
    let mut diagnosis = Diagnosis::new("leader").without(&facts.leases.unseen);
    let is_own = |lease: &&LeaseFacts| patient.leases.contains(&lease.name);
    let own: Vec<&LeaseFacts> = facts.leases.found.iter().filter(is_own).collect();
    let live: Vec<&LeaseFacts> = own.iter().copied().filter(|it| it.is_live()).collect();
    match (live.as_slice(), own.as_slice()) {
        ([], []) => nobody(patient, facts, &mut diagnosis),
        ([], [last, ..]) => gone(last, store::is_stuck(facts), &mut diagnosis),
        ([leader], _) => {
            let who = match leader.replicas {
                Some((1, ranges)) => format!("1 replica has {ranges} ranges"),
                Some((count, ranges)) => format!("{count} replicas share {ranges} ranges"),
                None => format!("{} leads", leader.holder),
            };
            diagnosis.summary = format!(
                "{who} by Lease {}, renewed {} ago",
                leader.key(),
                ago(leader)
            );
        }
        (several, _) => {
            let words = several
                .iter()
                .map(|it| format!("{} by {}", it.holder, it.key()));
            diagnosis.summary = "more than one leads".to_owned();
            diagnosis.find(
                Level::Failed,
                format!("{} controllers lead at once: {}", several.len(), names(words)),
                "their Leases are not the same, so they do not know of each other. Both work on the same Jobs, unless \
                 each was given namespaces of its own",
                "end one of them, or give both the same --leader-elect-resource-namespace and -name",
            );
        }
    }
    diagnosis
}

/// Reports that there is no Lease of the controller.
fn nobody(patient: &Patient, facts: &Facts, diagnosis: &mut Diagnosis) {
    let name = patient.leases.join(" or ");
    let is_other = |lease: &&LeaseFacts| lease.name.starts_with("lakh-") && lease.is_live();
    let others: Vec<&LeaseFacts> = facts.leases.found.iter().filter(is_other).collect();
    if !others.is_empty() {
        let words = others
            .iter()
            .map(|it| format!("{} by {}", it.holder, it.key()));
        diagnosis.summary = "another lakh leads".to_owned();
        diagnosis.find(
            Level::Warning,
            format!("no lakh of mode {} leads, but {}", patient.mode_words(), names(words)),
            format!("there is no Lease {name}; the name of a Lease says the mode, the manager and the namespaces"),
            "give the doctor the flags of the controller: --mode, --managed-by-name, -n, --leader-elect-resource-name",
        );
    } else if diagnosis.unseen.is_empty() {
        diagnosis.summary = "nobody leads".to_owned();
        diagnosis.find(
            Level::Warning,
            format!("no lakh of mode {} seems to run", patient.mode_words()),
            format!("there is no Lease {name} in any namespace"),
            match has_begun_job(patient, facts) {
                true => {
                    "a controller has begun Jobs of this mode: see which one before you start lakh, as two would make and \
                     delete Pods for each other. A lakh with --leader-elect=false or a Lease of another name cannot be seen \
                     from here"
                }
                false => {
                    "start it (deploy/README.md). If it runs with --leader-elect=false or a Lease of another name \
                     (--leader-elect-resource-name), nobody can tell from here"
                }
            },
        );
    }
}

/// True if a controller has started an unfinished Job of this mode: it has a status.
fn has_begun_job(patient: &Patient, facts: &Facts) -> bool {
    let mut jobs = facts.jobs.found.iter().filter(|job| job.is_at_work());
    jobs.any(|job| job.has_begun && patient.serves(job.manager.as_deref()))
}

/// Reports an expired or released Lease.
fn gone(last: &LeaseFacts, is_store_stuck: bool, diagnosis: &mut Diagnosis) {
    diagnosis.summary = "nobody leads".to_owned();
    let (since, key) = (ago(last), last.key());
    match last.holder.as_str() {
        "" => diagnosis.find(
            Level::Failed,
            format!("nobody has led for {since}: Lease {key} was given back"),
            "the last leader ended as it was asked to, and no other was there to take over",
            "start lakh again; if it runs, look into its log: a standby takes a Lease that was given back within \
             seconds",
        ),
        holder if is_store_stuck => diagnosis.find(
            Level::Failed,
            format!("{holder} has not renewed Lease {key} for {since}, and nobody took over"),
            "the API server takes no writes, of a Lease neither",
            "see the check of store; the controller goes on by itself once it can write",
        ),
        holder => diagnosis.find(
            Level::Failed,
            format!("{holder} has not renewed Lease {key} for {since}, and nobody took over"),
            "the leader is gone, hangs or is cut off from the API server, and so are all standbys",
            "look at its Pod and its log (kubectl -n lakh-system get pods), and whether its machine reaches the API \
             server",
        ),
    }
}

/// Returns the time since a Lease was renewed.
fn ago(lease: &LeaseFacts) -> String {
    span(lease.seen.since(lease.renewed.unwrap_or_default()))
}
