//! Defines the flags that serve the page at `/ui` to clients on other machines.
//!
//! Must not: open anything.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use crate::runtime::{CertificateFiles, UiOptions};

use super::Problem;

/// Flags that serve /ui to clients with a bearer token. Clients on this machine need no flag.
#[derive(Args, Debug)]
#[command(next_help_heading = "Page for remote clients")]
pub(super) struct UiArgs {
    /// Also serve the page /ui at this address, to clients with a bearer token that the API server accepts. Each user
    /// sees the namespaces whose Jobs that user may list (docs/ui.md). lakh needs the right to create tokenreviews and
    /// subjectaccessreviews.
    #[arg(long, value_name = "ADDRESS")]
    ui_listen: Option<SocketAddr>,
    /// TLS certificate for --ui-listen, in PEM, followed by intermediate certificates, if any. It is reloaded when the
    /// file changes.
    #[arg(
        long,
        value_name = "FILE",
        requires = "ui_listen",
        requires = "ui_tls_private_key_file",
        conflicts_with = "ui_plain_http"
    )]
    ui_tls_cert_file: Option<PathBuf>,
    /// Private key of that certificate, in PEM.
    #[arg(
        long,
        value_name = "FILE",
        requires = "ui_listen",
        requires = "ui_tls_cert_file"
    )]
    ui_tls_private_key_file: Option<PathBuf>,
    /// Serve --ui-listen over plain HTTP, for a proxy or an Ingress in front of it that terminates TLS.
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
            let why = "--ui-listen receives tokens, which must not cross the network in plain text: set --ui-tls-cert-file and \
                       --ui-tls-private-key-file, or --ui-plain-http if a proxy in front of it terminates TLS";
            return Err(why.into());
        }
        Ok(Some(UiOptions {
            listen,
            certificate,
        }))
    }
}
