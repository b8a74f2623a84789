//! Checks whether quotas block Pods that Jobs want.

use std::collections::BTreeMap;

use crate::{
    doctor::{
        facts::Facts,
        patient::Patient,
        report::{Diagnosis, Level},
    },
    objects::{is_of_all_pods, used_up},
    words::count,
};

pub(super) fn judge(_: &Patient, facts: &Facts) -> Diagnosis {
    let quotas = &facts.quotas;
    let mut diagnosis = Diagnosis::new("quotas").without(&quotas.unseen);
    // Missing Pods, and Jobs with missing Pods, by namespace.
    let mut missing: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for job in facts.jobs.found.iter().filter(|job| job.missing > 0) {
        let (pods, jobs) = missing.entry(&job.id.key.namespace).or_default();
        *pods += u64::from(job.missing);
        *jobs += 1;
    }
    let mut full = 0;
    for quota in &quotas.found {
        let used_up = used_up(quota);
        full += usize::from(!used_up.is_empty());
        let namespace = quota.metadata.namespace.as_deref().unwrap_or_default();
        let Some((pods, jobs)) = missing.get(namespace) else {
            continue;
        };
        for (resource, used, hard) in used_up {
            let name = quota.metadata.name.as_deref().unwrap_or_default();
            let scoped = quota
                .spec
                .as_ref()
                .is_some_and(|spec| spec.scopes.is_some() || spec.scope_selector.is_some());
            let of_all = is_of_all_pods(resource);
            let level = match of_all && !scoped {
                true => Level::Failed,
                false => Level::Warning,
            };
            let refused = match (of_all, scoped) {
                (true, false) => "every further one is refused".to_owned(),
                (true, true) => "every further one of the quota's scopes is refused".to_owned(),
                (false, _) => format!("those that ask for {resource} are refused"),
            };
            let want = if *jobs == 1 { "wants" } else { "want" };
            diagnosis.find(
                level,
                format!(
                    "quota {name} of namespace {namespace} is used up: {used} of {hard} {resource}"
                ),
                format!(
                    "{} there {want} {pods} more Pods, and {refused}",
                    count(*jobs, "Job")
                ),
                "raise the quota, wait until others there have ended, or lower the Jobs' parallelism",
            );
        }
    }
    if quotas.unseen.is_empty() || !quotas.found.is_empty() {
        diagnosis.summary = format!("{full} of {} used up", count(quotas.found.len(), "quota"));
        if full > 0 && diagnosis.findings.is_empty() {
            diagnosis.summary += ", and no Job waits for them";
        }
    }
    diagnosis
}
