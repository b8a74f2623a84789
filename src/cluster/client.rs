//! Calls to the API server, as bytes.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use http::{Method, Response, header};
use http_body_util::{BodyExt as _, BodyStream};

use crate::wire::ApiError;

use super::{
    Encoding, Result, Trouble,
    standing::Standing,
    transport::{Call, Transport, TransportError},
};

/// How long a call may take; the API server itself gives up after as long.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Asks for an object's metadata only, which is all that is read of an answer to a write, and for
/// the shortest form of it; a server that cannot do that sends the object. The server reads this text
/// several times for each call, so it names no more than that.
const METADATA_ONLY: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

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
pub struct Client {
    transport: Transport,
    standing: Arc<Standing>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    pub(super) fn new(transport: Transport, url: String) -> Self {
        Self {
            transport,
            standing: Arc::new(Standing::new(url)),
        }
    }

    /// Where the server is.
    pub(super) fn url(&self) -> &str {
        self.standing.url()
    }

    /// What is wrong between us and the server, if the last call was not answered or refused for who we are.
    pub fn trouble(&self) -> Option<Trouble> {
        self.standing.trouble()
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
        let call = Call {
            method: Method::POST,
            path,
            content_type: Some(JSON),
            accept: JSON,
            body: body.into(),
        };
        let response = self.exchange(call).await?;
        Ok((response.status().as_u16(), response.into_body()))
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
        let call = Call {
            method: Method::GET,
            path,
            content_type: None,
            accept,
            body: Bytes::new(),
        };
        let response = in_time(async {
            let response = self.transport.open(call).await.map_err(no_answer)?;
            if response.status().is_success() {
                return Ok(response);
            }
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(no_answer)?.to_bytes();
            Err(refusal(&Response::from_parts(head, body)))
        })
        .await;
        let code = |response: &Response<_>| response.status().as_u16();
        self.standing.heard(response.as_ref().map(code));
        let response = response?;
        let encoding = Encoding::of(response.headers().get(header::CONTENT_TYPE));
        let pieces = BodyStream::new(response.into_body()).filter_map(|frame| async {
            match frame {
                Ok(frame) => frame.into_data().ok().map(Ok),
                Err(error) => Some(Err(no_answer(error))),
            }
        });
        Ok(Watch {
            encoding,
            pieces: pieces.boxed(),
        })
    }

    /// Makes a call; an answer that is no success becomes an error.
    async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&'static str>,
        accept: &'static str,
        body: Bytes,
    ) -> Result<Answer> {
        let call = Call {
            method,
            path,
            content_type,
            accept,
            body,
        };
        let response = self.exchange(call).await?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(refusal(&response))
    }

    /// Makes a call and gives whatever is answered.
    async fn exchange(&self, call: Call<'_>) -> Result<Response<Bytes>> {
        named(call.path)?;
        let answer = in_time(async { self.transport.ask(call).await.map_err(no_answer) }).await;
        self.standing
            .heard(answer.as_ref().map(|answer| answer.status().as_u16()));
        answer
    }
}

/// Refuses a path in which a name is missing. A server takes that of an object without a name for the
/// collection's, and a deletion for one of all that is in it.
fn named(path: &str) -> Result<()> {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    if path.ends_with('/') || path.contains("//") {
        return Err(ApiError::not_sent(format!(
            "resource name may not be empty: {path}"
        )));
    }
    Ok(())
}

async fn in_time<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(CALL_TIMEOUT, call)
        .await
        .map_err(|_| timed_out())?
}

/// What an answer says that is no success.
fn refusal(response: &Response<Bytes>) -> ApiError {
    let status = response.status().as_u16();
    ApiError::from_response(status, response.body(), retry_after(response))
}

fn retry_after<T>(response: &Response<T>) -> Option<Duration> {
    let header = response.headers().get(header::RETRY_AFTER)?;
    Some(Duration::from_secs(header.to_str().ok()?.parse().ok()?))
}

fn no_answer(error: impl Into<TransportError>) -> ApiError {
    ApiError::no_answer(chain(&*error.into()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::paths;

    #[test]
    fn no_path_without_a_name_leaves_the_client() {
        for path in [
            paths::pod("default", ""),
            paths::unchecked(paths::pod("default", "")),
            paths::pod("", "j-1"),
            paths::job_status("default", ""),
            paths::event("default", ""),
        ] {
            assert!(named(&path).is_err(), "{path}");
        }
        for path in [paths::pods(None), paths::pod("default", "j-1")] {
            assert!(named(&path).is_ok(), "{path}");
        }
        assert!(named("/api/v1/pods?labelSelector=a%2Fb&x=//").is_ok());
    }
}
