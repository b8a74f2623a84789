//! Serves HTTP connections and translates between HTTP and the API server's requests.
//!
//! Responsible for: accepting connections, reading bodies, setting headers. Must not: know the API's rules.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    body::{self, HttpBody},
    faults::{self, Broken},
    filters::Filters,
    shared::SharedApi,
    tls::Tls,
};
use crate::apiserver::{
    BODY_LIMIT, JSON, Reply, Request, Response as Answer, TEXT, faults::ObservedRequest,
};

/// Media type of metrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Shared data of every connection.
#[derive(Clone)]
pub(super) struct Front {
    pub(super) api: Arc<SharedApi>,
    pub(super) filters: Arc<Filters>,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) stopped: CancellationToken,
}

impl Front {
    /// Accepts connections until the server stops.
    pub(super) async fn accept(self, listener: TcpListener) {
        while let Some(accepted) = self.stopped.run_until_cancelled(listener.accept()).await {
            match accepted {
                Ok((stream, _)) => {
                    // Nagle's algorithm would delay small responses.
                    let _ = stream.set_nodelay(true);
                    tokio::spawn(self.clone().begin(stream));
                }
                Err(error) => {
                    tracing::warn!(%error, "the embedded API server could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    /// Serves a connection, after its TLS handshake if there is one. Each connection has its own task, so handshakes do
    /// not block others.
    async fn begin(self, stream: TcpStream) {
        let Some(tls) = self.tls.clone() else {
            return self.serve(stream).await;
        };
        let secured = tls.handshake(stream);
        match self.stopped.run_until_cancelled(secured).await {
            Some(Ok(stream)) => self.serve(stream).await,
            Some(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            None => {}
        }
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let service = service_fn(|request| self.answer(request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let ended = match self.stopped.run_until_cancelled(connection.as_mut()).await {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }

    async fn answer(
        &self,
        request: hyper::Request<Incoming>,
    ) -> Result<Response<HttpBody>, Broken> {
        let (api, filters) = (&*self.api, &*self.filters);
        let (parts, incoming) = request.into_parts();
        // One byte over the limit is enough for the API server to refuse the body.
        let collecting = Limited::new(incoming, BODY_LIMIT + 1).collect();
        let bytes = match timeout(filters.body_timeout(), collecting).await {
            // The rest of the body is not a request: hyper closes the connection after this response.
            Err(_) => return Ok(self.respond(Reply::body_timed_out(), None)),
            Ok(Ok(collected)) => collected.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Ok(self.respond(Reply::body_too_large(), None));
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a request body could not be read");
                let answer = Answer::bytes(400, TEXT, b"the body could not be read".to_vec());
                return Ok(self.respond(Reply::Complete(answer), None));
            }
        };
        let call = filters.receive(request_of(&parts, &bytes), &parts, api);
        let method = parts.method.as_str();
        let path = parts.uri.path();
        if path == faults::PATH {
            let reply = call.answer_by(|| faults::administer(method, &bytes, api));
            return Ok(self.respond(reply, None));
        }
        if path == "/metrics" && method == "GET" {
            let reply = call.answer_by(|| metrics(api));
            return Ok(self.respond(reply, None));
        }
        let label = call.label();
        let observed_request = || faults::observed(&parts, label);
        if api.faults().are_any() {
            let observed_request = observed_request();
            let reply = faults::answer(&observed_request, call, api, &self.stopped).await?;
            return Ok(self.respond(reply, Some(observed_request)));
        }
        let observed_request = (label.verb == "watch").then(observed_request);
        Ok(self.respond(call.answer(None).await, observed_request))
    }

    /// Converts a reply to HTTP. A watch keeps its request, because fault rules may be set later.
    fn respond(
        &self,
        reply: Reply,
        observed_request: Option<ObservedRequest>,
    ) -> Response<HttpBody> {
        match reply {
            Reply::Complete(response) => {
                let mut http = Response::new(body::complete(response.body));
                *http.status_mut() = StatusCode::from_u16(response.status)
                    .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                set_headers(http.headers_mut(), response.content_type);
                for (name, value) in response.headers {
                    if let (Ok(name), Ok(value)) =
                        (HeaderName::try_from(name), HeaderValue::try_from(value))
                    {
                        http.headers_mut().append(name, value);
                    }
                }
                http
            }
            Reply::Watch(cursor) => {
                let (api, stopped) = (Arc::clone(&self.api), self.stopped.clone());
                let mut http =
                    Response::new(body::watching(api, cursor, observed_request, stopped));
                set_headers(http.headers_mut(), JSON);
                http
            }
        }
    }
}

fn request_of<'a>(parts: &'a Parts, body: &'a Bytes) -> Request<'a> {
    let text = |name: HeaderName| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    Request {
        method: parts.method.as_str(),
        path: parts.uri.path(),
        query: parts.uri.query().unwrap_or_default(),
        accept: text(header::ACCEPT),
        content_type: text(header::CONTENT_TYPE),
        user_agent: text(header::USER_AGENT),
        authorization: text(header::AUTHORIZATION),
        body,
    }
}

fn set_headers(headers: &mut HeaderMap, content_type: &'static str) {
    if !content_type.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
}

fn metrics(api: &SharedApi) -> Answer {
    Answer::bytes(200, OPEN_METRICS, api.metrics().into_bytes())
}
