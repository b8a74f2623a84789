//! Defines the flags that serve the page at `/ui` to clients on other machines.
//!
//! Must not: open anything.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use crate::runtime::{CertificateFiles, UiOptions};

use super::Problem;

/// The page /ui is for who asks from this machine. By these flags it is also for who brings a token.
#[derive(Args, Debug)]
#[command(next_help_heading = "The page for others")]
pub(super) struct UiArgs {
    /// Show the page /ui at this address, too, to everybody who brings a bearer token that the API server knows: of each
    /// namespace what that user may list (docs/ui.md). lakh needs the rights to create tokenreviews and
    /// subjectaccessreviews.
    #[arg(long, value_name = "ADDRESS")]
    ui_listen: Option<SocketAddr>,
    /// Certificate of that address, in PEM, and after it those who have signed it, if any. It is read again when it changes.
    #[arg(
        long,
        value_name = "FILE",
        requires = "ui_listen",
        requires = "ui_tls_private_key_file",
        conflicts_with = "ui_plain_http"
    )]
    ui_tls_cert_file: Option<PathBuf>,
    /// Its private key, in PEM.
    #[arg(
        long,
        value_name = "FILE",
        requires = "ui_listen",
        requires = "ui_tls_cert_file"
    )]
    ui_tls_private_key_file: Option<PathBuf>,
    /// Take tokens at that address over plain HTTP: for a proxy or an Ingress in front of it, which has TLS.
    #[arg(long, requires = "ui_listen")]
    ui_plain_http: bool,
}

impl UiArgs {
    /// Returns the options of the page for other machines, if it is enabled.
    pub(super) fn options(self) -> Result<Option<UiOptions>, Problem> {
        let Some(listen) = self.ui_listen else {
            return Ok(None);
        };
        let files = self.ui_tls_cert_file.zip(self.ui_tls_private_key_file);
        let certificate = files.map(|(certificate, key)| CertificateFiles { certificate, key });
        if certificate.is_none() && !self.ui_plain_http {
            let why = "--ui-listen takes tokens, which must not go over the network in plain text: give \
                       --ui-tls-cert-file and --ui-tls-private-key-file, or --ui-plain-http if what is in front of it has \
                       TLS";
            return Err(why.into());
        }
        Ok(Some(UiOptions {
            listen,
            certificate,
        }))
    }
}
