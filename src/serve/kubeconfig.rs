//! The kubeconfig of the embedded cluster.
//!
//! Responsible for: its text. Must not: write files.

/// A kubeconfig with one cluster, one context and this token, if any.
pub(super) fn text(url: &str, token: Option<&str>) -> String {
    let user = match token {
        // JSON is YAML, quotes included.
        Some(token) => serde_json::json!({"token": token}).to_string(),
        None => "{}".to_owned(),
    };
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: lakh\n  cluster:\n    server: {url}\n\
         users:\n\
         - name: lakh\n  user: {user}\n\
         contexts:\n\
         - name: lakh\n  context:\n    cluster: lakh\n    user: lakh\n    namespace: default\n\
         current-context: lakh\n"
    )
}
