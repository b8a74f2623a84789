//! The thread on which the page is made, and the port of its own that it may have.
//!
//! Pages are many and may be large; the probes' thread only passes on what is made here.
//!
//! Must not: know what a page shows.

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
    door::Door,
    reviews::Reviews,
};

/// How many pages are told of changes at once, of those who ask from this machine. Each has a connection and is asked
/// about four times a second at most; a person has a few.
const STREAMS_HERE: usize = 32;

/// The same of all who bring tokens.
const STREAMS_ELSEWHERE: usize = 64;

/// A port of the page's own, where it is shown to who brings a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UiOptions {
    /// Where to listen.
    pub listen: SocketAddr,
    /// By what its connections are secured; none if something in front of it does that.
    pub certificate: Option<CertificateFiles>,
}

/// The page cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum UiError {
    /// Its port cannot be opened.
    #[error("--ui-listen {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Its certificate cannot be used.
    #[error("--ui-tls-cert-file, --ui-tls-private-key-file: {0}")]
    Certificate(#[from] CertificateError),
    /// There is no thread for it.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// See the module's text. It ends when this is dropped.
#[derive(Debug)]
pub(in crate::runtime) struct UiThread {
    local: Ui,
    address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl UiThread {
    /// Starts the thread, and listens if a port is given.
    pub(in crate::runtime) fn start(
        desk: &Arc<Desk>,
        client: &Client,
        clock: &Clock,
        options: Option<UiOptions>,
    ) -> Result<Self, UiError> {
        // What may go wrong comes first: a runtime cannot be given up where this is called.
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
            door: Door::ThisMachine,
            streams: Arc::new(Semaphore::new(STREAMS_HERE)),
            runtime: runtime.handle().clone(),
        };
        let port = port.map(|((listener, _), tls)| {
            let shown = Ui {
                door: Door::Tokens(Arc::new(Reviews::new(client))),
                streams: Arc::new(Semaphore::new(STREAMS_ELSEWHERE)),
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
                // It also comes when the sender is gone.
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

    /// The page for who asks from this machine.
    pub(in crate::runtime) fn local(&self) -> Ui {
        self.local.clone()
    }

    /// Where it is shown to who brings a token.
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
            // What it does takes a moment. If it panicked, that was told.
            let _ = thread.join();
        }
    }
}
