//! Defines the scenarios: their names, parameters and Jobs. `drive` acts on the Jobs while they run.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use lakh::model::{OWN_MANAGER, parse_go_duration};
use serde_json::{Value, json};

use crate::process::Process;

/// What to run.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Scenario {
    /// One Indexed Job.
    Indexed(Load),
    /// One Job without indexes.
    NonIndexed(Load),
    /// As many Jobs as Pods, one Pod each.
    SmallJobs(Load),
    /// One Indexed Job with backoffLimitPerIndex. The first attempt of each index in the first tenth fails.
    PerIndexFailures(Load),
    /// One Indexed Job that is suspended when all its Pods run, and resumed when they are gone.
    SuspendResume(Load),
    /// One Indexed Job while all watches end with 410 twice a second. Embedded cluster only.
    RelistStorms(Load),
    /// One Indexed Job with 5 ms of extra latency per request, or that of --call-latency. Embedded cluster only.
    SlowServer(Load),
    /// One Indexed Job that is deleted when all its Pods run. The run ends when nothing of it is left.
    DeleteFullJob(Load),
    /// One Indexed Job with all its Pods running, and beside it a new Job of one Pod every 250 ms.
    Fairness(Load),
    /// A tenant's Jobs of one Pod in another namespace, one every 500 ms: first alone, then beside one Indexed Job with
    /// all its Pods running. Each client has its own identity.
    Neighbours(Neighbours),
    /// No controller: creates the Pods of one Indexed Job and removes each finalizer at once. Measures the limit of the
    /// cluster.
    Writer(Load),
}

/// A giant Job, and a tenant that has small ones.
#[derive(Args, Clone, Debug)]
pub(crate) struct Neighbours {
    #[command(flatten)]
    pub(crate) load: Load,
    /// Kubeconfig of the tenant that creates the small Jobs; required with --kubeconfig.
    #[arg(long, value_name = "PATH", requires = "kubeconfig")]
    pub(crate) tenant_kubeconfig: Option<PathBuf>,
    /// Number of small Jobs before the giant.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) alone: u32,
    /// Minimum number of small Jobs once all Pods of the giant run. If the giant ends sooner, they continue, so that
    /// faster and slower controllers are compared over the same time.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) beside: u32,
}

/// Size of the load, its cluster and its controller.
#[derive(Args, Clone, Debug)]
pub(crate) struct Load {
    /// Total number of Pods.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) size: u32,
    /// Number of Jobs that share the Pods equally. Not for scenarios with one Job.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) jobs: u32,
    /// Parallelism of each Job. Default: all Pods.
    #[arg(long, value_name = "N")]
    pub(crate) parallelism: Option<u32>,
    /// Maximum number of writes in flight of lakh, or of the scenario `writer`.
    #[arg(long, value_name = "N", default_value_t = 96)]
    pub(crate) max_in_flight: usize,
    /// Run time of a Pod's containers.
    #[arg(long, value_name = "D", default_value = "0s", value_parser = duration)]
    pub(crate) pod_duration: Duration,
    /// Node to create the Pods for, so that they need no scheduler.
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Extra latency of each request to the embedded API server.
    #[arg(long, value_name = "D", value_parser = duration, conflicts_with = "kubeconfig")]
    call_latency: Option<Duration>,
    /// Kubeconfig of a cluster to run on, in a new namespace, instead of an embedded cluster.
    #[arg(long, value_name = "PATH")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Kubeconfig for the controller that this program starts, if it needs another identity.
    #[arg(long, value_name = "PATH", requires = "kubeconfig")]
    pub(crate) controller_kubeconfig: Option<PathBuf>,
    /// Kubeconfig for a hollow node that exists during the run and gets all Pods. It ends each Pod with a run time of
    /// 0s in one write as soon as it sees it, at most 64 at once.
    #[arg(
        long,
        value_name = "PATH",
        requires = "kubeconfig",
        conflicts_with = "node"
    )]
    pub(crate) kubelet_kubeconfig: Option<PathBuf>,
    /// Controller to measure: lakh, started by this program, or another controller that already runs on the cluster.
    #[arg(long, value_enum, default_value_t = Who::Lakh)]
    pub(crate) controller: Who,
    /// Path of the lakh binary. Default: the one beside this program.
    #[arg(long, value_name = "PATH")]
    pub(crate) lakh: Option<PathBuf>,
    /// Extra flag for the controller that this program starts, such as --controller-flag=--qps=1000; may be given more
    /// than once. With --controller-command, {kubeconfig} stands for the path of the kubeconfig.
    #[arg(
        long = "controller-flag",
        value_name = "FLAG",
        allow_hyphen_values = true
    )]
    pub(crate) controller_flags: Vec<String>,
    /// Program to start as the external controller, with the flags of --controller-flag.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "controller_pid")]
    pub(crate) controller_command: Option<PathBuf>,
    /// Process ID of the external controller, to measure it.
    #[arg(long, value_name = "PID")]
    pub(crate) controller_pid: Option<u32>,
    /// Another process to measure, such as kube-apiserver=4711; may be given more than once.
    #[arg(long = "process", value_name = "NAME=PID", value_parser = Process::parse)]
    pub(crate) processes: Vec<Process>,
    /// Value of spec.managedBy of the Jobs. Default: unset; lakh.dev/job-controller if this program starts lakh on a
    /// cluster that may have its own controller, and no --controller-flag sets --mode.
    #[arg(long, value_name = "NAME")]
    pub(crate) managed_by: Option<String>,
    /// Interval between samples of the time series.
    #[arg(long, value_name = "D", default_value = "200ms", value_parser = duration)]
    pub(crate) sample_period: Duration,
    /// Time limit of the run; after it the report has the state so far.
    #[arg(long, value_name = "D", default_value = "30m", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Keep the namespace and all its objects on the cluster.
    #[arg(long, requires = "kubeconfig")]
    pub(crate) keep: bool,
    /// Folder for report.html, report.json and history.jsonl.
    #[arg(long, value_name = "DIR", default_value = "target/load")]
    pub(crate) out: PathBuf,
}

