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
    serve::{Certificate, FileError, Loopback, ServeOptions},
};

use std::{io, path::Path, sync::Arc};

use tokio::task::JoinHandle;

use crate::{
    apiserver::PodOutput,
    kubelet::{KubeletOptions, container_output},
    serve::{self, ServerHandle},
};

pub use crate::apiserver::faults::{FaultKind, Rule, RuleError};

/// How the cluster is.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Its API server. The hollow nodes do not notice faults.
    pub server: ServeOptions,
    /// How the hollow nodes behave.
    pub kubelet: KubeletOptions,
    /// How many Pods may stay after their end before the collector deletes the oldest; 0 or less: all.
    ///
    /// All by default, other than on a real cluster: load tests end with 100,000 such Pods, look at
    /// them all and measure nothing but the controller.
    pub terminated_pod_gc_threshold: i32,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            server: ServeOptions {
                seed: 1,
                fault_seed: 1,
                ..ServeOptions::default()
            },
            kubelet: KubeletOptions::with_nodes(3),
            terminated_pod_gc_threshold: 0,
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
    pub async fn start(mut options: ClusterOptions) -> io::Result<Self> {
        let kubelet = options.kubelet.clone();
        let output = move |pod: &[u8], container: &str, previous: bool| {
            container_output(&kubelet, pod, container, previous)
        };
        options.server.pod_output = Some(PodOutput(Arc::new(output)));
        let server = serve::start(options.server).await?;
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
