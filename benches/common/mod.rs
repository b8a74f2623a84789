//! Provides the Job that the benches measure.

use lakh::model::{CompletionMode, Job, JobKey, JobSpec, JobStatus, Uid};

/// A Job that runs all its Pods at once.
pub(crate) fn job(completions: u32, mode: CompletionMode) -> Job {
    Job {
        key: JobKey {
            namespace: "default".into(),
            name: "bench".into(),
        },
        uid: Uid::from_u128(7),
        resource_version: 1,
        generation: 1,
        created: None,
        deleting: false,
        spec: JobSpec {
            parallelism: completions,
            completions: Some(completions),
            mode,
            ..JobSpec::default()
        },
        status: JobStatus::default(),
    }
}
