//! Sends requests to the API server, reads lists page by page, and retries while the server is too busy.
//!
//! Must not: know the purpose of a request.

use std::{
    fmt::Display,
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use bytes::Bytes;
use futures::stream::BoxStream;
use http::{HeaderMap, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;

use lakh_client::{Client, Result};
use lakh_clock::{Clock, instant};
use lakh_model::Time;
use lakh_wire::{ApiError, Call, ErrorKind, Object, decode_list_page};

use crate::complain;

use super::clock;

/// Objects per page, as in kubectl.
const PAGE_SIZE: usize = 500;

/// Objects per page, from the second on, where objects are small: a server (Kubernetes 1.36.2) takes 31 ms for 500 Pods
/// and 66 ms for 2,000, which are 4 MB.
const LATER_PAGE_SIZE: usize = 2_000;

/// Maximum number of attempts at a call while the server is too busy.
const TRIES: u32 = 5;

/// Maximum number of times that a list is read from its beginning while continue tokens expire; also the limit on
/// continuations at a newer version.
const BEGINNINGS: u32 = 3;

/// Pause before the next attempt if the server is too busy and sends no `Retry-After`.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// Time without an answer after which a message says that the command still waits.
const STILL: Duration = Duration::from_secs(5);

/// Client of one API server, with the rights of the kubeconfig.
#[derive(Debug)]
pub(crate) struct Asker {
    client: Client,
    clock: Clock,
    /// No message about a slow server is printed, or it was printed already.
    is_silent: AtomicBool,
}

/// The part of a list to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    All,
    /// All pages of a list of small objects; more of them fit into a page.
    Small,
    /// The first page alone: a sample.
    First,
}

/// An answer with its headers and its time.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) is_success: bool,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Time of its arrival, by our clock.
    pub(crate) came: Time,
    /// Duration of the call.
    pub(crate) took: Duration,
}

