//! Defines the arguments that name a Job and its cluster.

use std::path::PathBuf;

use clap::Args;

use lakh_model::JobKey;
use lakh_wire::{ApiError, ErrorKind};

use lakh_model::names::is_subdomain;

use crate::{
    Problem,
    ask::Asker,
    connect::{self, server_problem},
};

/// A Job and its cluster.
#[derive(Args, Clone, Debug)]
pub(crate) struct JobArgs {
    /// Name of the Job, also as job/NAME.
    #[arg(value_name = "JOB", value_parser = JobName::parse)]
    job: JobName,
    /// Namespace of the Job. Default: the namespace of the kubeconfig's context, or default.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Path of the cluster's kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the Pod's own ServiceAccount.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Default: its current context.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// A Job's name, as users write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobName(String);

/// Prefixes that kubectl accepts before a Job's name.
const KINDS: [&str; 4] = ["job", "jobs", "job.batch", "jobs.batch"];

impl JobName {
    /// Parses `NAME`, `job/NAME` and the like.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let name = match text.split_once('/') {
            Some((kind, name)) if KINDS.contains(&kind) => name,
            Some(_) => return Err("must be NAME or job/NAME".to_owned()),
            None => text,
        };
        match is_subdomain(name) {
            true => Ok(Self(name.to_owned())),
            false => Err("must be a valid object name (DNS subdomain)".to_owned()),
        }
    }
}

impl JobArgs {
    /// Returns a client of the cluster, and the Job's key.
    pub(crate) async fn asker(&self) -> Result<(Asker, JobKey), Problem> {
        let namespace = self.namespace.as_ref();
        if let Some(odd) = namespace.filter(|name| !is_subdomain(name)) {
            return Err(
                format!("--namespace {odd}: must be a valid object name (DNS subdomain)").into(),
            );
        }
        let configured = connect::configure(self.kubeconfig.as_deref(), self.context.as_deref());
        let client = configured.await?;
        let JobName(name) = &self.job;
        let key = JobKey {
            namespace: namespace
                .map_or(client.default_namespace(), String::as_str)
                .into(),
            name: name.into(),
        };
        Ok((Asker::new(client), key))
    }
}

/// Returns the error for a Job that could not be read.
pub(crate) fn no_job(asker: &Asker, key: &JobKey, error: &ApiError) -> Problem {
    let url = asker.url();
    match error.kind {
        ErrorKind::NotFound => format!(
            "Job {key}: not found on {url}; choose another namespace with -n, or another cluster with --context"
        )
        .into(),
        _ => format!("Job {key}: {}", server_problem(url, error)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_may_be_named_as_with_kubectl() {
        let name = |text| JobName::parse(text).map(|JobName(name)| name);
        for text in ["train", "job/train", "jobs.batch/train"] {
            assert_eq!(name(text).as_deref(), Ok("train"));
        }
        for odd in ["pod/train", "a/b/c", "", "job/", "Train"] {
            assert!(name(odd).is_err(), "{odd}");
        }
    }
}
