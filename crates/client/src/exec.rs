//! Runs a kubeconfig's exec plug-in to get credentials, as client-go does.
//!
//! Must not: keep credentials, or decide when to run.

use std::{
    env,
    io::{self, IsTerminal as _},
    path::{MAIN_SEPARATOR, Path},
    process::{Command, Stdio},
    time::Duration,
};

use kube::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;

use lakh_clock::Clock;
use lakh_model::Time;

/// Maximum number of characters of a plug-in's error output in our error.
const COMPLAINT_MAX: usize = 500;

/// A credential plug-in of a kubeconfig.
#[derive(Clone, Debug)]
#[doc(alias = "Authenticator")]
pub(super) struct Plugin(ExecConfig);

/// The credential that a plug-in returned.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ExecCredential {
    pub(super) token: Option<String>,
    /// Certificate and key, in PEM.
    pub(super) identity: Option<(String, String)>,
    /// Remaining lifetime, if the plug-in sets an expiry.
    pub(super) lasts: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[doc(alias = "ExecCredential")]
struct RawExecCredential {
    api_version: String,
    status: Option<RawExecCredentialStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawExecCredentialStatus {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

impl Plugin {
    pub(super) fn new(config: ExecConfig) -> Self {
        Self(config)
    }

    /// Returns the permanent problem of the plug-in, if it has one.
    pub(super) fn problem(&self) -> Option<String> {
        let command = self.command();
        let is_file = |path: &Path| path.is_file();
        let is_there = if command.contains(MAIN_SEPARATOR) {
            is_file(Path::new(command))
        } else {
            let folders = env::var_os("PATH").unwrap_or_default();
            env::split_paths(&folders).any(|folder| is_file(&folder.join(command)))
        };
        if is_there {
            return None;
        }
        let hint = self.0.install_hint.as_deref().unwrap_or_default();
        let missing = format!("exec plug-in {command:?}: program not found. {hint}");
        Some(missing.trim_end().to_owned())
    }

    fn command(&self) -> &str {
        self.0.command.as_deref().unwrap_or_default()
    }

    /// Runs the plug-in and blocks this thread until it returns.
    pub(super) fn ask(&self) -> Result<ExecCredential, String> {
        let failed = |why: String| format!("exec plug-in {:?}: {why}", self.command());
        let output = self.prepared().and_then(|mut command| command.output());
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said: String = said.trim().chars().take(COMPLAINT_MAX).collect();
            return Err(failed(format!("{}: {said}", output.status)));
        }
        let now = Clock::default().now().wall;
        let text = String::from_utf8_lossy(&output.stdout);
        read(&text, self.0.api_version.as_deref(), now).map_err(failed)
    }

    fn prepared(&self) -> io::Result<Command> {
        let interactive = match self.0.interactive_mode {
            Some(ExecInteractiveMode::Never) => false,
            _ => io::stdin().is_terminal(),
        };
        if !interactive && self.0.interactive_mode == Some(ExecInteractiveMode::Always) {
            return Err(io::Error::other("it needs a terminal, and there is none"));
        }
        let mut spec = json!({"interactive": interactive});
        let cluster = self.0.cluster.as_ref();
        if let Some(cluster) = cluster.filter(|_| self.0.provide_cluster_info) {
            spec["cluster"] = serde_json::to_value(cluster)?;
        }
        let version = self.0.api_version.as_deref();
        let info = json!({"apiVersion": version, "kind": "ExecCredential", "spec": spec});
        let mut command = Command::new(self.command());
        command.args(self.0.args.iter().flatten());
        let variables = self.0.env.iter().flatten();
        command.envs(variables.filter_map(|it| it.get("name").zip(it.get("value"))));
        command.env("KUBERNETES_EXEC_INFO", info.to_string());
        command.stdout(Stdio::piped());
        if interactive {
            command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
        } else {
            command.stdin(Stdio::null()).stderr(Stdio::piped());
        }
        Ok(command)
    }
}

/// Parses an answer, in JSON or, as some plug-ins print it, in YAML.
fn read(text: &str, version: Option<&str>, now: Time) -> Result<ExecCredential, String> {
    let odd = |error: &dyn std::fmt::Display| format!("its output is invalid: {error}");
    let answer: RawExecCredential = serde_saphyr::from_str(text).map_err(|error| odd(&error))?;
    if version.is_some_and(|version| version != answer.api_version) {
        let expected = version.unwrap_or_default();
        return Err(format!(
            "it returned apiVersion {}, but the kubeconfig requires {expected}",
            answer.api_version
        ));
    }
    let status = answer.status.unwrap_or_default();
    let identity = match (status.client_certificate_data, status.client_key_data) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            return Err(
                "it returned a certificate without a key, or a key without a certificate"
                    .to_owned(),
            );
        }
    };
    let token = status.token.map(|token| token.trim().to_owned());
    let token = token.filter(|token| !token.is_empty());
    if token.is_none() && identity.is_none() {
        return Err("it returned neither a token nor a certificate".to_owned());
    }
    let end = status.expiration_timestamp.as_deref();
    let end = end.map(|text| Time::parse_rfc3339(text).ok_or_else(|| odd(&text)));
    let lasts = end.transpose()?.map(|end| end.since(now));
    Ok(ExecCredential {
        token,
        identity,
        lasts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "client.authentication.k8s.io/v1";

    fn answer(status: &str) -> Result<ExecCredential, String> {
        let text = format!(r#"{{"kind":"ExecCredential","apiVersion":"{V1}","status":{status}}}"#);
        read(&text, Some(V1), Time::from_secs(1_000_000_000))
    }

    #[test]
    fn a_token_and_a_certificate_are_taken_with_their_end() {
        let credential = answer(
            r#"{"token":"a\n","clientCertificateData":"b","clientKeyData":"c",
                "expirationTimestamp":"2001-09-09T01:47:40Z"}"#,
        );
        let identity = Some(("b".to_owned(), "c".to_owned()));
        let lasts = Some(Duration::from_secs(60));
        let token = Some("a".to_owned());
        assert_eq!(
            credential,
            Ok(ExecCredential {
                token,
                identity,
                lasts
            })
        );
    }

    #[test]
    fn useless_plugin_output_is_reported() {
        for (status, why) in [
            ("{}", "neither a token nor"),
            ("null", "neither a token nor"),
            (r#"{"token":""}"#, "neither a token nor"),
            (
                r#"{"token":"a","clientKeyData":"b"}"#,
                "a key without a certificate",
            ),
            (r#"{"token":"a","expirationTimestamp":"soon"}"#, "soon"),
        ] {
            let said = answer(status).expect_err("it is of no use");
            assert!(said.contains(why), "{said}");
        }
        let said = read("{apiVersion: v2}", Some("v1"), Time::from_secs(0));
        assert!(said.is_err_and(|said| said.contains("apiVersion v2")));
        assert!(read("error: no", Some("v1"), Time::from_secs(0)).is_err());
    }
}
