//! Configures a client for commands, and adds remedies to connection errors.

use std::path::Path;

use lakh_client::{self, Client};
use lakh_wire::ApiError;

use super::Problem;

/// Remedy if no kubeconfig can be used.
const NAME_ONE: &str = "select a cluster with --kubeconfig FILE or export KUBECONFIG=FILE, or start one with lakh local";

/// Status code of refused credentials.
const UNAUTHORIZED: u16 = 401;

/// Returns a client for the selected cluster; the cluster need not answer yet.
pub async fn configure(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Client, Problem> {
    let configured = lakh_client::configure(kubeconfig, context).await;
    configured.map_err(|error| format!("{error}; {NAME_ONE}").into())
}

/// Remedy if the API server does not know the credentials.
pub(crate) const RENEW: &str = "the API server does not accept these credentials; they may have expired. Log in again, renew the token, \
     or select another kubeconfig (export KUBECONFIG=FILE, --kubeconfig, --context)";

/// Returns an error of the API server in one line, with a remedy if one is known.
pub fn server_problem(url: &str, error: &ApiError) -> String {
    let told = format!("API server {url}: {error}");
    let is_here = ["//127.0.0.1", "//localhost", "//[::1]"];
    let is_here = is_here.iter().any(|host| url.contains(host));
    match error.code {
        UNAUTHORIZED => format!("{told}; {RENEW}"),
        0 if is_here && error.message.contains("refused") => format!(
            "{told}; nothing listens at this address: the kubeconfig may be that of a lakh local that has exited; \
             {NAME_ONE}"
        ),
        _ => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_a_remedy_on_one_line() {
        let refused = ApiError::no_answer("Connection refused (os error 111)");
        let said = server_problem("http://127.0.0.1:4711/", &refused);
        assert!(said.contains("start one with lakh local"), "{said}");
        let said = server_problem("https://10.0.0.1:6443/", &refused);
        assert_eq!(
            said,
            "API server https://10.0.0.1:6443/: Connection refused (os error 111)"
        );
        let body = br#"{"message":"Unauthorized","reason":"Unauthorized","code":401}"#;
        let unknown = ApiError::from_response(401, body, None);
        let said = server_problem("https://10.0.0.1:6443/", &unknown);
        assert!(
            said.contains("Unauthorized; the API server does not accept"),
            "{said}"
        );
        assert!(!said.contains('\n'), "{said}");
    }
}