/// The controller to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Who {
    /// lakh, started by this program.
    Lakh,
    /// Another controller, already running.
    External,
}

/// Name of the one large Job.
pub(crate) const MAIN_JOB: &str = "load";

/// Name part of the tenant's Jobs that run without the giant.
pub(crate) const ALONE: &str = "alone";

/// Name part of the tenant's Jobs that run beside the giant.
pub(crate) const BESIDE: &str = "beside";

/// The node that exists for one run.
pub(crate) const HOLLOW_NODE: &str = "hollow-0";

/// Annotation with the time that a Pod runs on hollow nodes.
pub(crate) const DURATION: &str = "sim.lakh.dev/duration";

/// Default latency of `slow-server`.
const SLOW_CALL: Duration = Duration::from_millis(5);

/// Longer than any scenario waits for all Pods of its Job to run.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

impl Scenario {
    /// Returns the settings of the load.
    pub(crate) fn load(&self) -> &Load {
        match self {
            Self::Indexed(load)
            | Self::NonIndexed(load)
            | Self::SmallJobs(load)
            | Self::PerIndexFailures(load)
            | Self::SuspendResume(load)
            | Self::RelistStorms(load)
            | Self::SlowServer(load)
            | Self::DeleteFullJob(load)
            | Self::Fairness(load)
            | Self::Writer(load) => load,
            Self::Neighbours(neighbours) => &neighbours.load,
        }
    }

