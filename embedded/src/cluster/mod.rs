//! The embedded cluster in one piece: API server, hollow nodes, collector of Pods, kubeconfig.
//!
//! For the first run, the tests and the load tests. The hollow nodes and the collector talk to the API
//! server within the process; everybody else, lakh's controller too, comes over HTTP.
//!
//! Must not: hold rules of the API ([`crate::apiserver`]), of Pods' lives ([`crate::kubelet`]) or of
//! which Pods are collected ([`crate::podgc`]).

mod call;
mod collector;
mod metrics;
mod nodes;

pub use crate::{
    apiserver::Users,
    serve::{Certificate, FileError, Loopback},
};

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::task::JoinHandle;

use crate::{
    clock::Clock,
    kubelet::KubeletOptions,
    serve::{self, ServeOptions, ServerHandle},
};

pub use crate::apiserver::faults::{FaultKind, Rule, RuleError};

/// How the cluster is.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// Seed of all that looks random.
    pub seed: u64,
    /// Events kept per kind; a watch that is further behind gets 410. None: the server's default.
    pub log_capacity: Option<usize>,
    /// What goes wrong with calls over HTTP. The hollow nodes do not notice.
    pub faults: Vec<Rule>,
    /// Seed of the chances of faults.
    pub fault_seed: u64,
    /// How the hollow nodes behave.
    pub kubelet: KubeletOptions,
    /// How many Pods may stay after their end before the collector deletes the oldest; 0 or less: all.
    ///
    /// All by default, other than on a real cluster: load tests end with 100,000 such Pods, look at
    /// them all and measure nothing but the controller.
    pub terminated_pod_gc_threshold: i32,
    /// What time it is, for the API server, the hollow nodes and the collector.
    pub clock: Clock,
    /// The folder that keeps all objects; none if they are gone with the cluster.
    pub state: Option<PathBuf>,
    /// Who may do what over HTTP; none if everybody may do all.
    pub users: Option<Users>,
    /// The file to which a line for each call over HTTP is appended.
    pub audit_log: Option<PathBuf>,
    /// The certificate to show over TLS; none for plain HTTP.
    pub tls: Option<Certificate>,
    /// How long a client may take to send a request's body, once its head is there. None: the server's
    /// default.
    pub body_timeout: Option<Duration>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            port: 0,
            seed: 1,
            log_capacity: None,
            faults: Vec::new(),
            fault_seed: 1,
            kubelet: KubeletOptions::with_nodes(3),
            terminated_pod_gc_threshold: 0,
            clock: Clock::default(),
            state: None,
            users: None,
            audit_log: None,
            tls: None,
            body_timeout: None,
        }
    }
}

/// A running cluster.
#[derive(Debug)]
pub struct EmbeddedCluster {
    server: ServerHandle,
    nodes: JoinHandle<()>,
    collector: JoinHandle<()>,
}

impl EmbeddedCluster {
    /// Starts a cluster.
    ///
    /// # Errors
    ///
    /// If the port cannot be had, a rule for faults makes no sense, or, with a [`FileError`] inside,
    /// the state cannot be loaded, the audit log not be written or a certificate not be read.
    pub async fn start(options: ClusterOptions) -> io::Result<Self> {
        let server = serve::start(ServeOptions {
            port: options.port,
            seed: options.seed,
            log_capacity: options.log_capacity,
            faults: options.faults,
            fault_seed: options.fault_seed,
            clock: options.clock,
            state: options.state,
            users: options.users,
            audit_log: options.audit_log,
            tls: options.tls,
            body_timeout: options.body_timeout,
        })
        .await?;
        let nodes = tokio::spawn(nodes::run(server.api(), options.kubelet));
        let collector = collector::run(server.api(), options.terminated_pod_gc_threshold);
        Ok(Self {
            server,
            nodes,
            collector: tokio::spawn(collector),
        })
    }

    /// The base URL of its API server.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// The token of somebody who may do all, where tokens are asked for.
    pub fn token(&self) -> Option<&str> {
        self.server.token()
    }

    /// By what clients in this process know the API server, where it speaks TLS.
    pub fn loopback(&self) -> Option<Loopback<'_>> {
        self.server.loopback()
    }

    /// The API server's state, for checks within the process.
    pub fn server(&self) -> &ServerHandle {
        &self.server
    }

    /// Writes a kubeconfig for it, in place of whatever the path names; for its owner alone, since there
    /// may be a token in it.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write_kubeconfig(&self, path: &Path) -> io::Result<()> {
        self.server.write_kubeconfig(path)
    }

    /// Waits until objects could not be saved, and gives why; for ever, if none are.
    pub async fn saving_failed(&self) -> String {
        self.server.api().saving_failed().await
    }

    /// Ends it; its objects are gone, or kept where they were to be.
    pub async fn shutdown(self) {
        self.nodes.abort();
        self.collector.abort();
        self.server.shutdown().await;
    }
}
