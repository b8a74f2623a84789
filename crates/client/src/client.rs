//! Calls the API server; requests and answers are bytes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use http::{Method, Response, header};
use http_body_util::{BodyExt as _, BodyStream, LengthLimitError, Limited};

use lakh_clock::instant;
use lakh_wire::{ANSWER_MAX, ApiError, Call, Encoding, Patch};

use super::{
    Result, Sockets, Trouble,
    server_status::ServerStatus,
    transport::{Transport, TransportError},
};

/// Timeout of a call; the API server itself gives up after as long.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout for the head of a watch's response. A proxy may hold the head back until the first byte of the body, and in
/// a quiet cluster that is a bookmark: kube-apiserver sends one after 60 to 75 s.
const OPEN_TIMEOUT: Duration = Duration::from_secs(100);

/// A path that costs the server next to nothing. Any response to it shows that the server answers.
const PING_PATH: &str = "/version";

/// The body of a successful answer.
pub type Answer = Bytes;

/// An open watch.
pub struct Watch {
    /// Encoding of its events.
    pub encoding: Encoding,
    /// The pieces of its body, as they arrive.
    pub pieces: BoxStream<'static, Result<Bytes>>,
}

/// Called after each request with its method, the status code of the answer (`None` without one), and a duration. The
/// duration ends when the answer is complete, or when the watch is open.
pub type OnRequest = dyn Fn(&Method, Option<u16>, Duration) + Send + Sync;

/// A connection to an API server; clones share it.
#[derive(Clone)]
pub struct Client {
    transport: Transport,
    on_request: Option<Arc<OnRequest>>,
    server_status: Arc<ServerStatus>,
    default_namespace: Arc<str>,
    cluster_name: Option<Arc<str>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    pub(super) fn new(transport: Transport, url: String, default_namespace: &str) -> Self {
        Self {
            transport,
            on_request: None,
            default_namespace: default_namespace.into(),
            server_status: Arc::new(ServerStatus::new(url)),
            cluster_name: None,
        }
    }

    /// The same client, which knows the cluster by this name.
    #[must_use]
    pub(super) fn with_cluster_name(mut self, name: Option<String>) -> Self {
        self.cluster_name = name.map(Into::into);
        self
    }

    /// Returns a client of the same server with connections of its own, on these sockets if some are given.
    #[must_use]
    pub fn with_own_connections(&self, sockets: Option<Sockets>) -> Self {
        Self {
            transport: self.transport.with_own_connections(sockets),
            on_request: self.on_request.clone(),
            server_status: Arc::clone(&self.server_status),
            default_namespace: Arc::clone(&self.default_namespace),
            cluster_name: self.cluster_name.clone(),
        }
    }

    /// Returns the same client, which calls `on_request` after each request.
    #[must_use]
    pub fn observed(mut self, on_request: Arc<OnRequest>) -> Self {
        self.on_request = Some(on_request);
        self
    }

    /// Returns the server's URL.
    pub fn url(&self) -> &str {
        self.server_status.url()
    }

    /// Returns the default namespace: that of the kubeconfig's context.
    pub fn default_namespace(&self) -> &str {
        &self.default_namespace
    }

    /// The cluster's name in the kubeconfig, if the client was made from one.
    pub fn cluster_name(&self) -> Option<&str> {
        self.cluster_name.as_deref()
    }

    /// Returns the time since the server answered a call or sent a piece of a watch; since the start, if it never did.
    pub fn silence(&self) -> Duration {
        self.server_status.silence()
    }

    /// Calls the server to see whether it answers within this time. Fails only on a timeout: a refused connection
    /// counts as an answer, too.
    pub async fn ping(&self, longest: Duration) -> Result<()> {
        let call = Call::get(PING_PATH);
        let answer = tokio::time::timeout(longest, self.exchange(&call)).await;
        answer.map(|_| ()).map_err(|_| {
            let seconds = longest.as_secs();
            let error =
                ApiError::no_answer(format!("GET {PING_PATH}: no answer within {seconds} s"));
            self.server_status.record(Err(&error));
            error
        })
    }

    /// Returns the current problem if the last call was not answered, or refused for its credentials.
    pub fn trouble(&self) -> Option<Trouble> {
        self.server_status.trouble()
    }

    /// Makes a call; an unsuccessful answer becomes an error.
    pub async fn send(&self, call: &Call) -> Result<Answer> {
        let response = self.exchange(call).await?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(refusal(&response))
    }

