//! Terminates TLS for the server.
//!
//! Responsible for: choosing the certificate for each client, the data that clients need to trust it, and handshakes.
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

/// Handshake timeout; the same as for Go's clients.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// First byte of a TLS handshake.
const HANDSHAKE: u8 = 22;
/// Response to a client without TLS; the text is that of Go's servers.
const NOT_TLS: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Source of the server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// Signed by an authority of the server's own; a state folder keeps that authority.
    Made,
    /// Read from these PEM files.
    Given {
        /// The certificate, followed by its chain, if any.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
}

/// Data with which clients in the server's own process verify it, whatever certificate other clients get.
#[derive(Clone, Copy, Debug)]
pub struct Loopback<'a> {
    /// Certificate of the authority to trust, in DER.
    pub authority: &'a [u8],
    /// Server name to request.
    pub server_name: &'static str,
}

/// The server's TLS configuration.
#[derive(Debug)]
pub(super) struct Tls {
    config: Arc<ServerConfig>,
    authority: CertificateDer<'static>,
    trusted: String,
}

impl Tls {
    /// Reads or creates the certificates.
    pub(super) fn new(certificate: &Certificate, state: Option<&Path>) -> io::Result<Self> {
        // Uses the system's clock, as clients do; the cluster's clock may be moved.
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

    /// Returns the certificates, in PEM, with which other clients verify the server.
    pub(super) fn trusted(&self) -> &str {
        &self.trusted
    }

    /// Returns the data with which clients in this process verify the server.
    pub(super) fn loopback(&self) -> Loopback<'_> {
        Loopback {
            authority: &self.authority,
            server_name: LOOPBACK,
        }
    }

    /// Performs the handshake with a client, with a timeout.
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

/// Returns true if the client begins with a TLS handshake; otherwise sends a plain-text response.
async fn is_tls(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let is_tls = stream.peek(&mut first).await? == 0 || first == [HANDSHAKE];
    if !is_tls {
        // Unread input would turn the close after the response into a reset.
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
