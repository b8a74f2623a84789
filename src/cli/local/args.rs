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
    /// Manifest to run, or a folder of manifests; - is standard input; may be given more than once. lakh runs the Jobs
    /// to their end and exits. CronJobs run on schedule meanwhile; without a Job they are only checked. Other objects
    /// are stored. Without -f the cluster serves until it is interrupted.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(super) filenames: Vec<PathBuf>,
    /// Also read the subfolders of a folder given by -f.
    #[arg(short = 'R', long, requires = "filenames")]
    pub(super) recursive: bool,
    /// Port of the API server on 127.0.0.1; 0 chooses a free port.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) port: u16,
    /// Path to write the kubeconfig to. Default: a new file in the directory for temporary files.
    #[arg(long, value_name = "PATH")]
    pub(super) kubeconfig_out: Option<PathBuf>,
    /// Folder to keep all objects in. The next start continues with them, also after the process was killed: every
    /// object is saved before the API server responds. Default: objects are lost when the process exits.
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
    /// File of static tokens in Kubernetes' format: token,user,uid,"group1,group2". Members of system:masters may do
    /// everything, all other users may read. Enables TLS. Default: no authentication, and every client may do
    /// everything.
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// Serve HTTPS with a generated certificate (docs/embedded-cluster.md). Default: plain HTTP, unless --token-file or
    /// --tls-cert-file is set.
    #[arg(long)]
    pub(super) tls: bool,
    /// TLS certificate, in PEM, followed by the certificate of its CA, if any.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(super) tls_cert_file: Option<PathBuf>,
    /// Private key of the TLS certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(super) tls_private_key_file: Option<PathBuf>,
    /// File to append an audit line to for each request, in JSON: user, request and response code.
    #[arg(long, value_name = "FILE")]
    pub(super) audit_log: Option<PathBuf>,
    /// Run time of a Pod's containers, unless the Pod has the annotation sim.lakh.dev/duration.
    #[arg(long, value_name = "D", default_value = "1s", value_parser = duration)]
    pub(super) pod_duration: Duration,
    /// Exit code of a Pod's containers, unless the Pod has the annotation sim.lakh.dev/exit-code.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) pod_exit_code: u8,
    /// Probability that a Pod fails, from 0 to 1.
    #[arg(long, value_name = "F", default_value_t = 0.0, value_parser = share)]
    pub(super) pod_fail_rate: f64,
    /// Stage file, which defines the course of Pods by name, index and probability (docs/stages.md); may be given more
    /// than once.
    #[arg(long, value_name = "FILE")]
    pub(super) stages: Vec<PathBuf>,
    /// Number of nodes.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = some)]
    pub(super) nodes: usize,
    /// Capacity of each node, as in cpu=8,memory=32Gi,pods=110. Pods that do not fit stay pending
    /// (docs/embedded-cluster.md). Default: unlimited.
    #[arg(long, value_name = "RESOURCE=QUANTITY,...")]
    pub(super) node_capacity: Option<NodeCapacity>,
    /// Number of terminated Pods to keep before the Pod garbage collector deletes the oldest; 0 keeps all.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub(super) terminated_pod_gc_threshold: i32,
    /// Seed of the cluster's random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Fault to inject into requests to the API server, such as refuse=429,verbs=create,probability=0.1
    /// (docs/faults.md); may be given more than once.
    #[arg(long = "fault", value_name = "SPEC")]
    pub(super) faults: Vec<Rule>,
    /// Seed of the random numbers for faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) fault_seed: u64,
    /// Time limit for the Jobs; the exit code is 1 when it expires. Without -f, the time to serve.
    #[arg(long, value_name = "D", value_parser = duration)]
    pub(super) timeout: Option<Duration>,
    /// Format of the summary at the end.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
    /// Address at which the controller serves /readyz, /livez and /metrics. Default: none.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<SocketAddr>,
    /// Serve a page with all Jobs and their indexes, and print its link. Its address is that of --listen, or a free
    /// port of this machine.
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

/// Formats of the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Output {
    /// Text.
    Text,
    /// A JSON object.
    Json,
}

fn some(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "must be at least 1: without nodes no Pod can run".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.parse().ok();
    value
        .filter(|value| (0.0..=1.0).contains(value))
        .ok_or_else(|| "must be a number from 0 to 1".to_owned())
}
