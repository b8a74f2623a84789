//! HTTP in front of the embedded cluster.
//!
//! Responsible for: sockets, the one lock, and waking watchers. Must not: hold rules
//! of the API; those are in [`crate::apiserver`].

mod body;
mod counts;
mod http;
mod kubeconfig;
mod saver;
mod shared;
mod state_file;

pub use counts::RequestCount;
pub use shared::SharedApi;
pub use state_file::StateError;

use std::{io, net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use crate::clock::Clock;

/// How to start the server.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// Seed of uids and name suffixes.
    pub seed: u64,
    /// Events kept per kind; a watch that is further behind gets 410. None: the server's default.
    pub log_capacity: Option<usize>,
    /// How much longer each call takes: an imitation of a slow server. Watches only start later.
    pub call_latency: Duration,
    /// What time it is.
    pub clock: Clock,
    /// The folder that keeps all objects; none if they are gone with the process.
    pub state: Option<PathBuf>,
}

/// A running server; [`ServerHandle::shutdown`] ends it.
#[derive(Debug)]
pub struct ServerHandle {
    port: u16,
    api: Arc<SharedApi>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts the server on loopback.
///
/// # Errors
///
/// If the port cannot be had; a [`StateError`] inside, if the state cannot be loaded.
pub async fn start(options: ServeOptions) -> io::Result<ServerHandle> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
    let port = listener.local_addr()?.port();
    let api = Arc::new(SharedApi::new(&options)?);
    let (stop, stopped) = watch::channel(false);
    let tasks = vec![
        tokio::spawn(http::accept(
            listener,
            Arc::clone(&api),
            options.call_latency,
            stopped.clone(),
        )),
        tokio::spawn(shared::collect_garbage(Arc::clone(&api), stopped)),
    ];
    Ok(ServerHandle {
        port,
        api,
        stop,
        tasks,
    })
}

impl ServerHandle {
    /// The base URL, such as `http://127.0.0.1:6443`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A kubeconfig for this server, as YAML text.
    pub fn kubeconfig(&self) -> String {
        kubeconfig::text(&self.url())
    }

    /// The server's state, for use within this process.
    pub fn api(&self) -> Arc<SharedApi> {
        Arc::clone(&self.api)
    }

    /// Ends all connections and watches, and waits for the tasks.
    pub async fn shutdown(self) {
        // Nobody listening any more is what is wanted.
        let _ = self.stop.send(true);
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
