//! Lists and watches a kind on any API server over HTTP, until the receiver is closed.
//!
//! A watch that ends resumes from its last resourceVersion. A busy server ends watches that lag behind, and a relist of
//! all Pods would load it more than the test does. Only an expired resourceVersion or a refused watch causes a relist.
//!
//! Must not: read more of the objects than their resourceVersion.

use std::{fmt::Display, time::Duration};

use futures::StreamExt as _;
use lakh::{
    client::{Client, Lines},
    wire::{ApiError, ErrorKind, WatchEvent, decode_list_page, decode_watch_line},
};
use serde::Deserialize;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::target::patiently;

/// Objects per page of a list.
const PAGE_SIZE: u32 = 500;

/// Requested duration of a watch.
const WATCH_SECONDS: u64 = 3600;

/// A watch without data for this long is dead: the server sends a bookmark each minute.
const SILENCE: Duration = Duration::from_secs(150);

/// Delay after a failed list or watch.
const PAUSE: Duration = Duration::from_secs(1);

/// An event of an object, with its JSON.
pub(crate) enum News {
    /// It was added or modified.
    Applied(String),
    /// It was deleted; this is its last version.
    Deleted(String),
}

/// The followed objects: a collection, or those of it that match a field selector.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    /// The collection.
    pub(crate) path: String,
    /// A field selector, encoded for a URL; empty for all.
    pub(crate) fields: &'static str,
}

impl Followed {
    fn with(&self, query: &str) -> String {
        let Self { path, fields } = self;
        format!("{path}?fieldSelector={fields}&{query}")
    }
}

/// Lists and watches. An object deleted between a watch and the next list goes unnoticed.
pub(crate) async fn follow(client: Client, followed: Followed, news: mpsc::Sender<Vec<News>>) {
    while !news.is_closed() {
        let mut listed = list(&client, &followed, &news).await;
        while let Ok(version) = &mut listed {
            if news.is_closed() {
                return;
            }
            if let Err(error) = watch(&client, &followed, &news, version).await {
                if matches!(error.kind, ErrorKind::Expired | ErrorKind::Refused) {
                    listed = Err(error);
                } else {
                    eprintln!("watching {} again: {error}", followed.path);
                    sleep(PAUSE).await;
                }
            }
        }
        if let Err(error) = listed {
            eprintln!("relisting {}: {error}", followed.path);
            sleep(PAUSE).await;
        }
    }
}

/// Sends all objects; returns the resourceVersion of the list.
async fn list(
    client: &Client,
    followed: &Followed,
    news: &mpsc::Sender<Vec<News>>,
) -> Result<String, ApiError> {
    let mut token = String::new();
    loop {
        let page = followed.with(&format!("limit={PAGE_SIZE}&continue={token}"));
        let body = patiently(|| client.get(&page)).await?;
        let page = decode_list_page(&body).map_err(odd)?;
        let objects = page.items.iter();
        send_news(
            news,
            objects
                .map(|object| object.json().map(|json| News::Applied(json.to_owned())))
                .collect::<Result<_, _>>()
                .map_err(odd)?,
        )
        .await;
        token = page.continue_token;
        if token.is_empty() {
            return Ok(page.resource_version);
        }
    }
}

/// Sends all events after `version` until the watch ends, and advances `version`.
async fn watch(
    client: &Client,
    followed: &Followed,
    news: &mpsc::Sender<Vec<News>>,
    version: &mut String,
) -> Result<(), ApiError> {
    let path = followed.with(&format!(
        "watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
    ));
    let mut pieces = client.watch(&path).await?;
    let mut lines = Lines::default();
    loop {
        let piece = timeout(SILENCE, pieces.next()).await;
        let Some(piece) =
            piece.map_err(|_| ApiError::no_answer("the watch received no data in time"))?
        else {
            return Ok(());
        };
        let mut batch = Vec::new();
        let mut bookmark = None;
        lines.push(&piece?, |line| {
            let (as_news, object): (fn(String) -> News, _) =
                match decode_watch_line(line).map_err(odd)? {
                    WatchEvent::Applied(object) => (News::Applied, object),
                    WatchEvent::Deleted(object) => (News::Deleted, object),
                    WatchEvent::Bookmark(seen) => {
                        bookmark = Some(seen);
                        return Ok(());
                    }
                    WatchEvent::Error(error) => return Err(error),
                };
            batch.push(as_news(object.json().map_err(odd)?.to_owned()));
            bookmark = None;
            Ok(())
        })?;
        if let Some(seen) = bookmark {
            *version = seen;
        } else if let Some(last) = batch.last() {
            *version = last.version()?;
        }
        send_news(news, batch).await;
    }
}

impl News {
    /// Returns the resourceVersion of the object.
    fn version(&self) -> Result<String, ApiError> {
        #[derive(Deserialize)]
        struct View {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            resource_version: String,
        }
        let (Self::Applied(json) | Self::Deleted(json)) = self;
        let view: View = serde_json::from_str(json).map_err(odd)?;
        Ok(view.metadata.resource_version)
    }
}

/// Sends events. A closed receiver is noticed before the next list or watch.
async fn send_news(news: &mpsc::Sender<Vec<News>>, batch: Vec<News>) {
    let _ = news.send(batch).await;
}

fn odd(error: impl Display) -> ApiError {
    ApiError::no_answer(format!("invalid response: {error}"))
}
