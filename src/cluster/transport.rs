//! HTTP to an API server: connections by hyper, with TLS and credentials by kube.
//!
//! kube's own client puts a queue with a task of its own and a span for the log around each call. A
//! big Job is many small calls, so here is only what a call needs. Through a proxy it is kube's
//! client all the same. Why it is HTTP/1.1, `docs/wire.md` tells.
//!
//! Must not: repeat a call, or know what is sent.

use std::error::Error;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Config,
    client::{Body, ConfigExt as _},
};
use tower::{ServiceBuilder, ServiceExt as _, service_fn, util::BoxCloneSyncService};

/// What went wrong below HTTP.
pub(super) type TransportError = Box<dyn Error + Send + Sync>;

/// The body of an answer, as it comes.
pub(super) type AnswerBody = UnsyncBoxBody<Bytes, TransportError>;

/// Sends requests, whose URI is only a path; clones share connections.
pub(super) type Transport =
    BoxCloneSyncService<Request<Body>, Response<AnswerBody>, TransportError>;

/// The way to the server that a configuration means.
pub(super) fn transport(config: &Config) -> kube::Result<Transport> {
    if config.proxy_url.is_some() {
        let client = kube::Client::try_from(config.clone())?;
        return Ok(BoxCloneSyncService::new(service_fn(move |request| {
            let client = client.clone();
            async move { Ok(boxed(client.send(request).await?)) }
        })));
    }
    let mut tcp = HttpConnector::new();
    // TLS around it is for others to ask for.
    tcp.enforce_http(false);
    tcp.set_connect_timeout(config.connect_timeout);
    // What is written is a whole message each time: nothing is gained by waiting for more.
    tcp.set_nodelay(true);
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let client = Client::builder(TokioExecutor::new()).build(tls);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(TransportError::from)
        .service(client);
    Ok(BoxCloneSyncService::new(service.map_response(boxed)))
}

fn boxed<B>(response: Response<B>) -> Response<AnswerBody>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<TransportError>,
{
    response.map(|body| body.map_err(Into::into).boxed_unsync())
}
