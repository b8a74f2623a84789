//! HTTP in front of the embedded cluster.
//!
//! Responsible for: sockets, the one lock, and waking watchers. Must not: hold rules
//! of the API; those are in [`crate::apiserver`].

mod audit_log;
mod body;
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
mod stranger;
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

/// How to start the server.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// Seed of uids and name suffixes.
    pub seed: u64,
    /// Events kept per kind; a watch that is further behind gets 410. None: the server's default.
    pub log_capacity: Option<usize>,
    /// What goes wrong with calls, until somebody asks for something else at `/lakh/faults`.
    pub faults: Vec<Rule>,
    /// Seed of the chances of faults.
    pub fault_seed: u64,
    /// What time it is.
    pub clock: Clock,
    /// The folder that keeps all objects; none if they are gone with the process.
    pub state: Option<PathBuf>,
    /// Who may do what; none if everybody may do all.
    pub users: Option<Users>,
    /// The file to which a line for each request from outside is appended.
    pub audit_log: Option<PathBuf>,
    /// The certificate to show over TLS; none for plain HTTP.
    pub tls: Option<Certificate>,
    /// How long a client may take to send a request's body, once its head is there. None: the server's
    /// default.
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
    /// Ends the server, also when the handle is dropped.
    stop: DropGuard,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts the server on loopback.
///
/// # Errors
///
/// If the port cannot be had, or a rule for faults makes no sense; a [`FileError`] inside, if the state
/// cannot be loaded, the audit log not be written or a certificate not be read.
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
    /// The base URL, such as `http://127.0.0.1:6443`.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// Writes a kubeconfig for this server in place of whatever the path names.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write_kubeconfig(&self, path: &Path) -> io::Result<()> {
        private_file::replace(path, self.kubeconfig().as_bytes())
    }

    /// A kubeconfig for this server, as YAML text, with all that it takes to believe its certificate, and
    /// the token of somebody who may do all if tokens are asked for.
    pub fn kubeconfig(&self) -> String {
        let trusted = self.tls.as_ref().map(|tls| tls.trusted());
        kubeconfig::text(&self.url(), trusted, self.token())
    }

    /// By what clients in this process know the server, where it speaks TLS.
    pub fn loopback(&self) -> Option<Loopback<'_>> {
        self.tls.as_ref().map(|tls| tls.loopback())
    }

    /// The token of somebody who may do all, where tokens are asked for.
    pub fn token(&self) -> Option<&str> {
        self.filters.master_token()
    }

    /// The server's state, for use within this process.
    pub fn api(&self) -> Arc<SharedApi> {
        Arc::clone(&self.api)
    }

    /// Ends all connections and watches, and waits for the tasks.
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