    /// Sends a GET for JSON.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(&Call::get(path)).await
    }

    /// Sends a POST of a JSON object.
    pub async fn create(&self, path: &str, body: impl Into<Bytes>) -> Result<Answer> {
        self.send(&Call::create(path, body)).await
    }

    /// Sends a POST of a JSON object; returns the status code and the body: the whole object, or the server's error.
    pub async fn post(&self, path: &str, body: impl Into<Bytes>) -> Result<(u16, Answer)> {
        let response = self.exchange(&Call::create_whole(path, body)).await?;
        Ok((response.status().as_u16(), response.into_body()))
    }

    /// Sends a PATCH.
    pub async fn patch(&self, path: &str, patch: Patch, body: impl Into<Bytes>) -> Result<Answer> {
        self.send(&Call::patch(path, patch, body)).await
    }

    /// Sends a DELETE with default options.
    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.send(&Call::delete(path)).await
    }

    /// Sends a DELETE with these options, as JSON.
    pub async fn delete_with(&self, path: &str, options: impl Into<Bytes>) -> Result<Answer> {
        self.send(&Call::delete_with(path, options)).await
    }

    /// Sends a GET for a watch in JSON; returns pieces of its lines, as they arrive.
    pub async fn watch(&self, path: &str) -> Result<BoxStream<'static, Result<Bytes>>> {
        Ok(self
            .open_within(&Call::get(path), CALL_TIMEOUT)
            .await?
            .pieces)
    }

    /// Makes a call with a streamed answer.
    pub async fn open(&self, call: &Call) -> Result<Watch> {
        self.open_within(call, OPEN_TIMEOUT).await
    }

    async fn open_within(&self, call: &Call, longest: Duration) -> Result<Watch> {
        named(&call.path)?;
        let begun = instant();
        let response = in_time(longest, async {
            let response = self.transport.open(call).await.map_err(no_answer)?;
            if response.status().is_success() {
                return Ok(response);
            }
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_MAX).collect().await;
            let body = body.map_err(no_answer)?.to_bytes();
            Err(refusal(&Response::from_parts(head, body)))
        })
        .await;
        let code = |response: &Response<_>| response.status().as_u16();
        self.record(call, begun, response.as_ref().map(code));
        let response = response?;
        let encoding = Encoding::of(response.headers().get(header::CONTENT_TYPE));
        let server_status = Arc::clone(&self.server_status);
        let pieces = BodyStream::new(response.into_body()).filter_map(move |frame| {
            if frame.is_ok() {
                server_status.record_sign_of_life();
            }
            std::future::ready(match frame {
                Ok(frame) => frame.into_data().ok().map(Ok),
                Err(error) => Some(Err(no_answer(error))),
            })
        });
        Ok(Watch {
            encoding,
            pieces: pieces.boxed(),
        })
    }

    /// Makes a call and returns any answer, with its headers.
    pub async fn exchange(&self, call: &Call) -> Result<Response<Bytes>> {
        named(&call.path)?;
        let begun = instant();
        let sent = async {
            let answer = self.transport.send(call).await;
            answer.map_err(|error| match error.is::<LengthLimitError>() {
                true => ApiError::too_long(call.answer_max),
                false => no_answer(error),
            })
        };
        let answer = in_time(CALL_TIMEOUT, sent).await;
        let code = answer.as_ref().map(|answer| answer.status().as_u16());
        self.record(call, begun, code);
        answer
    }

    fn record(&self, call: &Call, begun: Instant, code: std::result::Result<u16, &ApiError>) {
        if let Some(on_request) = &self.on_request {
            // An unsuccessful answer is an error here, with its code.
            let code = code.unwrap_or_else(|error| error.code);
            let code = Some(code).filter(|code| *code != 0);
            on_request(&call.method, code, begun.elapsed());
        }
        self.server_status.record(code);
    }
}

/// Refuses a path in which a name is missing. A server takes the path of an object without a name for that of the
/// collection, and would delete everything in it.
fn named(path: &str) -> Result<()> {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    if path.ends_with('/') || path.contains("//") {
        return Err(ApiError::not_sent(format!(
            "resource name may not be empty: {path}"
        )));
    }
    Ok(())
}

async fn in_time<T>(longest: Duration, call: impl Future<Output = Result<T>>) -> Result<T> {
    let seconds = longest.as_secs();
    let answer = tokio::time::timeout(longest, call).await;
    answer.map_err(|_| ApiError::no_answer(format!("no answer within {seconds} s")))?
}

/// Returns the error that an unsuccessful answer describes.
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

/// Returns an error with its causes, as one line.
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
    use lakh_wire::paths;

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
