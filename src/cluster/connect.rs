//! Finds out which cluster is meant, and who we are there: as kubectl does.

use std::path::{Path, PathBuf};

use http::header::{self, HeaderName, HeaderValue};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use super::{Client, transport::Transport};

/// There is no way to the cluster.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read.
    #[error("kubeconfig {path}: {source}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// No kubeconfig was named, and neither a default one nor a service account is there.
    #[error("no kubeconfig and not in a cluster: {0}")]
    NoConfig(#[source] kube::config::InferConfigError),
    /// The settings do not make a client.
    #[error("cluster {url}: {source}")]
    Client {
        /// The API server.
        url: String,
        /// What is wrong.
        #[source]
        source: kube::Error,
    },
    /// The API server does not answer, or not to us.
    #[error("API server {url}: {message}")]
    Unreachable {
        /// The API server.
        url: String,
        /// What happened instead of an answer.
        message: String,
    },
}

/// Connects to the cluster that a kubeconfig names; without one, to that of `KUBECONFIG`,
/// `~/.kube/config` or the Pod's service account, in that order. The server must answer.
pub async fn connect(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Client, ConnectError> {
    check(configure(kubeconfig, context).await?).await
}

/// The same, but the server need not answer yet. What is wrong with files is wrong for good, and told.
pub async fn configure(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Client, ConnectError> {
    let options = KubeConfigOptions {
        context: context.map(Into::into),
        ..Default::default()
    };
    let config = match kubeconfig {
        Some(path) => {
            let failed = |source| ConnectError::Kubeconfig {
                path: path.to_owned(),
                source,
            };
            let file = Kubeconfig::read_from(path).map_err(failed)?;
            Config::from_custom_kubeconfig(file, &options)
                .await
                .map_err(failed)?
        }
        None if context.is_some() => {
            let path = PathBuf::from("of the environment");
            let failed = |source| ConnectError::Kubeconfig { path, source };
            Config::from_kubeconfig(&options).await.map_err(failed)?
        }
        None => Config::infer().await.map_err(ConnectError::NoConfig)?,
    };
    client_of(config)
}

/// Connects to an API server that asks for no credentials, by its URL. Proxies are passed by.
pub async fn connect_url(url: &str) -> Result<Client, ConnectError> {
    connect_url_as(url, None, None).await
}

/// By what a client knows an API server.
#[derive(Clone, Copy, Debug)]
pub struct Trust<'a> {
    /// The certificate of who has signed the server's, in DER.
    pub authority: &'a [u8],
    /// The name that the server's has to be for, whatever the URL says.
    pub server_name: &'a str,
}

/// Connects to an API server that asks for no more than a token, by its URL. Proxies are passed by.
pub async fn connect_url_as(
    url: &str,
    token: Option<&str>,
    trust: Option<Trust<'_>>,
) -> Result<Client, ConnectError> {
    let unreachable = |message: String| ConnectError::Unreachable {
        url: url.to_owned(),
        message,
    };
    let uri: http::Uri = url.parse().map_err(|_| unreachable("not a URL".into()))?;
    let mut config = Config::new(uri);
    if let Some(token) = token {
        let bearer = format!("Bearer {token}").parse();
        let mut bearer: HeaderValue =
            bearer.map_err(|_| unreachable("the token cannot be sent".into()))?;
        bearer.set_sensitive(true);
        config.headers.push((header::AUTHORIZATION, bearer));
    }
    if let Some(trust) = trust {
        config.root_cert = Some(vec![trust.authority.to_owned()]);
        config.tls_server_name = Some(trust.server_name.to_owned());
    }
    check(client_of(config)?).await
}

fn client_of(mut config: Config) -> Result<Client, ConnectError> {
    // Writes are repeated by those who know what repeating means.
    config.default_retry = false;
    config.headers.extend(user_agent());
    let url = config.cluster_url.to_string();
    let transport = Transport::new(&config).map_err(|source| ConnectError::Client {
        url: url.clone(),
        source,
    })?;
    Ok(Client::new(transport, url))
}

async fn check(client: Client) -> Result<Client, ConnectError> {
    match client.get("/version").await {
        Ok(_) => Ok(client),
        Err(error) => Err(ConnectError::Unreachable {
            url: client.url().to_owned(),
            message: error.message,
        }),
    }
}

/// Who is calling, for audit logs and for the managers of objects' fields: the program and its
/// version, as the standard client says it.
fn user_agent() -> Option<(HeaderName, HeaderValue)> {
    let program = PathBuf::from(std::env::args_os().next()?);
    let name = program.file_name()?.to_str()?;
    let agent = format!("{name}/{}", env!("CARGO_PKG_VERSION"));
    Some((header::USER_AGENT, agent.parse().ok()?))
}
