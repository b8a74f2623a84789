//! Answers those who ask how the controller is: `/livez`, `/readyz`, `/metrics`.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::metrics::Metrics;

/// The text format in which metrics are told.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long to wait when the system cannot give a connection, for want of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the answers are made of.
#[derive(Clone, Debug)]
pub(super) struct Probes {
    pub(super) metrics: Arc<Metrics>,
    /// Whether the caches are filled.
    pub(super) ready: tokio::sync::watch::Receiver<bool>,
}

impl Probes {
    /// Opens the port.
    pub(super) async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
        TcpListener::bind(address).await
    }

    /// Answers, for ever.
    pub(super) async fn serve(self, listener: TcpListener) {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "probe not answered");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let probes = self.clone();
            let answer = service_fn(move |request| {
                let response = probes.answer(&request);
                async move { Ok::<_, Infallible>(response) }
            });
            tokio::spawn(async move {
                // A prober that goes away early is its own business.
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let (status, body) = match path {
            "/livez" => (StatusCode::OK, "ok".to_owned()),
            "/readyz" if *self.ready.borrow() => (StatusCode::OK, "ok".to_owned()),
            "/readyz" => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the caches are not filled yet".to_owned(),
            ),
            "/metrics" => (StatusCode::OK, self.metrics.text()),
            _ => (StatusCode::NOT_FOUND, "not found".to_owned()),
        };
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = status;
        let kind = if path == "/metrics" {
            OPEN_METRICS
        } else {
            "text/plain"
        };
        let kind = HeaderValue::from_static(kind);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
