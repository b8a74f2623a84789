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
    /// One Indexed Job with backoffLimitPerIndex; the first try of each of its first tenth of
    /// indexes fails.
    PerIndexFailures(Load),
    /// One Indexed Job that is suspended when all its Pods run, and resumed when they are gone.
    SuspendResume(Load),
    /// One Indexed Job, while all watches end with 410 twice a second. Embedded cluster only.
    RelistStorms(Load),
    /// One Indexed Job against a server that takes 5 ms longer for each call, or --call-latency.
    /// Embedded cluster only.
    SlowServer(Load),
    /// One Indexed Job that is deleted when all its Pods run; over when nothing is left of it.
    DeleteFullJob(Load),
    /// One Indexed Job in full flight, and beside it a new Job of one Pod every 250 ms.
    Fairness(Load),
    /// A tenant's Jobs of one Pod in another namespace, one every 500 ms: alone first, then beside one
    /// Indexed Job in full flight. Each client has an identity of its own.
    Neighbours(Neighbours),
    /// No controller: creates the Pods of one Indexed Job, takes the finalizer off each at once,
    /// and does nothing else. What the cluster can do at most.
    Writer(Load),
}

/// A giant Job, and a tenant that has small ones.
#[derive(Args, Clone, Debug)]
pub(crate) struct Neighbours {
    #[command(flatten)]
    pub(crate) load: Load,
    /// Kubeconfig of the tenant, who creates Jobs; needed where --kubeconfig is.
    #[arg(long, value_name = "PATH", requires = "kubeconfig")]
    pub(crate) tenant_kubeconfig: Option<PathBuf>,
    /// How many small Jobs there shall be before the giant.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) alone: u32,
    /// How many there shall be from its full flight on, at least: where it ends sooner they go on, so that
    /// controllers that take longer for it and shorter can be compared over the same time.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) beside: u32,
}

/// How much of it, where, and with which controller.
#[derive(Args, Clone, Debug)]
pub(crate) struct Load {
    /// The total number of Pods.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) size: u32,
    /// How many Jobs share the Pods, each as many of them. Not for scenarios about one Job.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) jobs: u32,
    /// How many Pods of a Job may be active at once. Default: all.
    #[arg(long, value_name = "N")]
    pub(crate) parallelism: Option<u32>,
    /// Writes that lakh, or the bare writer, may have under way at once.
    #[arg(long, value_name = "N", default_value_t = 96)]
    pub(crate) max_in_flight: usize,
    /// How long a Pod's containers run.
    #[arg(long, value_name = "D", default_value = "0s", value_parser = duration)]
    pub(crate) pod_duration: Duration,
    /// The node that the Pods are made for, so that nobody has to bind them.
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// How much longer each call to the embedded API server takes.
    #[arg(long, value_name = "D", value_parser = duration, conflicts_with = "kubeconfig")]
    call_latency: Option<Duration>,
    /// Run on this cluster instead of an embedded one, in a namespace of its own.
    #[arg(long, value_name = "PATH")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the controller that is started here, where it is to be somebody else than this
    /// program.
    #[arg(long, value_name = "PATH", requires = "kubeconfig")]
    pub(crate) controller_kubeconfig: Option<PathBuf>,
    /// Brings a hollow node for the time of the run, and makes the Pods for it; this is its kubeconfig. It
    /// ends each Pod that runs for 0s by one write, as soon as it sees it, 64 of these at once.
    #[arg(
        long,
        value_name = "PATH",
        requires = "kubeconfig",
        conflicts_with = "node"
    )]
    pub(crate) kubelet_kubeconfig: Option<PathBuf>,
    /// Whose work is measured: lakh, started here as a process of its own, or another controller
    /// that is at work on the cluster already.
    #[arg(long, value_enum, default_value_t = Who::Lakh)]
    pub(crate) controller: Who,
    /// The lakh binary. Default: the one beside this program.
    #[arg(long, value_name = "PATH")]
    pub(crate) lakh: Option<PathBuf>,
    /// Another flag for the controller that is started here, such as --controller-flag=--qps=1000; may
    /// be given more than once. Where one of --controller-command says {kubeconfig}, it gets the path.
    #[arg(
        long = "controller-flag",
        value_name = "FLAG",
        allow_hyphen_values = true
    )]
    pub(crate) controller_flags: Vec<String>,
    /// A program to start as the external controller, with the flags above, on whichever cluster.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "controller_pid")]
    pub(crate) controller_command: Option<PathBuf>,
    /// The external controller's process, to be measured.
    #[arg(long, value_name = "PID")]
    pub(crate) controller_pid: Option<u32>,
    /// Another process to be measured, such as kube-apiserver=4711; may be given more than once.
    #[arg(long = "process", value_name = "NAME=PID", value_parser = Process::parse)]
    pub(crate) processes: Vec<Process>,
    /// What spec.managedBy of the Jobs says. Default: nothing; lakh.dev/job-controller if lakh is started
    /// here on a cluster that may have a controller of its own, and no --controller-flag names a --mode.
    #[arg(long, value_name = "NAME")]
    pub(crate) managed_by: Option<String>,
    /// Time between two samples of the time series.
    #[arg(long, value_name = "D", default_value = "200ms", value_parser = duration)]
    pub(crate) sample_period: Duration,
    /// How long the run may take; then it is reported as it is.
    #[arg(long, value_name = "D", default_value = "30m", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Leave the namespace on the cluster, with all that is in it.
    #[arg(long, requires = "kubeconfig")]
    pub(crate) keep: bool,
    /// Where to write report.html, report.json and history.jsonl.
    #[arg(long, value_name = "DIR", default_value = "target/load")]
    pub(crate) out: PathBuf,
}

/// Whose work is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Who {
    /// lakh, started by this program.
    Lakh,
    /// Somebody else, at work already.
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
            return Some("this scenario needs the embedded cluster: no --kubeconfig");
        }
        let of_many = matches!(
            self,
            Self::Indexed(_)
                | Self::NonIndexed(_)
                | Self::PerIndexFailures(_)
                | Self::SlowServer(_)
        );
        if load.jobs > 1 && !of_many {
            return Some("this scenario has Jobs of its own: no --jobs");
        }
        if !load.size.is_multiple_of(load.jobs) {
            return Some("--size must be a multiple of --jobs");
        }
        let is_external = load.controller == Who::External;
        if is_external && load.kubeconfig.is_none() && load.controller_command.is_none() {
            return Some(
                "an external controller needs a cluster of its own, --kubeconfig PATH, or to be \
                 started here, --controller-command PROGRAM",
            );
        }
        if load.controller_command.is_some() && !is_external {
            return Some("--controller-command is for --controller external");
        }
        let is_started_here = !is_external || load.controller_command.is_some();
        if let Self::Neighbours(neighbours) = self
            && load.kubeconfig.is_some()
            && (neighbours.tenant_kubeconfig.is_none()
                || is_started_here && load.controller_kubeconfig.is_none())
        {
            return Some(
                "each client needs an identity of its own: --tenant-kubeconfig PATH, and for a \
                 controller that is started here --controller-kubeconfig PATH",
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
