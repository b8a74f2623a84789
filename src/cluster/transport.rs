//! HTTP to an API server: directly, or through a proxy by kube's own client.
//!
//! kube's client puts a queue with a task of its own, a span for the log and a pool for many servers
//! around each call. A big Job is many small calls to one server, so the direct way has only what a
//! call needs. Why it is HTTP/1.1, `docs/wire.md` tells.
//!
//! Must not: repeat a call, or know what is sent.

use std::{error::Error, sync::Arc};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use kube::{Config, client::Body};

use super::direct::Direct;

/// What went wrong below HTTP.
pub(super) type TransportError = Box<dyn Error + Send + Sync>;

/// The body of an answer, as it comes.
pub(super) type AnswerBody = UnsyncBoxBody<Bytes, TransportError>;

/// A call to be made.
#[derive(Clone, Debug)]
pub(super) struct Call<'a> {
    pub(super) method: Method,
    /// With query, without the server.
    pub(super) path: &'a str,
    pub(super) content_type: Option<&'static str>,
    pub(super) accept: &'static str,
    pub(super) body: Bytes,
}

impl Call<'_> {
    /// What of it goes into headers.
    pub(super) fn headers(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> + use<> {
        let accept = (header::ACCEPT, self.accept);
        let kind = self.content_type.map(|kind| (header::CONTENT_TYPE, kind));
        let all = [Some(accept), kind].into_iter().flatten();
        all.map(|(name, value)| (name, HeaderValue::from_static(value)))
    }
}

/// See the module's text; clones share connections.
#[derive(Clone)]
pub(super) enum Transport {
    Direct(Arc<Direct>),
    Proxied(kube::Client),
}

impl Transport {
    /// The way to the server that a configuration means.
    pub(super) fn new(config: &Config) -> kube::Result<Self> {
        Ok(match config.proxy_url {
            Some(_) => Self::Proxied(kube::Client::try_from(config.clone())?),
            None => Self::Direct(Arc::new(Direct::new(config)?)),
        })
    }

    /// Makes a call; the answer is all there.
    pub(super) async fn ask(&self, call: Call<'_>) -> Result<Response<Bytes>, TransportError> {
        match self {
            Self::Direct(direct) => direct.ask(call).await,
            Self::Proxied(client) => {
                let (head, body) = client.send(request(call)?).await?.into_parts();
                let body = body.collect().await?.to_bytes();
                Ok(Response::from_parts(head, body))
            }
        }
    }

    /// Makes a call; the answer's body is read as it comes.
    pub(super) async fn open(
        &self,
        call: Call<'_>,
    ) -> Result<Response<AnswerBody>, TransportError> {
        Ok(match self {
            Self::Direct(direct) => boxed(direct.open(call).await?),
            Self::Proxied(client) => boxed(client.send(request(call)?).await?),
        })
    }
}

fn request(call: Call<'_>) -> Result<Request<Body>, http::Error> {
    let headers = call.headers();
    let request = Request::builder().method(call.method).uri(call.path);
    let mut request = request.body(Body::from(call.body))?;
    request.headers_mut().extend(headers);
    Ok(request)
}

fn boxed<B>(response: Response<B>) -> Response<AnswerBody>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<TransportError>,
{
    response.map(|body| body.map_err(Into::into).boxed_unsync())
}
