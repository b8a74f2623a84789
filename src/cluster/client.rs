//! Calls to the API server, as bytes.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, BodyStream};
use kube::client::Body;
use tower::ServiceExt as _;

use crate::wire::ApiError;

use super::{
    Encoding, Result,
    transport::{AnswerBody, Transport},
};

/// How long a call may take; the API server itself gives up after as long.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Asks for an object's metadata only, which is all that is read of an answer to a write, and for
/// the shortest form of it; a server that cannot do that sends the object.
const METADATA_ONLY: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// What the content type of an answer in protobuf starts with.
pub(super) const PROTOBUF: &[u8] = b"application/vnd.kubernetes.protobuf";

const JSON: &str = "application/json";

/// Protobuf where the server has it, which is for its own types.
const PROTOBUF_OR_JSON: &str = "application/vnd.kubernetes.protobuf,application/json";

/// The body of a successful answer.
pub type Answer = Bytes;

/// A watch that has begun.
pub struct Watch {
    /// How its events are encoded.
    pub encoding: Encoding,
    /// What comes, as it comes.
    pub pieces: BoxStream<'static, Result<Bytes>>,
}

/// The kinds of patch that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, which knows how lists are merged.
    Strategic,
}

/// A connection to an API server; clones share it.
#[derive(Clone)]
pub struct Client(Transport);

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    pub(super) fn new(transport: Transport) -> Self {
        Self(transport)
    }

    /// GET of JSON.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.call(Method::GET, path, None, JSON, Bytes::new()).await
    }

    /// GET of protobuf, or of JSON where the server has nothing else.
    pub async fn get_compact(&self, path: &str) -> Result<Answer> {
        self.call(Method::GET, path, None, PROTOBUF_OR_JSON, Bytes::new())
            .await
    }

    /// POST of a JSON object.
    pub async fn create(&self, path: &str, body: impl Into<Bytes>) -> Result<Answer> {
        self.call(Method::POST, path, Some(JSON), METADATA_ONLY, body.into())
            .await
    }

    /// POST of a JSON object of which more is wanted than what it is called: the answer is all of it.
    pub async fn create_whole(&self, path: &str, body: impl Into<Bytes>) -> Result<Answer> {
        self.call(Method::POST, path, Some(JSON), JSON, body.into())
            .await
    }

    /// POST of a JSON object; the answer is the whole object, or whatever the server said instead
    /// with its status code.
    pub async fn post(&self, path: &str, body: impl Into<Bytes>) -> Result<(u16, Answer)> {
        let call = async {
            let response = self
                .exchange(Method::POST, path, Some(JSON), JSON, body.into())
                .await?;
            let status = response.status().as_u16();
            Ok((status, collect(response).await?))
        };
        tokio::time::timeout(CALL_TIMEOUT, call)
            .await
            .map_err(|_| timed_out())?
    }

    /// PATCH.
    pub async fn patch(&self, path: &str, patch: Patch, body: impl Into<Bytes>) -> Result<Answer> {
        let kind = match patch {
            Patch::Merge => "application/merge-patch+json",
            Patch::Strategic => "application/strategic-merge-patch+json",
        };
        self.call(Method::PATCH, path, Some(kind), METADATA_ONLY, body.into())
            .await
    }

    /// DELETE with default options.
    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.call(Method::DELETE, path, None, METADATA_ONLY, Bytes::new())
            .await
    }

    /// DELETE with these options, as JSON.
    pub async fn delete_with(&self, path: &str, options: impl Into<Bytes>) -> Result<Answer> {
        self.call(
            Method::DELETE,
            path,
            Some(JSON),
            METADATA_ONLY,
            options.into(),
        )
        .await
    }

    /// DELETE of all that a list shows, with these options, as JSON. A server does not answer with the
    /// metadata of so many.
    pub async fn delete_collection(&self, path: &str, options: impl Into<Bytes>) -> Result<Answer> {
        self.call(Method::DELETE, path, Some(JSON), JSON, options.into())
            .await
    }

    /// GET of a watch in JSON: pieces of its lines, as they come.
    pub async fn watch(&self, path: &str) -> Result<BoxStream<'static, Result<Bytes>>> {
        Ok(self.watch_in(path, JSON).await?.pieces)
    }

    /// GET of a watch in protobuf, or in JSON where the server has nothing else.
    pub async fn watch_compact(&self, path: &str) -> Result<Watch> {
        self.watch_in(path, PROTOBUF_OR_JSON).await
    }

    async fn watch_in(&self, path: &str, accept: &'static str) -> Result<Watch> {
        let response = tokio::time::timeout(
            CALL_TIMEOUT,
            self.send(Method::GET, path, None, accept, Bytes::new()),
        )
        .await
        .map_err(|_| timed_out())??;
        let encoding = Encoding::of(response.headers().get(header::CONTENT_TYPE));
        let pieces = BodyStream::new(response.into_body()).filter_map(|frame| async {
            match frame {
                Ok(frame) => frame.into_data().ok().map(Ok),
                Err(error) => Some(Err(ApiError::no_answer(chain(&*error)))),
            }
        });
        Ok(Watch {
            encoding,
            pieces: pieces.boxed(),
        })
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&'static str>,
        accept: &'static str,
        body: Bytes,
    ) -> Result<Answer> {
        let call = async {
            let response = self.send(method, path, content_type, accept, body).await?;
            collect(response).await
        };
        tokio::time::timeout(CALL_TIMEOUT, call)
            .await
            .map_err(|_| timed_out())?
    }

    /// Sends a request; an answer that is no success becomes an error.
    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&'static str>,
        accept: &'static str,
        body: Bytes,
    ) -> Result<Response<AnswerBody>> {
        let response = self
            .exchange(method, path, content_type, accept, body)
            .await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, retry_after) = (response.status(), retry_after(&response));
        let body = collect(response).await?;
        Err(ApiError::from_response(
            StatusCode::as_u16(&status),
            &body,
            retry_after,
        ))
    }

    /// Sends a request and gives whatever is answered.
    async fn exchange(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&'static str>,
        accept: &'static str,
        body: Bytes,
    ) -> Result<Response<AnswerBody>> {
        let accept = HeaderValue::from_static(accept);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, accept);
        if let Some(kind) = content_type {
            request = request.header(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        let request = request
            .body(Body::from(body))
            .map_err(|error| ApiError::no_answer(error.to_string()))?;
        let transport = self.0.clone();
        transport
            .oneshot(request)
            .await
            .map_err(|error| ApiError::no_answer(chain(&*error)))
    }
}

async fn collect(response: Response<AnswerBody>) -> Result<Bytes> {
    let body = response.into_body().collect().await;
    body.map(|body| body.to_bytes())
        .map_err(|error| ApiError::no_answer(chain(&*error)))
}

fn retry_after(response: &Response<AnswerBody>) -> Option<Duration> {
    let header = response.headers().get(header::RETRY_AFTER)?;
    Some(Duration::from_secs(header.to_str().ok()?.parse().ok()?))
}

fn timed_out() -> ApiError {
    ApiError::no_answer(format!("no answer within {} s", CALL_TIMEOUT.as_secs()))
}

/// An error with its causes, as one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
