//! Checks that lakh supports the API server's version.

use lakh_core::ownership::Mode;

use crate::VERSION;

use crate::doctor::{
    facts::Facts,
    patient::Patient,
    report::{Diagnosis, Level},
};

/// The oldest release with all fields of Jobs that lakh acts on: `successPolicy` is on by default since then.
const OLDEST: (u32, u32) = (1, 31);

/// `spec.managedBy` is on by default since this release.
const MANAGED_BY: (u32, u32) = (1, 32);

/// The release of lakh's tests on a real cluster.
const TRIED: &str = "1.36";

pub(super) fn judge(patient: &Patient, facts: &Facts) -> Diagnosis {
    let server = &facts.server;
    let unseen: Vec<_> = server.unseen.iter().cloned().collect();
    let mut diagnosis = Diagnosis::new("versions").without(&unseen);
    if !server.version.is_empty() {
        let version = &server.version;
        diagnosis.summary = format!("Kubernetes {version} (tried: {TRIED}), lakh {VERSION}");
    }
    let Some(numbers) = server.numbers else {
        return diagnosis;
    };
    if numbers < OLDEST {
        diagnosis.find(
            Level::Warning,
            format!("Kubernetes {} is older than 1.31", server.version),
            "such a server drops fields of Jobs that lakh acts on, and nobody has tried lakh with it",
            "upgrade the cluster, or try the Jobs that you run on a test cluster of this version first",
        );
    }
    let jobs = facts.jobs.found.iter();
    let is_served = jobs.clone().any(|job| job.manager.is_some());
    if numbers < MANAGED_BY && matches!(patient.mode, Mode::ManagedBy(_)) && !is_served {
        diagnosis.find(
            Level::Failed,
            format!("Kubernetes {} drops spec.managedBy of new Jobs", server.version),
            "the field is off before 1.32, and no Job here has it: Jobs that are meant for lakh go to the built-in \
             controller",
            "start kube-apiserver and kube-controller-manager with --feature-gates=JobManagedBy=true, or upgrade",
        );
    }
    diagnosis
}