    /// Returns why these settings cannot run, if so.
    pub(crate) fn objection(&self) -> Option<&'static str> {
        let load = self.load();
        let embedded_only = matches!(self, Self::RelistStorms(_) | Self::SlowServer(_));
        if embedded_only && load.kubeconfig.is_some() {
            return Some("this scenario needs the embedded cluster: remove --kubeconfig");
        }
        let of_many = matches!(
            self,
            Self::Indexed(_)
                | Self::NonIndexed(_)
                | Self::PerIndexFailures(_)
                | Self::SlowServer(_)
        );
        if load.jobs > 1 && !of_many {
            return Some("this scenario has its own number of Jobs: remove --jobs");
        }
        if !load.size.is_multiple_of(load.jobs) {
            return Some("--size must be a multiple of --jobs");
        }
        let is_external = load.controller == Who::External;
        if is_external && load.kubeconfig.is_none() && load.controller_command.is_none() {
            return Some(
                "an external controller needs a cluster (--kubeconfig PATH), or a program to start \
                 (--controller-command PROGRAM)",
            );
        }
        if load.controller_command.is_some() && !is_external {
            return Some("--controller-command needs --controller external");
        }
        let is_started_here = !is_external || load.controller_command.is_some();
        if let Self::Neighbours(neighbours) = self
            && load.kubeconfig.is_some()
            && (neighbours.tenant_kubeconfig.is_none()
                || is_started_here && load.controller_kubeconfig.is_none())
        {
            return Some(
                "each client needs its own identity: set --tenant-kubeconfig PATH and, if this program starts \
                 the controller, --controller-kubeconfig PATH",
            );
        }
        None
    }

    /// Returns the added latency of each call to the embedded server.
    pub(crate) fn call_latency(&self) -> Duration {
        let default = match self {
            Self::SlowServer(_) => SLOW_CALL,
            _ => Duration::ZERO,
        };
        self.load().call_latency.unwrap_or(default)
    }

    /// Returns the completions of the main Job; `None` if it has no indexes.
    pub(crate) fn indexes(&self) -> Option<u32> {
        match self {
            Self::NonIndexed(_) | Self::SmallJobs(_) => None,
            _ if self.load().jobs > 1 => None,
            _ => Some(self.load().size),
        }
    }

    /// Returns the initial Jobs, which have the requested number of Pods together.
    pub(crate) fn jobs(&self) -> Vec<Value> {
        let load = self.load();
        let mut job = load.job(MAIN_JOB, load.size / load.jobs);
        match self {
            Self::SmallJobs(_) => {
                let names = (0..load.size).map(|n| format!("{MAIN_JOB}-{n}"));
                return names.map(|name| load.small_job(&name)).collect();
            }
            Self::NonIndexed(_) => job["spec"]["completionMode"] = "NonIndexed".into(),
            Self::PerIndexFailures(_) => {
                let last = (load.size / load.jobs / 10).max(1) - 1;
                let annotations = &mut job["spec"]["template"]["metadata"]["annotations"];
                annotations["sim.lakh.dev/fail-indexes"] = format!("0-{last}").into();
                annotations["sim.lakh.dev/fail-attempts"] = "1".into();
                job["spec"]["backoffLimitPerIndex"] = 2.into();
            }
            Self::SuspendResume(_) | Self::DeleteFullJob(_) => {
                let annotations = &mut job["spec"]["template"]["metadata"]["annotations"];
                annotations[DURATION] = go_duration(FOR_EVER).into();
            }
            // No controller acts on this Job.
            Self::Writer(_) => job["spec"]["managedBy"] = "lakh.dev/bare-writer".into(),
            Self::Indexed(_)
            | Self::RelistStorms(_)
            | Self::SlowServer(_)
            | Self::Fairness(_)
            | Self::Neighbours(_) => {}
        }
        if load.jobs == 1 {
            return vec![job];
        }
        let named = |n: u32| {
            let mut job = job.clone();
            job["metadata"]["name"] = format!("{MAIN_JOB}-{n}").into();
            job
        };
        (0..load.jobs).map(named).collect()
    }
}

impl Load {
    /// Returns a Job of one Pod.
    pub(crate) fn small_job(&self, name: &str) -> Value {
        let mut job = self.job(name, 1);
        job["spec"]["completionMode"] = "NonIndexed".into();
        job["spec"]["parallelism"] = 1.into();
        job
    }

    fn job(&self, name: &str, completions: u32) -> Value {
        let mut job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "completionMode": "Indexed",
                "completions": completions,
                "parallelism": self.parallelism.unwrap_or(completions),
                "template": {
                    "metadata": {"annotations": {DURATION: go_duration(self.pod_duration)}},
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "main", "image": "busybox"}],
                    },
                },
            },
        });
        let own = self.kubelet_kubeconfig.as_ref().map(|_| HOLLOW_NODE);
        if let Some(node) = self.node.as_deref().or(own) {
            job["spec"]["template"]["spec"]["nodeName"] = node.into();
        }
        if let Some(manager) = self.manager() {
            job["spec"]["managedBy"] = manager.into();
        }
        job
    }

    /// Returns the value of the Jobs' `spec.managedBy`.
    fn manager(&self) -> Option<&str> {
        let is_shared = self.controller == Who::Lakh && self.kubeconfig.is_some();
        let usual = (is_shared && !self.names_mode()).then_some(OWN_MANAGER);
        self.managed_by.as_deref().or(usual)
    }

    /// Returns the flags that make lakh run these Jobs, and no others if another controller may run those.
    pub(crate) fn mode_flags(&self) -> Vec<String> {
        match self.manager() {
            _ if self.names_mode() => Vec::new(),
            Some(manager) => vec![
                "--mode=managed-by".to_owned(),
                format!("--managed-by-name={manager}"),
            ],
            None => vec!["--mode=replace".to_owned()],
        }
    }

    fn names_mode(&self) -> bool {
        let mut flags = self.controller_flags.iter();
        flags.any(|flag| flag.split('=').next() == Some("--mode"))
    }
}

/// Formats a duration as Kubernetes does, in milliseconds.
pub(crate) fn go_duration(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

/// Parses a duration in Kubernetes' format.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse_go_duration(text)
        .ok_or_else(|| "must be a duration such as 200ms, 10s or 1m30s".to_owned())
}
