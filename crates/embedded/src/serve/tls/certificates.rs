//! Reads certificate files and encodes certificates as PEM.
//!
//! Responsible for: reading the files of `--tls-cert-file` and `--tls-private-key-file`. Must not: judge whether they
//! can be trusted; clients do.

use std::{fs, path::Path};

use pem::Pem;
use tokio_rustls::rustls::{
    Error, InconsistentKeys,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{Error as PemError, PemObject as _},
    },
    sign::CertifiedKey,
};

use super::super::state_file::{About as _, FileError};

/// Reads a certificate with its chain from one file, and its key from another.
pub(super) fn read(certificate: &Path, key: &Path) -> Result<CertifiedKey, FileError> {
    let chain = chain(certificate)?;
    let provider = ring::default_provider().key_provider;
    let signing = provider.load_private_key(private_key(key)?).about(key)?;
    let certified = CertifiedKey::new(chain, signing);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => {
            Err(format!("not the key of {}", certificate.display())).about(key)
        }
        Err(why) => Err(why).about(certificate),
    }
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let text = fs::read(path).about(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.about(path)?;
    if certificates.is_empty() {
        return Err("there is no certificate in it").about(path);
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    let text = fs::read(path).about(path)?;
    match PrivateKeyDer::from_pem_slice(&text) {
        Err(PemError::NoItemsFound) => {
            Err("there is no private key in it, or it is encrypted").about(path)
        }
        read => read.about(path),
    }
}

/// Encodes DER as PEM with this label.
pub(super) fn pem_of(kind: &str, der: &[u8]) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&Pem::new(kind, der), config)
}