impl Asker {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            clock: Clock::default(),
            is_silent: AtomicBool::new(false),
        }
    }

    /// Creates one that prints nothing to standard error, for commands that draw on the terminal.
    pub(crate) fn quiet(client: Client) -> Self {
        Self {
            is_silent: AtomicBool::new(true),
            ..Self::new(client)
        }
    }

    /// Waits for an answer; prints a message, once, if that takes long.
    async fn patiently<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        tokio::select! {
            answer = &mut answer => return answer,
            () = tokio::time::sleep(STILL) => {}
        }
        if !self.is_silent.swap(true, Ordering::Relaxed) {
            let url = self.url();
            complain(&format!(
                "no response from API server {url} for {STILL:?}; still waiting"
            ));
        }
        answer.await
    }

    /// Returns the server's URL.
    pub(crate) fn url(&self) -> &str {
        self.client.url()
    }

    /// Opens a watch in JSON; returns pieces of its lines, as they arrive.
    pub(crate) async fn watch(&self, path: &str) -> Result<BoxStream<'static, Result<Bytes>>> {
        self.client.watch(path).await
    }

    /// Returns the time of our clock.
    pub(crate) fn now(&self) -> Time {
        self.clock.now().wall
    }

    /// Makes a call; an unsuccessful answer becomes an error.
    pub(crate) async fn send(&self, call: &Call) -> Result<Bytes> {
        let mut tries = 1;
        loop {
            let answer = self.patiently(self.client.send(call)).await;
            match &answer {
                Err(error) if error.kind == ErrorKind::Busy && tries < TRIES => {
                    tokio::time::sleep(BUSY_WAIT.max(error.retry_after.unwrap_or_default())).await;
                    tries += 1;
                }
                Ok(_) | Err(_) => return answer,
            }
        }
    }

    /// Sends a GET for an object.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        read(&self.send(&Call::get(path)).await?)
    }

    /// Posts an object that is answered and not stored, such as a review.
    pub(crate) async fn review(&self, path: &str, body: &Value) -> Result<Value> {
        read(
            &self
                .send(&Call::create_whole(path, body.to_string()))
                .await?,
        )
    }

    /// Makes a call without retries; returns any answer, with its headers and time.
    pub(crate) async fn exchange(&self, call: &Call) -> Result<Reply> {
        let begun = instant();
        let answer = self.patiently(self.client.exchange(call)).await?;
        let (came, took) = (self.now(), begun.elapsed());
        let (head, body) = Response::into_parts(answer);
        Ok(Reply {
            is_success: head.status.is_success(),
            headers: head.headers,
            body,
            came,
            took,
        })
    }

    /// Sends a GET for an object; returns its bytes, and the time of the server's clock.
    pub(crate) async fn get_at(&self, path: &str) -> Result<(Bytes, Time)> {
        let call = Call::get(path);
        let reply = self.exchange(&call).await?;
        let clock = clock(&reply).filter(|clock| clock.ahead.abs() > clock.precision);
        let ahead = clock.map_or(0, |clock| clock.ahead);
        let now = Time::from_millis(reply.came.as_millis() + ahead);
        if reply.is_success {
            return Ok((reply.body, now));
        }
        // The repeated call returns the error, or succeeds if the server was only too busy.
        Ok((self.send(&call).await?, now))
    }

    /// Reads all pages of a list, or the first alone, and passes each object to `take`. Returns the version of the
    /// first page.
    ///
    /// If that version expires, the server may return a token to continue at its newest one. The rest of the list is
    /// newer then, and no object comes twice. Without such a token the list must be started over: see [`Self::again`].
    pub(crate) async fn each<E: Display>(
        &self,
        mut call: Call,
        pages: Pages,
        mut take: impl FnMut(Object<'_>) -> std::result::Result<(), E>,
    ) -> Result<String> {
        let path = call.path.clone();
        let mark = if path.contains('?') { '&' } else { '?' };
        let size = match pages {
            Pages::Small => LATER_PAGE_SIZE,
            Pages::All | Pages::First => PAGE_SIZE,
        };
        call.path = format!("{path}{mark}limit={PAGE_SIZE}");
        // Limits how often the list may continue at a newer version.
        let mut left = BEGINNINGS;
        let mut version = String::new();
        loop {
            let body = match self.send(&call).await {
                Ok(body) => body,
                Err(error) => match &error.continue_token {
                    Some(token) if error.kind == ErrorKind::Expired && left > 0 => {
                        left -= 1;
                        call.path = format!("{path}{mark}limit={size}&continue={token}");
                        continue;
                    }
                    _ => return Err(error),
                },
            };
            let page = decode_list_page(&body).map_err(odd)?;
            for item in page.items {
                take(item).map_err(odd)?;
            }
            if version.is_empty() {
                version = page.resource_version;
            }
            let token = page.continue_token;
            if token.is_empty() || pages == Pages::First {
                return Ok(version);
            }
            call.path = format!("{path}{mark}limit={size}&continue={token}");
        }
    }

    /// Repeats an operation if a list in it expired, a limited number of times.
    pub(crate) async fn again<T>(&self, mut read: impl AsyncFnMut() -> Result<T>) -> Result<T> {
        let mut begun = 1;
        loop {
            match read().await {
                Err(error) if error.kind == ErrorKind::Expired && begun < BEGINNINGS => begun += 1,
                done => return done,
            }
        }
    }

    /// Reads all pages of a list in JSON; `read` returns the kept part of an object, if any.
    pub(crate) async fn list<T, E: Display>(
        &self,
        call: Call,
        read: impl Fn(&str) -> std::result::Result<Option<T>, E>,
    ) -> Result<Vec<T>> {
        Ok(self.list_at(call, read).await?.0)
    }

    /// Does the same, and returns the list's version, too.
    pub(crate) async fn list_at<T, E: Display>(
        &self,
        call: Call,
        read: impl Fn(&str) -> std::result::Result<Option<T>, E>,
    ) -> Result<(Vec<T>, String)> {
        self.again(async || {
            let mut kept = Vec::new();
            let take = |item: Object<'_>| {
                let json = item.json().map_err(|error| error.to_string())?;
                kept.extend(read(json).map_err(|error| error.to_string())?);
                Ok::<(), String>(())
            };
            let version = self.each(call.clone(), Pages::All, take).await?;
            Ok((kept, version))
        })
        .await
    }

    /// Does the same for a kind of which whole objects are kept.
    pub(crate) async fn list_whole<T: DeserializeOwned>(&self, path: String) -> Result<Vec<T>> {
        let read = |json: &str| serde_json::from_str(json).map(Some);
        self.list(Call::get(path), read).await
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(odd)
}

fn odd(error: impl Display) -> ApiError {
    ApiError::no_answer(format!("invalid response: {error}"))
}
