//! The kubeconfig of the embedded cluster.
//!
//! Responsible for: its text. Must not: write files.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The token where none is asked for. Over TLS kubectl wants one: else it asks its user for a name and a
/// password.
const ANYBODY: &str = "anybody";

/// A kubeconfig with one cluster, one context, and these certificates and this token, if any.
pub(super) fn text(url: &str, trusted: Option<&str>, token: Option<&str>) -> String {
    let authority = match trusted {
        Some(pem) => format!("    certificate-authority-data: {}\n", STANDARD.encode(pem)),
        // The JavaScript client calls an http server only if it is not to verify a certificate.
        None => "    insecure-skip-tls-verify: true\n".to_owned(),
    };
    let token = token.or(trusted.map(|_| ANYBODY));
    let user = match token {
        // JSON is YAML, quotes included.
        Some(token) => serde_json::json!({"token": token}).to_string(),
        None => "{}".to_owned(),
    };
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: lakh\n  cluster:\n    server: {url}\n{authority}\
         users:\n\
         - name: lakh\n  user: {user}\n\
         contexts:\n\
         - name: lakh\n  context:\n    cluster: lakh\n    user: lakh\n    namespace: default\n\
         current-context: lakh\n"
    )
}
