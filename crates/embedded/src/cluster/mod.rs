//! Starts the embedded cluster: API server, hollow nodes, Pod garbage collector and kubeconfig.
//!
//! It serves first runs, tests and load tests. The hollow nodes and the collector call the API server within the
//! process; all other clients, lakh's controller included, use HTTP.
//!
//! Must not: hold rules of the API ([`crate::apiserver`]), of Pod lifecycles ([`crate::kubelet`]) or of Pod garbage
//! collection ([`crate::podgc`]).

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

/// Options of an embedded cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Options of the API server. Faults do not affect the hollow nodes.
    pub server: ServeOptions,
    /// Options of the hollow nodes.
    pub kubelet: KubeletOptions,
    /// Number of terminated Pods that may exist before the collector deletes the oldest; 0 or less disables the limit.
    ///
    /// Disabled by default, unlike on a real cluster: load tests end with 100,000 such Pods, check all of them and
    /// measure only the controller.
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
    /// If the port is taken or a fault rule is invalid. Holds a [`FileError`] if the state cannot be loaded, the audit
    /// log cannot be written, or a certificate cannot be read.
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

    /// Returns the base URL of the API server.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Returns the token of a user with full access, if the server requires tokens.
    pub fn token(&self) -> Option<&str> {
        self.server.token()
    }

    /// Returns the data with which clients in this process verify the API server, if it uses TLS.
    pub fn loopback(&self) -> Option<Loopback<'_>> {
        self.server.loopback()
    }

    /// Returns the API server's handle, for checks within the process.
    pub fn server(&self) -> &ServerHandle {
        &self.server
    }

    /// Writes a kubeconfig and replaces any file at the path. Only the owner can read it, since it may hold a token.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write_kubeconfig(&self, path: &Path) -> io::Result<()> {
        self.server.write_kubeconfig(path)
    }

    /// Waits until objects could not be saved, and returns the reason. Never returns if the cluster saves none.
    pub async fn saving_failed(&self) -> String {
        self.server.api().saving_failed().await
    }

    /// Stops the cluster. Its objects are lost, unless a state folder keeps them.
    pub async fn shutdown(self) {
        self.nodes.abort();
        self.collector.abort();
        self.server.shutdown().await;
    }
}
