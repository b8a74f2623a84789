//! The scenarios: which Jobs are created.

use clap::ValueEnum;
use serde_json::{Value, json};

/// What to run.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Scenario {
    /// One Indexed Job.
    Indexed,
    /// One Job without indexes.
    NonIndexed,
    /// As many Jobs as Pods, one Pod each.
    SmallJobs,
}

impl Scenario {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Indexed => "indexed",
            Self::NonIndexed => "non-indexed",
            Self::SmallJobs => "small-jobs",
        }
    }

    /// The Jobs, which have `size` Pods together.
    pub(crate) fn jobs(self, size: u32, parallelism: u32) -> Vec<Value> {
        match self {
            Self::Indexed => vec![job("load", "Indexed", size, parallelism)],
            Self::NonIndexed => vec![job("load", "NonIndexed", size, parallelism)],
            Self::SmallJobs => (0..size)
                .map(|n| job(&format!("load-{n}"), "NonIndexed", 1, 1))
                .collect(),
        }
    }
}

fn job(name: &str, mode: &str, completions: u32, parallelism: u32) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": mode,
            "completions": completions,
            "parallelism": parallelism,
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "busybox"}],
            }},
        },
    })
}
