//! Runs the page on its own thread, and serves the page's own port, if there is one.
//!
//! Pages may be many and large; the probes' thread only forwards the responses.
//!
//! Must not: know the content of the page.

use std::{io, net::SocketAddr, sync::Arc, thread};

use tokio::sync::{Semaphore, oneshot};

use crate::{client::Client, clock::Clock};

use super::{
    super::{
        certificate::{CertificateError, CertificateFiles, Tls},
        desk::Desk,
        serving::{listen, serve},
    },
    PageSources, READERS, Ui,
    access_reviews::AccessReviews,
    auth::Auth,
};

/// Maximum number of streams of loopback clients. Each has a connection and polls at most four times a second.
const LOCAL_STREAMS: usize = 32;

/// Maximum number of streams of clients with a token.
const REMOTE_STREAMS: usize = 64;

/// The page's own port, for clients with a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UiOptions {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Certificate and key; none if a proxy in front of the port terminates TLS.
    pub certificate: Option<CertificateFiles>,
}

/// The page could not be started.
#[derive(Debug, thiserror::Error)]
pub enum UiError {
    /// The port could not be opened.
    #[error("--ui-listen {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// The certificate is invalid.
    #[error("--ui-tls-cert-file, --ui-tls-private-key-file: {0}")]
    Certificate(#[from] CertificateError),
    /// The thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// The page's thread; it stops when this is dropped.
#[derive(Debug)]
pub(in crate::runtime) struct UiThread {
    local: Ui,
    address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl UiThread {
    /// Starts the thread; opens the port if one is given.
    pub(in crate::runtime) fn start(
        desk: &Arc<Desk>,
        client: &Client,
        clock: &Clock,
        options: Option<UiOptions>,
    ) -> Result<Self, UiError> {
        // Fallible steps come first: a runtime cannot be dropped in an async context.
        let port = options.map(|options| {
            let tls = options.certificate;
            let tls = tls
                .map(|files| Tls::new(files, clock.clone()))
                .transpose()?;
            Ok::<_, UiError>((open(options.listen)?, tls))
        });
        let port = port.transpose()?;
        let address = port.as_ref().map(|((_, address), _)| *address);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().map_err(UiError::Thread)?;
        let inside = runtime.enter();
        let client = client.with_own_connections(None);
        let local = Ui {
            sources: Arc::new(PageSources {
                desk: Arc::clone(desk),
                client: client.clone(),
                clock: clock.clone(),
                readers: Semaphore::new(READERS),
            }),
            auth: Auth::Loopback,
            streams: Arc::new(Semaphore::new(LOCAL_STREAMS)),
            runtime: runtime.handle().clone(),
        };
        let port = port.map(|((listener, _), tls)| {
            let shown = Ui {
                auth: Auth::Tokens(Arc::new(AccessReviews::new(client))),
                streams: Arc::new(Semaphore::new(REMOTE_STREAMS)),
                ..local.clone()
            };
            serve(listener, tls, shown)
        });
        drop(inside);
        let (stop, stopped) = oneshot::channel();
        let work = async move {
            let listening = async {
                match port {
                    Some(port) => port.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = listening => {}
                // An error means that the sender was dropped.
                _ = stopped => {}
            }
        };
        let thread = thread::Builder::new()
            .name("ui".to_owned())
            .spawn(move || runtime.block_on(work))
            .map_err(UiError::Thread)?;
        Ok(Self {
            local,
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the page for loopback clients.
    pub(in crate::runtime) fn local(&self) -> Ui {
        self.local.clone()
    }

    /// Returns the address of the page's own port.
    pub(in crate::runtime) fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

fn open(address: SocketAddr) -> Result<(std::net::TcpListener, SocketAddr), UiError> {
    let opened = listen(address).and_then(|listener| {
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    opened.map_err(|source| UiError::Listen { address, source })
}

impl Drop for UiThread {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // The thread ends within moments. A panic in it has been logged already.
            let _ = thread.join();
        }
    }
}
