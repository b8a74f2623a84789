//! Given certificates, and certificates as text.
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

use super::super::state_file::FileError;

/// The certificate in a file, those that vouch for it after it, and its key in another file.
pub(super) fn read(certificate: &Path, key: &Path) -> Result<CertifiedKey, FileError> {
    let wrong = |why: Error| FileError::new(certificate, &why);
    let chain = chain(certificate)?;
    let signing = ring::default_provider()
        .key_provider
        .load_private_key(private_key(key)?)
        .map_err(|why| FileError::new(key, &why))?;
    let certified = CertifiedKey::new(chain, signing);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => {
            let other = certificate.display();
            Err(FileError::new(key, &format!("not the key of {other}")))
        }
        Err(why) => Err(wrong(why)),
    }
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let text = text(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|why| FileError::new(path, &why))?;
    if certificates.is_empty() {
        return Err(FileError::new(path, &"there is no certificate in it"));
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    PrivateKeyDer::from_pem_slice(&text(path)?).map_err(|why| match why {
        PemError::NoItemsFound => {
            FileError::new(path, &"there is no private key in it, or it is encrypted")
        }
        why => FileError::new(path, &why),
    })
}

fn text(path: &Path) -> Result<Vec<u8>, FileError> {
    fs::read(path).map_err(|why| FileError::new(path, &why))
}

/// Something as text; certificates and keys say what they are.
pub(super) fn pem_of(kind: &str, der: &[u8]) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&Pem::new(kind, der), config)
}
