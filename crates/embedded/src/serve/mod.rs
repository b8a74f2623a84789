//! Serves the embedded cluster over HTTP.
//!
//! Responsible for: sockets, the one lock, and waking watches. Must not: hold rules of the API; those are in
//! [`crate::apiserver`].

mod audit_log;
mod body;
mod browser_guard;
mod counts;
mod faults;
mod filters;
mod http;
mod kubeconfig;
mod log_reader;
mod private_file;
mod saver;
mod shared;
mod state_file;
mod tls;

pub use counts::RequestCount;
pub use log_reader::{LogReader, News};
pub use shared::SharedApi;
pub use state_file::FileError;
pub use tls::{Certificate, Loopback};

use std::{
    io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    apiserver::{
        PodOutput, Users,
        faults::{Faults, Rule},
    },
    clock::Clock,
};
use filters::Filters;
use tls::Tls;

/// Options of the server.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// Seed of UIDs and name suffixes.
    pub seed: u64,
    /// Events kept per kind; a watch that is further behind gets 410. None: the server's default.
    pub log_capacity: Option<usize>,
    /// Fault rules at the start; `/lakh/faults` replaces them.
    pub faults: Vec<Rule>,
    /// Seed of the faults' random choices.
    pub fault_seed: u64,
    /// The server's clock.
    pub clock: Clock,
    /// Folder that keeps all objects. None: they are lost when the process ends.
    pub state: Option<PathBuf>,
    /// Users and their permissions. None: any client has full access.
    pub users: Option<Users>,
    /// File to which each request from outside appends a line.
    pub audit_log: Option<PathBuf>,
    /// TLS certificate; none for plain HTTP.
    pub tls: Option<Certificate>,
    /// Timeout for receiving a request's body once its head has arrived. None: the server's default.
    pub body_timeout: Option<Duration>,
    /// Output of containers. None: a line that says that they are hollow.
    pub pod_output: Option<PodOutput>,
}

/// A running server; [`ServerHandle::shutdown`] ends it.
#[derive(Debug)]
pub struct ServerHandle {
    port: u16,
    api: Arc<SharedApi>,
    filters: Arc<Filters>,
    tls: Option<Arc<Tls>>,
    /// Stops the server, also when the handle is dropped.
    stop: DropGuard,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts the server on loopback.
///
/// # Errors
///
/// If the port is taken or a fault rule is invalid. Holds a [`FileError`] if the state cannot be loaded, the audit log
/// cannot be written, or a certificate cannot be read.
pub async fn start(options: ServeOptions) -> io::Result<ServerHandle> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
    let port = listener.local_addr()?.port();
    let now = options.clock.now().monotonic;
    let faults = Faults::new(options.fault_seed, options.faults.clone(), now);
    let faults = faults.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let api = Arc::new(SharedApi::new(&options, faults)?);
    let filters = Arc::new(Filters::new(&options)?);
    let tls = options.tls.as_ref();
    let tls = tls.map(|certificate| Tls::new(certificate, options.state.as_deref()));
    let tls = tls.transpose()?.map(Arc::new);
    if let Some(tls) = &tls {
        api.set_root_ca(tls.trusted());
    }
    let stopped = CancellationToken::new();
    let front = http::Front {
        api: Arc::clone(&api),
        filters: Arc::clone(&filters),
        tls: tls.clone(),
        stopped: stopped.clone(),
    };
    let tasks = vec![
        tokio::spawn(front.accept(listener)),
        tokio::spawn(shared::collect_garbage(Arc::clone(&api), stopped.clone())),
    ];
    Ok(ServerHandle {
        port,
        api,
        filters,
        tls,
        stop: stopped.drop_guard(),
        tasks,
    })
}

impl ServerHandle {
    /// Returns the base URL, such as `http://127.0.0.1:6443`.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// Writes a kubeconfig for this server and replaces any file at the path.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write_kubeconfig(&self, path: &Path) -> io::Result<()> {
        private_file::replace(path, self.kubeconfig().as_bytes())
    }

    /// Returns a kubeconfig for this server as YAML. It holds the certificates to trust, and the token of a user with
    /// full access if the server requires tokens.
    pub fn kubeconfig(&self) -> String {
        let trusted = self.tls.as_ref().map(|tls| tls.trusted());
        kubeconfig::text(&self.url(), trusted, self.token())
    }

    /// Returns the data with which clients in this process verify the server, if it uses TLS.
    pub fn loopback(&self) -> Option<Loopback<'_>> {
        self.tls.as_ref().map(|tls| tls.loopback())
    }

    /// Returns the token of a user with full access, if the server requires tokens.
    pub fn token(&self) -> Option<&str> {
        self.filters.master_token()
    }

    /// Returns the API server, for use within this process.
    pub fn api(&self) -> Arc<SharedApi> {
        Arc::clone(&self.api)
    }

    /// Closes all connections and watches, and waits for the tasks.
    pub async fn shutdown(self) {
        drop(self.stop);
        for task in self.tasks {
            if let Err(error) = task.await
                && error.is_panic()
            {
                tracing::error!(%error, "a task of the embedded API server panicked");
            }
        }
        self.api.end_saving();
    }
}
