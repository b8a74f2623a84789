//! Sends HTTP requests to an API server: connections by hyper, TLS by kube.
//!
//! kube's own client wraps each call in a queue with a task of its own, a log span and a pool for many servers. A big
//! Job is many small calls to one server, so this does only the necessary part. `docs/wire.md` gives the reasons for
//! HTTP/1.1.
//!
//! Must not: repeat a call that may have taken effect, or know the content of requests. A call that was refused for its
//! credentials (401) has not taken effect: it is repeated once if there are other credentials by then.

use std::{error::Error, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use kube::{Config, client::ConfigExt as _};
use tokio::time::sleep;
use tower::{Layer as _, ServiceExt as _, service_fn, util::BoxCloneSyncService};

use lakh_wire::Call;

use super::{
    budget::{Budget, is_out_of_descriptors},
    coalesced_io::Sockets,
    connection::{Body, Connection, DrivenBody, Failure},
    credentials::{Credentials, Current, Why, at_once, headers_of},
    dial::{Io, is_of_tls},
    pool::Pool,
};

/// An error below HTTP.
pub(super) type TransportError = Box<dyn Error + Send + Sync>;

/// Pause before the next dial when the system has no descriptor left.
const DESCRIPTOR_PAUSE: Duration = Duration::from_millis(50);

/// A service that answers with the headers for a request.
type Headers = BoxCloneSyncService<Request<Body>, Response<()>, TransportError>;

/// The connections to one server, with credentials; clones share them.
#[derive(Clone)]
pub(super) struct Transport(Arc<Shared>);

#[derive(Clone)]
struct Shared {
    server: Uri,
    /// Path of the server's URL, put before the path of each request.
    prefix: String,
    credentials: Arc<Credentials>,
    /// Headers of kube's auth provider, if the kubeconfig still has one.
    provider: Option<Headers>,
    pool: Arc<Pool>,
    /// Limits all connections, also those of other pools.
    budget: Arc<Budget>,
    /// The set that new sockets join; none for the runtime's.
    sockets: Option<Sockets>,
}

impl Transport {
    /// Creates a transport to the server of a configuration; `authority` is a file with trusted certificates.
    pub(super) fn new(config: Config, authority: Option<PathBuf>) -> Result<Self, TransportError> {
        let server = config.cluster_url.clone();
        let provider = match config.auth_info.auth_provider {
            Some(_) => config.auth_layer()?,
            None => None,
        };
        let provider =
            provider.map(|layer| BoxCloneSyncService::new(layer.layer(service_fn(headers_of))));
        let caller = config.extra_headers_layer()?.layer(service_fn(headers_of));
        // With capacity for the headers that each request adds.
        let mut headers = HeaderMap::with_capacity(16);
        headers.extend(at_once(caller));
        headers.insert(header::HOST, host(&server));
        let (budget, pool) = (Budget::of_process(), Pool::new());
        budget.add(&pool);
        Ok(Self(Arc::new(Shared {
            prefix: server.path().trim_end_matches('/').to_owned(),
            server,
            credentials: Arc::new(Credentials::new(config, authority, headers)?),
            provider,
            pool,
            budget,
            sockets: None,
        })))
    }

    /// Has connections opened by another service.
    pub(super) fn dial_by(&self, dial: super::dial::Dial) {
        self.0.credentials.dial_by(dial);
    }

    /// Returns the same transport with connections of its own, on these sockets if some are given.
    pub(super) fn with_own_connections(&self, sockets: Option<Sockets>) -> Self {
        let pool = Pool::new();
        self.0.budget.add(&pool);
        Self(Arc::new(Shared {
            pool,
            sockets,
            ..Shared::clone(&self.0)
        }))
    }

    /// Makes a call and reads the whole answer.
    pub(super) async fn send(&self, call: &Call) -> Result<Response<Bytes>, TransportError> {
        let shared = &*self.0;
        let current = shared.credentials.current().await?;
        let answer = shared.send_as(&current, call).await?;
        match shared.instead_of(&current, answer.status()).await {
            Some(other) => Box::pin(shared.send_as(&other, call)).await,
            None => Ok(answer),
        }
    }

    /// Makes a call and streams its answer, on a connection of its own.
    pub(super) async fn open(
        &self,
        call: &Call,
    ) -> Result<Response<DrivenBody<Io>>, TransportError> {
        let shared = &*self.0;
        let current = shared.credentials.current().await?;
        let answer = shared.open_as(&current, call).await?;
        match shared.instead_of(&current, answer.status()).await {
            Some(other) => shared.open_as(&other, call).await,
            None => Ok(answer),
        }
    }
}

impl Shared {
    /// Returns other credentials if the server refused these.
    async fn instead_of(&self, used: &Arc<Current>, status: StatusCode) -> Option<Arc<Current>> {
        if status != StatusCode::UNAUTHORIZED {
            return None;
        }
        // Boxed: it is large, and few calls need it.
        Box::pin(self.credentials.instead_of(used, Why::Unauthorized)).await
    }

    async fn send_as(
        &self,
        current: &Arc<Current>,
        call: &Call,
    ) -> Result<Response<Bytes>, TransportError> {
        let mut request = self.request(current, call).await?;
        let _slot = self.budget.slot().await?;
        loop {
            let idle = self.pool.take(current.tls);
            let is_new = idle.is_none();
            let (connection, tls) = match idle {
                Some(connection) => (connection, current.tls),
                // Boxed: it is large, and few calls need it.
                None => Box::pin(self.connect(current)).await?,
            };
            match connection.send(request, call.answer_max).await {
                Ok((answer, connection)) => {
                    if let Some(connection) = connection {
                        self.pool.keep(connection, tls);
                    }
                    return Ok(answer);
                }
                Err(Failure::Closed(again, _)) if !is_new => request = *again,
                Err(Failure::Closed(_, error) | Failure::Lost(error)) => {
                    return Err(Box::pin(self.lost(current, error)).await);
                }
            }
        }
    }

    async fn open_as(
        &self,
        current: &Arc<Current>,
        call: &Call,
    ) -> Result<Response<DrivenBody<Io>>, TransportError> {
        let request = self.request(current, call).await?;
        let slot = self.budget.slot().await?;
        let (connection, _) = self.connect(current).await?;
        match connection.open(request, slot).await {
            Ok(answer) => Ok(answer),
            Err(Failure::Closed(_, error) | Failure::Lost(error)) => {
                Err(self.lost(current, error).await)
            }
        }
    }

    async fn request(
        &self,
        current: &Arc<Current>,
        call: &Call,
    ) -> Result<Request<Body>, TransportError> {
        let uri = match self.prefix.as_str() {
            "" => Uri::try_from(call.path.as_str())?,
            prefix => Uri::try_from(format!("{prefix}{}", call.path))?,
        };
        let mut request = Request::new(Body::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.clone_from(&current.headers);
        headers.insert(header::ACCEPT, HeaderValue::from_static(call.accept));
        if let Some(kind) = call.content_type {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        if let Some(provider) = &self.provider {
            let given = provider.clone().oneshot(Request::default()).await?;
            headers.extend(given.into_parts().0.headers);
        }
        Ok(request)
    }

    /// Opens a connection; returns it with the number of the certificates that it was opened with.
    async fn connect(
        &self,
        current: &Arc<Current>,
    ) -> Result<(Connection<Io>, u64), TransportError> {
        let dial = async |current: &Current| {
            let dialed = current.dial.clone().oneshot(self.server.clone());
            match &self.sockets {
                Some(sockets) => sockets.scope(dialed).await,
                None => dialed.await,
            }
        };
        let guard = self.budget.open();
        let error = loop {
            match dial(current).await {
                Ok(io) => return Ok((Connection::new(io, guard).await?, current.tls)),
                // Other files take the descriptors that the budget left for connections. The call waits and does not
                // fail.
                Err(error) if is_out_of_descriptors(&error) => {
                    self.budget.close_idle();
                    sleep(DESCRIPTOR_PAUSE).await;
                }
                Err(error) => break error,
            }
        };
        if !is_of_tls(&error) {
            return Err(error);
        }
        match self.credentials.instead_of(current, Why::Handshake).await {
            Some(other) => {
                let io = dial(&other).await?;
                Ok((Connection::new(io, guard).await?, other.tls))
            }
            None => Err(error),
        }
    }

    /// Handles a lost connection. If certificates were the reason, new ones are loaded; a server may refuse a client's
    /// only after the handshake.
    async fn lost(&self, used: &Arc<Current>, error: TransportError) -> TransportError {
        if is_of_tls(&error) {
            self.credentials.instead_of(used, Why::Handshake).await;
        }
        error
    }
}

/// Returns the value of the `Host` header, without the port if it is the default one.
fn host(server: &Uri) -> HeaderValue {
    let usual = match server.scheme_str() {
        Some("https") => 443,
        _ => 80,
    };
    let host = server.host().unwrap_or_default();
    let named = match server.port_u16().filter(|port| *port != usual) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    // Any host of a URI is a valid header value.
    HeaderValue::try_from(named).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a connection to a server that answers one call, and closes it this long afterwards.
    fn answering_once(closes_after: Duration) -> tokio::io::DuplexStream {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

        let (near, mut far) = duplex(1_024);
        tokio::spawn(async move {
            let _ = far.read(&mut [0; 1_024]).await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
            let _ = far.write_all(answer).await;
            sleep(closes_after).await;
        });
        near
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_does_not_fail_because_its_idle_connection_was_closed() {
        const OPEN: Duration = Duration::from_secs(1);
        let client = super::super::configure_streams(|| Ok(answering_once(OPEN)));
        for _ in 0..2 {
            let answer = client.get("/version").await;
            assert_eq!(answer.expect("an answer"), "{}");
            // The next call comes after the close, and before the pool's sweep.
            sleep(OPEN * 3 / 2).await;
        }
    }

    /// A call waits while the system has no descriptor for its connection, and goes as soon as there is one.
    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_a_descriptor() {
        use tokio::time::Instant;

        const SHORT: Duration = Duration::from_secs(2);
        let begun = Instant::now();
        let client = super::super::configure_streams(move || {
            if begun.elapsed() < SHORT {
                return Err(rustix::io::Errno::MFILE.into());
            }
            Ok(answering_once(Duration::ZERO))
        });
        let answer = client.get("/version").await;
        assert_eq!(answer.expect("an answer"), "{}");
        let took = begun.elapsed();
        assert!(
            took >= SHORT && took < SHORT + 2 * DESCRIPTOR_PAUSE,
            "{took:?}"
        );
    }

    #[test]
    fn the_usual_port_is_not_named() {
        let host = |uri: &'static str| host(&Uri::from_static(uri));
        assert_eq!(host("https://a.example:443/k8s"), "a.example");
        assert_eq!(host("https://a.example:6443"), "a.example:6443");
        assert_eq!(host("http://127.0.0.1:80"), "127.0.0.1");
        assert_eq!(host("http://[::1]:8080"), "[::1]:8080");
    }
}
