//! Serves the certificate of the page's own port, from files that may change while in use.
//!
//! Must not: judge whether the certificate is trusted; browsers do.

use std::{fs, io, path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
};

use crate::{clock::Clock, model::Monotonic};

/// Interval at which a new connection makes the files be read again: certificates are renewed hours before they expire.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// The files of a certificate, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by those of its issuers, if any.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Error of a certificate's file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct CertificateError {
    path: PathBuf,
    why: String,
}

/// TLS with the current certificate.
#[derive(Debug)]
pub(super) struct Tls {
    files: CertificateFiles,
    clock: Clock,
    loaded: Mutex<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    at: Monotonic,
    text: [Vec<u8>; 2],
    config: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the files.
    pub(super) fn new(files: CertificateFiles, clock: Clock) -> Result<Self, CertificateError> {
        let text = read(&files)?;
        let config = configure(&files, &text)?;
        let loaded = Mutex::new(Loaded {
            at: clock.now().monotonic,
            text,
            config,
        });
        Ok(Self {
            files,
            clock,
            loaded,
        })
    }

    /// Returns the acceptor for the next connection, after reading the files again if that is due.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let now = self.clock.now().monotonic;
        let mut loaded = self.loaded.lock();
        if now.since(loaded.at) >= READ_AGAIN {
            loaded.at = now;
            if let Err(error) = self.load_again(&mut loaded) {
                tracing::warn!(%error, "could not reload the certificate of --ui-listen; the previous one stays in use");
            }
        }
        Arc::clone(&loaded.config).into()
    }

    fn load_again(&self, loaded: &mut Loaded) -> Result<(), CertificateError> {
        let text = read(&self.files)?;
        if text != loaded.text {
            loaded.config = configure(&self.files, &text)?;
            loaded.text = text;
        }
        Ok(())
    }
}

fn read(files: &CertificateFiles) -> Result<[Vec<u8>; 2], CertificateError> {
    let read = |path: &PathBuf| {
        let wrong = |error: io::Error| wrong(path, &error.to_string());
        fs::read(path).map_err(wrong)
    };
    Ok([read(&files.certificate)?, read(&files.key)?])
}

fn configure(
    files: &CertificateFiles,
    [certificate, key]: &[Vec<u8>; 2],
) -> Result<Arc<ServerConfig>, CertificateError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|error| wrong(&files.certificate, &error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(&files.certificate, "there is no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| wrong(&files.key, &format!("the private key is invalid: {error}")))?;
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
    let mut config = config.map_err(|error| {
        let with = format!("with {}: {error}", files.key.display());
        wrong(&files.certificate, &with)
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn wrong(path: &std::path::Path, why: &str) -> CertificateError {
    CertificateError {
        path: path.to_owned(),
        why: why.to_owned(),
    }
}
