//! The server's own certificate authority, which signs its certificate if none is given.
//!
//! Responsible for: creating it, keeping it, signing. Must not: know which client gets which certificate.
//!
//! With a state, key and certificate are kept in one file. The certificates that it signs are new at each start, so
//! only that file has to last as long as somebody's kubeconfig.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tokio_rustls::rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    sign::CertifiedKey,
};

use super::{
    super::{
        private_file,
        state_file::{About as _, FileError},
    },
    certificates::pem_of,
};
use crate::model::Time;

/// The file in a folder that keeps a state.
const FILE: &str = "ca.pem";
/// What the authority is called. All are called the same: an authority that is read has to be.
const NAME: &str = "lakh-ca";
/// The name by which clients in the server's own process know it, whatever certificate others are shown;
/// as within kube-apiserver.
pub(super) const LOOPBACK: &str = "apiserver-loopback-client";
/// Whom a certificate of ours is for. The server listens nowhere else.
const SUBJECTS: [&str; 3] = ["127.0.0.1", "localhost", LOOPBACK];
/// How far the clock of somebody who looks at a certificate may be behind.
const SKEW: Duration = Duration::from_secs(3600);
/// As long as the authorities of kubeadm are good for.
const VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

type Wrong = Box<dyn std::error::Error + Send + Sync>;

/// Somebody who signs the server's certificate.
#[derive(Debug)]
pub(super) struct Authority {
    /// Its own certificate, which clients are given.
    pub(super) certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one, which nobody knows yet.
    pub(super) fn make(now: Time) -> Result<Self, Wrong> {
        let (params, key) = (authority(now), KeyPair::generate()?);
        Ok(Self {
            certificate: params.self_signed(&key)?.der().clone(),
            issuer: Issuer::new(params, key),
        })
    }

    /// The one that a folder keeps, or else a new one, which it keeps from now on.
    pub(super) fn keep(folder: &Path, now: Time) -> Result<Self, FileError> {
        let path = folder.join(FILE);
        match fs::read(&path) {
            Ok(text) => Self::read(&text, now).about(&path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = Self::make(now).about(&path)?;
                made.save(&path).about(&path)?;
                Ok(made)
            }
            Err(error) => Err(error).about(&path),
        }
    }

    /// Makes a certificate for the server.
    pub(super) fn sign(&self, now: Time) -> Result<CertifiedKey, Wrong> {
        let mut params = valid_from(now, CertificateParams::new(SUBJECTS.map(str::to_owned))?);
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "lakh");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.der().clone();
        let provider = ring::default_provider();
        Ok(CertifiedKey::from_der(
            vec![certificate],
            PrivateKeyDer::from(key),
            &provider,
        )?)
    }

    /// Reads what [`Self::save`] has written.
    fn read(text: &[u8], now: Time) -> Result<Self, Wrong> {
        let key = PrivateKeyDer::from_pem_slice(text)?;
        let read = Self {
            certificate: CertificateDer::from_pem_slice(text)?,
            issuer: Issuer::new(authority(now), KeyPair::try_from(&key)?),
        };
        read.check(now)?;
        Ok(read)
    }

    /// Makes sure that who knows the certificate believes what is signed. Else no client would, and none
    /// could say why.
    fn check(&self, now: Time) -> Result<(), Wrong> {
        let mut known = RootCertStore::empty();
        known.add(self.certificate.clone())?;
        let provider = Arc::new(ring::default_provider());
        let client =
            WebPkiServerVerifier::builder_with_provider(Arc::new(known), provider).build()?;
        let signed = self.sign(now)?;
        client.verify_server_cert(
            signed.end_entity_cert()?,
            &[],
            &ServerName::try_from(LOOPBACK)?,
            &[],
            UnixTime::since_unix_epoch(since_epoch(now)),
        )?;
        Ok(())
    }

    /// Writes the file that [`Self::read`] reads.
    fn save(&self, path: &Path) -> io::Result<()> {
        let key = pem_of("PRIVATE KEY", self.issuer.key().serialized_der());
        let certificate = pem_of("CERTIFICATE", &self.certificate);
        private_file::replace(path, (key + &certificate).as_bytes())
    }
}

/// The authority's certificate before it is signed.
fn authority(now: Time) -> CertificateParams {
    let mut params = valid_from(now, CertificateParams::default());
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params
}

fn valid_from(now: Time, mut params: CertificateParams) -> CertificateParams {
    let now = date_time_ymd(1970, 1, 1) + since_epoch(now);
    params.not_before = now - SKEW;
    params.not_after = now + VALIDITY;
    params
}

fn since_epoch(now: Time) -> Duration {
    now.since(Time::default())
}
