//! Provides the server's own certificate authority, which signs its certificate if none is given.
//!
//! Responsible for: creating it, keeping it, signing. Must not: know which client gets which certificate.
//!
//! With a state folder, one file keeps its key and certificate. The server certificate is new at each start, so only
//! that file has to outlive the kubeconfigs that trust it.

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

/// File name in the state folder.
const FILE: &str = "ca.pem";
/// Common name of every authority. It must be constant: reading an authority rebuilds its issuer name from this.
const NAME: &str = "lakh-ca";
/// Server name that clients in the server's own process use, whatever certificate other clients get; as within
/// kube-apiserver.
pub(super) const LOOPBACK: &str = "apiserver-loopback-client";
/// Subject names of the server's certificate. The server listens nowhere else.
const SUBJECTS: [&str; 3] = ["127.0.0.1", "localhost", LOOPBACK];
/// Tolerated lag of a client's clock.
const SKEW: Duration = Duration::from_secs(3600);
/// Validity; the same as for kubeadm's authorities.
const VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

type Wrong = Box<dyn std::error::Error + Send + Sync>;

/// A certificate authority that signs the server's certificate.
#[derive(Debug)]
pub(super) struct Authority {
    /// Its own certificate, for clients to trust.
    pub(super) certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates a new authority.
    pub(super) fn make(now: Time) -> Result<Self, Wrong> {
        let (params, key) = (authority(now), KeyPair::generate()?);
        Ok(Self {
            certificate: params.self_signed(&key)?.der().clone(),
            issuer: Issuer::new(params, key),
        })
    }

    /// Reads the authority from a folder, or creates it and saves it there.
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

    /// Signs a new certificate for the server.
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

    /// Reads the file that [`Self::save`] writes.
    fn read(text: &[u8], now: Time) -> Result<Self, Wrong> {
        let key = PrivateKeyDer::from_pem_slice(text)?;
        let read = Self {
            certificate: CertificateDer::from_pem_slice(text)?,
            issuer: Issuer::new(authority(now), KeyPair::try_from(&key)?),
        };
        read.check(now)?;
        Ok(read)
    }

    /// Verifies that a client with this authority's certificate accepts a signed one. Otherwise all clients would fail
    /// without a clear reason.
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

/// Returns the authority's certificate before it is signed.
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
