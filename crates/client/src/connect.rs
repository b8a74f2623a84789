//! Resolves the cluster and the credentials as kubectl does, and connects to the API server.

use std::path::{Path, PathBuf};

use http::header::{self, HeaderName, HeaderValue};
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedCluster};

use super::{
    Client,
    transport::{Transport, TransportError},
};

/// Error of connecting to the cluster.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read.
    #[error("kubeconfig {}: {}", .path.display(), in_a_line(.source))]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: KubeconfigError,
    },
    /// No kubeconfig was given, and there is neither a default one nor a service account.
    #[error("{0}")]
    NoConfig(String),
    /// No client can be built from the settings.
    #[error("cluster {url}: {source}")]
    Client {
        /// The API server.
        url: String,
        /// The cause.
        #[source]
        source: TransportError,
    },
    /// The API server does not answer, or refuses us.
    #[error("API server {url}: {message}")]
    Unreachable {
        /// The API server.
        url: String,
        /// The error or the refusal.
        message: String,
    },
}

/// Connects to the cluster of a kubeconfig; without one, to that of `KUBECONFIG`, `~/.kube/config` or the Pod's service
/// account, in that order. The server must answer.
pub async fn connect(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Client, ConnectError> {
    check(configure(kubeconfig, context).await?).await
}

/// Does the same, but the server need not answer yet. Errors in files are permanent, and returned.
pub async fn configure(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Client, ConnectError> {
    let options = KubeConfigOptions {
        context: context.map(Into::into),
        ..Default::default()
    };
    let (config, file) = match kubeconfig {
        None if context.is_none() => {
            let Ok(config) = Config::infer().await else {
                return Err(ConnectError::NoConfig(looked_for().await));
            };
            // If there is none, the configuration names the service account's files.
            (config, Kubeconfig::read().ok())
        }
        path => {
            let path = path.map_or_else(|| PathBuf::from("of the environment"), Path::to_owned);
            let failed = |source| ConnectError::Kubeconfig {
                path: path.clone(),
                source,
            };
            let file = match kubeconfig {
                Some(path) => Kubeconfig::read_from(path),
                None => Kubeconfig::read(),
            };
            let file = file.map_err(failed)?;
            let config = Config::from_custom_kubeconfig(file.clone(), &options).await;
            (config.map_err(failed)?, Some(file))
        }
    };
    let named = file.as_ref().and_then(|file| cluster_of(file, context));
    let authority = named.and_then(authority_of);
    // A service account's configuration comes from no file, and its cluster has no name.
    let is_of_file = |named: &&NamedCluster| {
        let url = named.cluster.as_ref().and_then(|it| it.server.as_deref());
        url.and_then(|url| url.parse::<http::Uri>().ok()).as_ref() == Some(&config.cluster_url)
    };
    let name = named.filter(is_of_file).map(|it| it.name.clone());
    Ok(client_of(config, authority)?.with_cluster_name(name))
}

/// Returns the places that were searched for a kubeconfig, with the error found there.
async fn looked_for() -> String {
    let wrong = match Kubeconfig::read() {
        Ok(file) => {
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(file, &options).await.err()
        }
        Err(error) => Some(error),
    };
    let wrong = wrong.map_or_else(
        || "it names no cluster that can be used".to_owned(),
        |error| in_a_line(&error),
    );
    let named = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty());
    if let Some(paths) = named {
        let mut files = std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty());
        let wrong = match files.any(|path| path.exists()) {
            true => wrong,
            false => "there is no such file".to_owned(),
        };
        return format!("kubeconfig {} (of KUBECONFIG): {wrong}", paths.display());
    }
    let home = std::env::home_dir().unwrap_or_default();
    let usual = home.join(".kube/config");
    match usual.exists() {
        true => format!("kubeconfig {}: {wrong}", usual.display()),
        false => format!(
            "no cluster is configured: KUBECONFIG is not set, {} does not exist, and this process does not run in a Pod",
            usual.display()
        ),
    }
}

/// Returns an error of a kubeconfig in one line, without the parser's excerpt.
fn in_a_line(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(why, _) => why.to_string(),
        KubeconfigError::CurrentContextNotSet => "it has no current-context".to_owned(),
        KubeconfigError::LoadContext(name) => format!("it has no context {name:?}"),
        KubeconfigError::LoadClusterOfContext(name) => format!("it has no cluster {name:?}"),
        KubeconfigError::Parse(why) => {
            let why = why.to_string();
            format!(
                "it is no kubeconfig: {}",
                why.lines().next().unwrap_or_default()
            )
        }
        other => other
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
    }
}

