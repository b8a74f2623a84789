//! TLS in front of the server.
//!
//! Responsible for: which client gets which certificate, what clients need to trust it, and handshakes.
//! Must not: know HTTP, except for the one line that answers a client without TLS.
//!
//! HTTP/1.1 only: `docs/embedded-cluster.md` says why.

mod authority;
mod certificates;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::CertificateDer,
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
    },
    server::TlsStream,
};

use crate::clock::Clock;
use authority::{Authority, LOOPBACK};
use certificates::pem_of;

/// How long a client may take for its handshake; as long as Go's clients give a server.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// What the first byte of a handshake is.
const HANDSHAKE: u8 = 22;
/// The answer to a client that does not begin with one, in the words of Go's servers.
const NOT_TLS: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Which certificate the server shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// One of its own, signed by an authority that a state keeps.
    Made,
    /// That of these files, in PEM.
    Given {
        /// The certificate, and after it those who have signed it, if any.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
}

/// By what clients in the server's own process know it, whatever certificate others are shown.
#[derive(Clone, Copy, Debug)]
pub struct Loopback<'a> {
    /// The certificate of the authority that they believe, in DER.
    pub authority: &'a [u8],
    /// The name that they ask for.
    pub server_name: &'static str,
}

/// TLS as the server speaks it.
#[derive(Debug)]
pub(super) struct Tls {
    config: Arc<ServerConfig>,
    authority: CertificateDer<'static>,
    trusted: String,
}

impl Tls {
    /// Reads the certificates, or makes them.
    pub(super) fn new(certificate: &Certificate, state: Option<&Path>) -> io::Result<Self> {
        // Not the cluster's clock, which may be moved: clients look at their own.
        let now = Clock::default().now().wall;
        let (authority, given) = match (certificate, state) {
            (Certificate::Made, Some(folder)) => (Authority::keep(folder, now)?, None),
            (Certificate::Made, None) => (Authority::make(now).map_err(io::Error::other)?, None),
            (Certificate::Given { certificate, key }, _) => {
                let given = certificates::read(certificate, key)?;
                let own = Authority::make(now).map_err(io::Error::other)?;
                (own, Some(Arc::new(given)))
            }
        };
        let trusted = match &given {
            Some(given) => given
                .cert
                .iter()
                .map(|it| pem_of("CERTIFICATE", it))
                .collect(),
            None => pem_of("CERTIFICATE", &authority.certificate),
        };
        let own = Arc::new(authority.sign(now).map_err(io::Error::other)?);
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Certificates { own, given }));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            authority: authority.certificate,
            trusted,
        })
    }

    /// The certificates, in PEM, by which others know the server.
    pub(super) fn trusted(&self) -> &str {
        &self.trusted
    }

    /// By what clients in this process know it.
    pub(super) fn loopback(&self) -> Loopback<'_> {
        Loopback {
            authority: &self.authority,
            server_name: LOOPBACK,
        }
    }

    /// Shakes hands with a client; gives up on one that takes too long.
    pub(super) async fn handshake(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let handshake = async {
            if is_tls(&stream).await? {
                let acceptor = TlsAcceptor::from(Arc::clone(&self.config));
                acceptor.accept(stream).await
            } else {
                Err(io::Error::other("the client does not speak TLS"))
            }
        };
        timeout(HANDSHAKE_TIMEOUT, handshake).await?
    }
}

/// Whether a client begins with a handshake. One that does not gets an answer that says so.
async fn is_tls(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let is_tls = stream.peek(&mut first).await? == 0 || first == [HANDSHAKE];
    if !is_tls {
        // What is not read would make of the answer's end a reset.
        let _ = stream.try_read(&mut [0; 4096]);
        let _ = stream.try_write(NOT_TLS);
    }
    Ok(is_tls)
}

#[derive(Debug)]
struct Certificates {
    own: Arc<CertifiedKey>,
    given: Option<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let given = self.given.as_ref();
        let shown = given.filter(|_| hello.server_name() != Some(LOOPBACK));
        Some(Arc::clone(shown.unwrap_or(&self.own)))
    }
}
