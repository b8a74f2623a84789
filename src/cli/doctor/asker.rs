//! Asks the API server, page by page, and once more where it is too busy.
//!
//! Must not: know what is asked for.

use std::{fmt::Display, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    clock::{Clock, instant},
    cluster::{Client, Result},
    model::Time,
    wire::{ApiError, Call, ErrorKind, decode_list_page},
};

/// Objects in a page. kubectl asks for as many.
const PAGE_SIZE: usize = 500;

/// How often a call is made that the server is too busy for.
const TRIES: u32 = 5;

/// How long to wait where the server is too busy and does not say for how long.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// See the module's text.
#[derive(Debug)]
pub(super) struct Asker {
    client: Client,
    clock: Clock,
}

/// An answer with what is around it.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// When it came, by our clock.
    pub(super) came: Time,
    /// How long it took.
    pub(super) took: Duration,
}

impl Asker {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            clock: Clock::default(),
        }
    }

    /// Our clock.
    pub(super) fn now(&self) -> Time {
        self.clock.now().wall
    }

    /// Makes a call; an answer that is no success becomes an error.
    pub(super) async fn send(&self, call: &Call) -> Result<Bytes> {
        let mut tries = 1;
        loop {
            let answer = self.client.send(call).await;
            match &answer {
                Err(error) if error.kind == ErrorKind::Busy && tries < TRIES => {
                    tokio::time::sleep(error.retry_after.unwrap_or(BUSY_WAIT)).await;
                    tries += 1;
                }
                Ok(_) | Err(_) => return answer,
            }
        }
    }

    /// GET of an object.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        read(&self.send(&Call::get(path)).await?)
    }

    /// Posts something that is answered and not kept, a review.
    pub(super) async fn review(&self, path: &str, body: &Value) -> Result<Value> {
        read(
            &self
                .send(&Call::create_whole(path, body.to_string()))
                .await?,
        )
    }

    /// Makes a call once: whatever is answered, with what is around it.
    pub(super) async fn exchange(&self, call: &Call) -> Result<Reply> {
        let begun = instant();
        let answer = self.client.exchange(call).await?;
        let (came, took) = (self.now(), begun.elapsed());
        let (head, body) = Response::into_parts(answer);
        Ok(Reply {
            headers: head.headers,
            body,
            came,
            took,
        })
    }

    /// Reads all pages of a list; `read` makes of an object what is kept of it.
    pub(super) async fn list<T, E: Display>(
        &self,
        mut call: Call,
        read: impl Fn(&str) -> std::result::Result<Option<T>, E>,
    ) -> Result<Vec<T>> {
        let path = call.path.clone();
        let mark = if path.contains('?') { '&' } else { '?' };
        let mut kept = Vec::new();
        call.path = format!("{path}{mark}limit={PAGE_SIZE}");
        loop {
            let body = self.send(&call).await?;
            let page = decode_list_page(&body).map_err(odd)?;
            for item in page.items {
                let json = item.json().map_err(odd)?;
                kept.extend(read(json).map_err(odd)?);
            }
            if page.continue_token.is_empty() {
                return Ok(kept);
            }
            let token = page.continue_token;
            call.path = format!("{path}{mark}limit={PAGE_SIZE}&continue={token}");
        }
    }

    /// The same of a kind of which all is kept.
    pub(super) async fn list_whole<T: DeserializeOwned>(&self, path: String) -> Result<Vec<T>> {
        let read = |json: &str| serde_json::from_str(json).map(Some);
        self.list(Call::get(path), read).await
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(odd)
}

fn odd(error: impl Display) -> ApiError {
    ApiError::no_answer(format!("the answer cannot be read: {error}"))
}
