//! The way to an API server without a proxy: connections by hyper, TLS and credentials by kube.
//!
//! Idle connections are kept, and the one that was used last is used first: the others may grow old
//! enough to be closed.
//!
//! Must not: repeat a call that may have been heard, or know what is sent.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, Request, Response, Uri, header};
use hyper::{
    body::Incoming,
    rt::{Read, Write},
};
use hyper_util::client::legacy::connect::HttpConnector;
use kube::{Config, client::ConfigExt as _, config::AuthInfo};
use parking_lot::Mutex;
use tower::{Layer as _, Service, ServiceExt as _, service_fn, util::BoxCloneSyncService};

use crate::clock::instant;

use super::{
    line::{Body, Failure, Line},
    transport::{Call, TransportError},
};

/// A connection that nobody has used for so long is closed: servers, and what stands between, do so
/// after longer.
const IDLE: Duration = Duration::from_secs(50);

trait Stream: Read + Write + Unpin + Send {}

impl<T: Read + Write + Unpin + Send> Stream for T {}

type Io = Box<dyn Stream>;

/// See the module's text.
pub(super) struct Direct {
    connect: BoxCloneSyncService<Uri, Io, TransportError>,
    server: Uri,
    /// What stands before the path of each request.
    prefix: String,
    /// What each request has.
    headers: HeaderMap,
    /// Gives headers that change from time to time.
    credentials: Option<Headers>,
    idle: Mutex<VecDeque<Idle>>,
}

/// Answers with the headers that a request is to have.
type Headers = BoxCloneSyncService<Request<Body>, Response<()>, TransportError>;

struct Idle {
    line: Line<Io>,
    since: Instant,
}

impl Direct {
    /// The way to the server that a configuration means.
    pub(super) fn new(config: &Config) -> kube::Result<Self> {
        let mut tcp = HttpConnector::new();
        // TLS around it is for others to ask for.
        tcp.enforce_http(false);
        tcp.set_connect_timeout(config.connect_timeout);
        // What is written is a whole message each time: nothing is gained by waiting for more.
        tcp.set_nodelay(true);
        let tls = config.rustls_https_connector_with_connector(tcp)?;
        let connect = tls.map_response(|io| -> Io { Box::new(io) });
        let server = config.cluster_url.clone();
        let caller = config.extra_headers_layer()?.layer(service_fn(headers_of));
        // With room for what each request adds.
        let mut headers = HeaderMap::with_capacity(16);
        headers.extend(at_once(caller));
        headers.insert(header::HOST, host(&server));
        let layer = config.auth_layer()?;
        let mut credentials: Option<Headers> =
            layer.map(|layer| BoxCloneSyncService::new(layer.layer(service_fn(headers_of))));
        if has_fixed_credentials(&config.auth_info) {
            headers.extend(credentials.take().map(at_once).unwrap_or_default());
        }
        Ok(Self {
            connect: BoxCloneSyncService::new(connect),
            prefix: server.path().trim_end_matches('/').to_owned(),
            server,
            headers,
            credentials,
            idle: Mutex::default(),
        })
    }

    /// Makes a call.
    pub(super) async fn ask(&self, call: Call<'_>) -> Result<Response<Bytes>, TransportError> {
        let mut request = self.request(call).await?;
        loop {
            let idle = self.take_idle();
            let is_new = idle.is_none();
            let line = match idle {
                Some(line) => line,
                None => self.connect().await?,
            };
            match line.ask(request).await {
                Ok((answer, line)) => {
                    if let Some(line) = line {
                        self.keep(line);
                    }
                    return Ok(answer);
                }
                Err(Failure::Closed(again, _)) if !is_new => request = *again,
                Err(Failure::Closed(_, error) | Failure::Lost(error)) => return Err(error),
            }
        }
    }

    /// Makes a call whose answer is read as it comes, on a connection of its own.
    pub(super) async fn open(&self, call: Call<'_>) -> Result<Response<Incoming>, TransportError> {
        let request = self.request(call).await?;
        match self.connect().await?.open(request).await {
            Ok(answer) => Ok(answer),
            Err(Failure::Closed(_, error) | Failure::Lost(error)) => Err(error),
        }
    }

    async fn request(&self, call: Call<'_>) -> Result<Request<Body>, TransportError> {
        let uri = match self.prefix.as_str() {
            "" => Uri::try_from(call.path)?,
            prefix => Uri::try_from(format!("{prefix}{}", call.path))?,
        };
        let own_headers = call.headers();
        let mut request = Request::new(Body::new(call.body));
        *request.method_mut() = call.method;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        headers.extend(own_headers);
        if let Some(credentials) = &self.credentials {
            let given = credentials.clone().oneshot(Request::default()).await?;
            headers.extend(given.into_parts().0.headers);
        }
        Ok(request)
    }

    async fn connect(&self) -> Result<Line<Io>, TransportError> {
        let io = self.connect.clone().oneshot(self.server.clone()).await?;
        Line::new(io).await
    }

    fn take_idle(&self) -> Option<Line<Io>> {
        let mut idle = self.idle.lock();
        let last = idle.pop_back()?;
        if instant().duration_since(last.since) < IDLE {
            return Some(last.line);
        }
        // It was used last, so the others are older.
        idle.clear();
        None
    }

    fn keep(&self, line: Line<Io>) {
        let now = instant();
        let mut idle = self.idle.lock();
        while idle
            .front()
            .is_some_and(|oldest| now.duration_since(oldest.since) >= IDLE)
        {
            idle.pop_front();
        }
        idle.push_back(Idle { line, since: now });
    }
}

/// Whether credentials never change: a password, or a token that the kubeconfig itself has.
fn has_fixed_credentials(auth: &AuthInfo) -> bool {
    let password = auth.username.is_some() && auth.password.is_some();
    auth.auth_provider.is_none() && (password || auth.token.is_some())
}

/// The headers that a service gives, if it has them at hand.
fn at_once(headers: impl Service<Request<Body>, Response = Response<()>>) -> HeaderMap {
    let given = headers.oneshot(Request::default()).now_or_never();
    let given = given.and_then(Result::ok).unwrap_or_default();
    given.into_parts().0.headers
}

/// What kube's layers are put around, to see what they put into requests.
async fn headers_of(request: Request<Body>) -> Result<Response<()>, TransportError> {
    let mut answer = Response::new(());
    *answer.headers_mut() = request.into_parts().0.headers;
    Ok(answer)
}

/// A server's name for its `Host` header, without the port if it is the usual one.
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
    // What is part of a URI can be sent.
    HeaderValue::try_from(named).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_port_is_not_named() {
        let host = |uri: &'static str| host(&Uri::from_static(uri));
        assert_eq!(host("https://a.example:443/k8s"), "a.example");
        assert_eq!(host("https://a.example:6443"), "a.example:6443");
        assert_eq!(host("http://127.0.0.1:80"), "127.0.0.1");
        assert_eq!(host("http://[::1]:8080"), "[::1]:8080");
    }
}
