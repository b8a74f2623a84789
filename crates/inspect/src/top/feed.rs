//! Lists a kind, watches it, and sends its objects and changes to the model, until it is aborted.
//!
//! Errors are reported and retried: a server that is away comes back. Where a watch is not allowed, the list is
//! repeated at intervals. Must not: know the kind, or keep objects.

use std::{rc::Rc, time::Duration};

use futures::StreamExt as _;
use tokio::{
    sync::mpsc::Sender,
    time::{sleep, timeout},
};

use lakh_client::Lines;
use lakh_clock::instant;
use lakh_wire::{ApiError, Call, ErrorKind, WatchEvent, decode_watch_line};

use crate::ask::Asker;

use super::model::TopInput;

/// A kind that can be fed.
pub(super) trait Fed: Sized {
    /// The part of a listed object that is sent.
    type Row;

    /// Decodes an object.
    fn read(json: &str) -> Result<Self, serde_json::Error>;

    /// Returns its `metadata.resourceVersion`.
    fn version(&self) -> String;

    /// Returns the part that is sent for a list.
    fn row(&self) -> Self::Row;
}

/// A message of a feed.
#[derive(Debug)]
pub(super) enum FeedNews<T: Fed> {
    /// A complete list.
    Listed(Vec<T::Row>),
    /// An object was added or modified.
    Applied(Box<T>),
    /// An object was deleted.
    Deleted(T::Row),
    /// Lists or watches fail with this error. The model may be out of date.
    Broken(ApiError),
    /// Watching is not allowed, so changes arrive late.
    Unwatched(ApiError),
    /// The watch works again.
    Back,
}

/// The first and the longest backoff. Ten seconds are short enough for a view to recover.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Interval of lists where watching is not allowed.
const POLL: Duration = Duration::from_secs(5);

/// Lists then take at most a twentieth of the time, however long one takes.
const LIST_SHARE: u32 = 20;

/// Time without data after which a watch is reopened: a server sends a bookmark each minute, and a dead connection may
/// not report an error.
const SILENCE: Duration = Duration::from_secs(90);

/// Sends the objects at a path, until it is aborted.
pub(super) struct Feeder<T: Fed> {
    asker: Rc<Asker>,
    path: String,
    listener: Sender<TopInput>,
    /// Wraps a message as an input of the model.
    input: Box<dyn Fn(FeedNews<T>) -> TopInput>,
    pause: Duration,
    /// Duration of the last list.
    took: Duration,
}

impl<T: Fed> Feeder<T> {
    pub(super) fn new(
        asker: Rc<Asker>,
        path: String,
        listener: Sender<TopInput>,
        input: impl Fn(FeedNews<T>) -> TopInput + 'static,
    ) -> Self {
        Self {
            asker,
            path,
            listener,
            input: Box::new(input),
            pause: FIRST_PAUSE,
            took: Duration::ZERO,
        }
    }

    /// Lists and watches, forever. The caller aborts the task.
    pub(super) async fn run(mut self) {
        loop {
            let begun = instant();
            match self.list().await {
                Ok((rows, version)) => {
                    self.took = begun.elapsed();
                    self.tell(FeedNews::Listed(rows)).await;
                    self.follow(version).await;
                }
                Err(error) => {
                    self.tell(FeedNews::Broken(error)).await;
                    self.wait().await;
                }
            }
        }
    }

    async fn tell(&self, news: FeedNews<T>) {
        let _ = self.listener.send((self.input)(news)).await;
    }

    async fn list(&self) -> Result<(Vec<T::Row>, String), ApiError> {
        // Objects that cannot be decoded are left out.
        let read = |json: &str| Ok::<_, String>(T::read(json).ok().map(|it| it.row()));
        self.asker.list_at(Call::get(&self.path), read).await
    }

    /// Watches from a version on, until a new list is needed.
    async fn follow(&mut self, mut version: String) {
        loop {
            let begun = instant();
            let Err(error) = self.watch(&mut version).await else {
                // Limits the rate of reopening if a server ends each watch at once.
                sleep(FIRST_PAUSE.saturating_sub(begun.elapsed())).await;
                continue;
            };
            let is_away = error.code == 0;
            match error.code {
                _ if error.kind == ErrorKind::Expired => {
                    sleep(FIRST_PAUSE.saturating_sub(begun.elapsed())).await;
                }
                403 | 405 => {
                    self.tell(FeedNews::Unwatched(error)).await;
                    sleep(POLL.max(self.took * LIST_SHARE)).await;
                }
                _ => {
                    self.tell(FeedNews::Broken(error)).await;
                    self.wait().await;
                }
            }
            // After a lost connection the watch continues from its version.
            if !is_away {
                return;
            }
        }
    }

    /// Sends the events of a watch until it ends, and advances `version`.
    async fn watch(&mut self, version: &mut String) -> Result<(), ApiError> {
        let mark = if self.path.contains('?') { '&' } else { '?' };
        let path = format!(
            "{}{mark}watch=true&allowWatchBookmarks=true&resourceVersion={version}",
            self.path
        );
        let mut pieces = self.asker.watch(&path).await?;
        self.pause = FIRST_PAUSE;
        self.tell(FeedNews::Back).await;
        let mut lines = Lines::default();
        // Silence ends it, as the end of the stream does.
        while let Ok(Some(piece)) = timeout(SILENCE, pieces.next()).await {
            let mut news = Vec::new();
            lines.push(&piece?, |line| {
                news.extend(read_line::<T>(line, version)?);
                Ok::<(), ApiError>(())
            })?;
            for one in news {
                self.tell(one).await;
            }
        }
        Ok(())
    }

    async fn wait(&mut self) {
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}

fn read_line<T: Fed>(line: &[u8], version: &mut String) -> Result<Option<FeedNews<T>>, ApiError> {
    let odd = |error: serde_json::Error| ApiError::no_answer(format!("odd event: {error}"));
    Ok(match decode_watch_line(line).map_err(odd)? {
        WatchEvent::Applied(object) => object.json().and_then(T::read).ok().map(|it| {
            *version = it.version();
            FeedNews::Applied(Box::new(it))
        }),
        WatchEvent::Deleted(object) => object.json().and_then(T::read).ok().map(|it| {
            *version = it.version();
            FeedNews::Deleted(it.row())
        }),
        WatchEvent::Bookmark(place) => {
            *version = place;
            None
        }
        WatchEvent::Error(error) => return Err(error),
    })
}