/// The cluster of a context; without one, of the current context.
fn cluster_of<'a>(file: &'a Kubeconfig, context: Option<&str>) -> Option<&'a NamedCluster> {
    let name = context.or(file.current_context.as_deref())?;
    let context = file.contexts.iter().find(|it| it.name == name)?;
    let name = &context.context.as_ref()?.cluster;
    file.clusters.iter().find(|it| it.name == *name)
}

/// The file with the certificates to believe, if a cluster names one.
fn authority_of(cluster: &NamedCluster) -> Option<PathBuf> {
    let cluster = cluster.cluster.as_ref()?;
    // Data in the kubeconfig itself come first.
    let path = cluster.certificate_authority.as_ref();
    path.filter(|_| cluster.certificate_authority_data.is_none())
        .map(PathBuf::from)
}

/// Connects to an API server that needs no credentials, by its URL. Proxies are bypassed.
pub async fn connect_url(url: &str) -> Result<Client, ConnectError> {
    connect_url_as(url, None, None).await
}

/// Configures a client of a server that needs no credentials, by its URL; it need not answer yet. Proxies are bypassed.
pub fn configure_url(url: &str) -> Result<Client, ConnectError> {
    configure_url_as(url, None, None)
}

/// Trust anchor for an API server's certificate.
#[derive(Clone, Copy, Debug)]
pub struct Trust<'a> {
    /// Certificate of the authority that signed the server's, in DER.
    pub authority: &'a [u8],
    /// The name that the server's certificate must be for, whatever the URL says.
    pub server_name: &'a str,
}

/// Connects to an API server that needs at most a token, by its URL. Proxies are bypassed.
pub async fn connect_url_as(
    url: &str,
    token: Option<&str>,
    trust: Option<Trust<'_>>,
) -> Result<Client, ConnectError> {
    check(configure_url_as(url, token, trust)?).await
}

fn configure_url_as(
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
        let mut bearer: HeaderValue = bearer
            .map_err(|_| unreachable("the token has characters that cannot be sent".into()))?;
        bearer.set_sensitive(true);
        config.headers.push((header::AUTHORIZATION, bearer));
    }
    if let Some(trust) = trust {
        config.root_cert = Some(vec![trust.authority.to_owned()]);
        config.tls_server_name = Some(trust.server_name.to_owned());
    }
    client_of(config, None)
}

fn client_of(mut config: Config, authority: Option<PathBuf>) -> Result<Client, ConnectError> {
    config.headers.extend(user_agent());
    let url = config.cluster_url.to_string();
    let namespace = config.default_namespace.clone();
    let transport = Transport::new(config, authority).map_err(|source| ConnectError::Client {
        url: url.clone(),
        source,
    })?;
    Ok(Client::new(transport, url, &namespace))
}

/// Returns a client whose connections are streams within the process, as to a server under test.
pub fn configure_streams(
    open: impl Fn() -> std::io::Result<tokio::io::DuplexStream> + Clone + Send + Sync + 'static,
) -> Client {
    use super::dial::Io;

    let url = http::Uri::from_static("http://cluster.example");
    let transport = Transport::new(Config::new(url.clone()), None).expect("a good configuration");
    transport.dial_by(tower::util::BoxCloneSyncService::new(tower::service_fn(
        move |_: http::Uri| {
            let opened = open();
            std::future::ready(match opened {
                Ok(stream) => Ok(Box::new(hyper_util::rt::TokioIo::new(stream)) as Io),
                Err(error) => Err(TransportError::from(error)),
            })
        },
    )));
    Client::new(transport, url.to_string(), "default")
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

/// Returns the `User-Agent` header, for audit logs and for the managers of objects' fields: program and version, in
/// client-go's form.
fn user_agent() -> Option<(HeaderName, HeaderValue)> {
    let program = PathBuf::from(std::env::args_os().next()?);
    let name = program.file_name()?.to_str()?;
    let agent = format!("{name}/{}", env!("CARGO_PKG_VERSION"));
    Some((header::USER_AGENT, agent.parse().ok()?))
}
