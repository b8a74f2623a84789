//! The scenarios: which Jobs are created.

use clap::Subcommand;
use serde_json::{Value, json};

/// What to run.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum Scenario {
    /// One Indexed Job.
    Indexed(Load),
    /// One Job without indexes.
    NonIndexed(Load),
    /// As many Jobs as Pods, one Pod each.
    SmallJobs(Load),
}

/// How much of it.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Load {
    /// How many Pods there shall be, all told.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) size: u32,
    /// How many Pods of a Job may be active at once; default: all.
    #[arg(long)]
    parallelism: Option<u32>,
    /// Writes that the controller may have under way at once.
    #[arg(long, default_value_t = 64)]
    pub(crate) max_in_flight: usize,
}

impl Scenario {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Indexed(_) => "indexed",
            Self::NonIndexed(_) => "non-indexed",
            Self::SmallJobs(_) => "small-jobs",
        }
    }

    pub(crate) fn load(&self) -> Load {
        match self {
            Self::Indexed(load) | Self::NonIndexed(load) | Self::SmallJobs(load) => *load,
        }
    }

    /// The Jobs, which have the wanted number of Pods together.
    pub(crate) fn jobs(&self) -> Vec<Value> {
        let Load {
            size, parallelism, ..
        } = self.load();
        let parallelism = parallelism.unwrap_or(size);
        match self {
            Self::Indexed(_) => vec![job("load", "Indexed", size, parallelism)],
            Self::NonIndexed(_) => vec![job("load", "NonIndexed", size, parallelism)],
            Self::SmallJobs(_) => (0..size)
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
