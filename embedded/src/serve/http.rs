//! Connections and the translation between HTTP and the machine's requests.
//!
//! Responsible for: accepting, reading bodies, headers. Must not: know the API's rules.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

use super::{
    body::{self, HttpBody},
    faults::{self, Broken},
    filters::Filters,
    shared::{SharedApi, until_stopped},
    tls::Tls,
};
use crate::apiserver::{
    BODY_LIMIT, JSON, Reply, Request, Response as Answer, faults::ObservedRequest,
};

/// The media type of metrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Accepts connections until the server stops.
pub(super) async fn accept(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    api: Arc<SharedApi>,
    filters: Arc<Filters>,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = until_stopped(&mut stopped) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                // Small answers must not wait for a full packet.
                let _ = stream.set_nodelay(true);
                let (api, filters) = (Arc::clone(&api), Arc::clone(&filters));
                match &tls {
                    None => tokio::spawn(connection(stream, api, filters, stopped.clone())),
                    Some(tls) => {
                        let tls = Arc::clone(tls);
                        tokio::spawn(secured(stream, tls, api, filters, stopped.clone()))
                    }
                };
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// A connection over TLS, from its handshake on, which nobody else waits for.
async fn secured(
    stream: TcpStream,
    tls: Arc<Tls>,
    api: Arc<SharedApi>,
    filters: Arc<Filters>,
    mut stopped: watch::Receiver<bool>,
) {
    let secured = tokio::select! {
        secured = tls.handshake(stream) => secured,
        () = until_stopped(&mut stopped) => return,
    };
    match secured {
        Ok(stream) => connection(stream, api, filters, stopped).await,
        Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    api: Arc<SharedApi>,
    filters: Arc<Filters>,
    mut stopped: watch::Receiver<bool>,
) {
    let for_requests = stopped.clone();
    let service = service_fn(move |request| {
        let (api, filters) = (Arc::clone(&api), Arc::clone(&filters));
        answer(request, api, filters, for_requests.clone())
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = until_stopped(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn answer(
    request: hyper::Request<Incoming>,
    api: Arc<SharedApi>,
    filters: Arc<Filters>,
    mut stopped: watch::Receiver<bool>,
) -> Result<Response<HttpBody>, Broken> {
    let (parts, incoming) = request.into_parts();
    // One byte more than is allowed is enough for the machine to refuse the body.
    let collecting = Limited::new(incoming, BODY_LIMIT + 1).collect();
    let bytes = match timeout(filters.body_timeout(), collecting).await {
        Err(_) => {
            // What is left of the body is nobody's request: HTTP closes the connection after this.
            return Ok(respond(Reply::body_timed_out(), None, api, stopped));
        }
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return Ok(respond(Reply::body_too_large(), None, api, stopped));
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, "a request body could not be read");
            return Ok(plain(StatusCode::BAD_REQUEST, "the body could not be read"));
        }
    };
    let call = filters.receive(request_of(&parts, &bytes), &parts, &api);
    let method = parts.method.as_str();
    let path = parts.uri.path();
    if path == faults::PATH {
        let reply = call.answer_by(|| faults::administer(method, &bytes, &api));
        return Ok(respond(reply, None, api, stopped));
    }
    if path == "/metrics" && method == "GET" {
        let reply = call.answer_by(|| metrics(&api));
        return Ok(respond(reply, None, api, stopped));
    }
    let label = call.label();
    let observed_request = || faults::observed(&parts, label);
    if api.faults().are_any() {
        let observed_request = observed_request();
        let reply = faults::answer(&observed_request, call, &api, &mut stopped).await?;
        return Ok(respond(reply, Some(observed_request), api, stopped));
    }
    let observed_request = (label.verb == "watch").then(observed_request);
    let reply = call.answer(None).await;
    Ok(respond(reply, observed_request, Arc::clone(&api), stopped))
}

/// A reply as HTTP. A watch has to know what was asked, for rules that come later.
fn respond(
    reply: Reply,
    observed_request: Option<ObservedRequest>,
    api: Arc<SharedApi>,
    stopped: watch::Receiver<bool>,
) -> Response<HttpBody> {
    match reply {
        Reply::Complete(response) => {
            let mut http = Response::new(body::complete(response.body));
            *http.status_mut() =
                StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            set_headers(http.headers_mut(), response.content_type);
            for (name, value) in response.headers {
                if let Ok(value) = HeaderValue::try_from(value) {
                    http.headers_mut()
                        .append(HeaderName::from_static(lower(name)), value);
                }
            }
            http
        }
        Reply::Watch(cursor) => {
            let mut http = Response::new(body::watching(api, cursor, observed_request, stopped));
            set_headers(http.headers_mut(), JSON);
            http
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

/// Header names of the machine in the form that HTTP types want.
fn lower(name: &'static str) -> &'static str {
    match name {
        "Warning" => "warning",
        "Retry-After" => "retry-after",
        other => other,
    }
}

fn metrics(api: &SharedApi) -> Answer {
    Answer::bytes(200, OPEN_METRICS, api.metrics().into_bytes())
}

fn plain(status: StatusCode, text: &'static str) -> Response<HttpBody> {
    let mut response = Response::new(body::full(text));
    *response.status_mut() = status;
    response
}
