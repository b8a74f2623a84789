//! Defines the arguments of `lakh local`.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, ValueEnum};

use crate::{
    cli::{duration, tunables::Tunables},
    embedded::{Rule, kubelet::NodeCapacity},
};

#[derive(Args, Debug)]
pub(in crate::cli) struct LocalArgs {
    /// Manifest to run, or a folder of them; may be given more than once, - is standard input. CronJobs in it
    /// run their course, but only Jobs are followed to their ends; without a Job they are only checked. Other objects
    /// are stored. Without -f the cluster serves until it is interrupted.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(super) filenames: Vec<PathBuf>,
    /// Read the folders below a folder of -f, too.
    #[arg(short = 'R', long, requires = "filenames")]
    pub(super) recursive: bool,
    /// Port of the API server on 127.0.0.1; 0 takes a free one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) port: u16,
    /// Where to write the kubeconfig. Default: a file of its own in the directory for temporary
    /// files.
    #[arg(long, value_name = "PATH")]
    pub(super) kubeconfig_out: Option<PathBuf>,
    /// Folder that keeps all objects. What is there is taken up again; what the API server has answered
    /// is there, also when the process is killed. Default: they are gone with the process.
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
    /// File of tokens, in Kubernetes' form: token,user,uid,"group1,group2". Who is in system:masters may
    /// do all, everybody else may read; all over TLS. Default: no tokens, and everybody may do all.
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// Speak TLS, with a certificate made for it (docs/embedded-cluster.md). Default: plain HTTP, unless
    /// there are tokens or a certificate.
    #[arg(long)]
    pub(super) tls: bool,
    /// Certificate to show over TLS, with that of its CA, if any, after it; in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(super) tls_cert_file: Option<PathBuf>,
    /// Private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(super) tls_private_key_file: Option<PathBuf>,
    /// File to which a line of JSON is appended for each call: who, what, and with which answer.
    #[arg(long, value_name = "FILE")]
    pub(super) audit_log: Option<PathBuf>,
    /// How long a Pod's containers run, unless the Pod says otherwise (sim.lakh.dev/duration).
    #[arg(long, value_name = "D", default_value = "1s", value_parser = duration)]
    pub(super) pod_duration: Duration,
    /// What a Pod's containers exit with, unless the Pod says otherwise (sim.lakh.dev/exit-code).
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) pod_exit_code: u8,
    /// Share of Pods that fail, from 0 to 1.
    #[arg(long, value_name = "F", default_value_t = 0.0, value_parser = share)]
    pub(super) pod_fail_rate: f64,
    /// Stage file: lives of Pods, by name, index and chance (docs/stages.md); may be given more than once.
    #[arg(long, value_name = "FILE")]
    pub(super) stages: Vec<PathBuf>,
    /// Nodes of the cluster.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = some)]
    pub(super) nodes: usize,
    /// What each node has room for, as in cpu=8,memory=32Gi,pods=110: Pods that find no room wait
    /// (docs/embedded-cluster.md). Default: nobody looks at what Pods ask for.
    #[arg(long, value_name = "RESOURCE=QUANTITY,...")]
    pub(super) node_capacity: Option<NodeCapacity>,
    /// How many Pods may stay after their end before the oldest are deleted; 0: all.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub(super) terminated_pod_gc_threshold: i32,
    /// Seed of all that looks random on the cluster.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// What goes wrong with calls to the API server, such as refuse=429,verbs=create,probability=0.1
    /// (docs/faults.md); may be given more than once.
    #[arg(long = "fault", value_name = "SPEC")]
    pub(super) faults: Vec<Rule>,
    /// Seed of the chances of faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) fault_seed: u64,
    /// How long the Jobs may take; then the exit code is 1. Without -f, how long to serve.
    #[arg(long, value_name = "D", value_parser = duration)]
    pub(super) timeout: Option<Duration>,
    /// How to print the closing summary.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
    /// Where the controller answers /readyz, /livez and /metrics, if anywhere.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<SocketAddr>,
    /// Print the link to a page that shows the Jobs, and all indexes of each. It is at --listen, by default at a free port
    /// of this machine.
    #[arg(long)]
    pub(super) ui: bool,
    #[command(flatten)]
    pub(super) tunables: Tunables,
}

impl LocalArgs {
    /// Returns the address for probes and the page, if there is to be one.
    pub(super) fn listen(&self) -> Option<SocketAddr> {
        let free_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        self.listen.or(self.ui.then_some(free_port))
    }
}

/// Forms of the closing summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Output {
    /// For people.
    Text,
    /// For machines.
    Json,
}

fn some(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "must be a number from 1 on: without nodes no Pod ever runs".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.parse().ok();
    value
        .filter(|value| (0.0..=1.0).contains(value))
        .ok_or_else(|| "must be a number from 0 to 1".to_owned())
}
