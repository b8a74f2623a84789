//! Renders the kubeconfig of the embedded cluster.
//!
//! Responsible for: its text. Must not: write files.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Placeholder token for a server that requires none. Over TLS, kubectl without a token prompts for a user name and
/// password.
const ANYBODY: &str = "anybody";

/// Renders a kubeconfig with one cluster and one context, and the certificates and token if given.
pub(super) fn text(url: &str, trusted: Option<&str>, token: Option<&str>) -> String {
    let authority = match trusted {
        Some(pem) => format!("    certificate-authority-data: {}\n", STANDARD.encode(pem)),
        // The JavaScript client accepts an http URL only with certificate verification off.
        None => "    insecure-skip-tls-verify: true\n".to_owned(),
    };
    let token = token.or(trusted.map(|_| ANYBODY));
    let user = match token {
        // JSON, quotes included, is valid YAML.
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
