//! Lists a kind and watches it, and tells what there is and what has changed, for as long as somebody listens.
//!
//! Trouble is told as it comes, and tried again: a server that is away comes back. Where a watch is not allowed, the list
//! is read anew now and then. Must not: know what is told of, or keep any of it.

use std::{rc::Rc, time::Duration};

use futures::StreamExt as _;
use tokio::{
    sync::mpsc::Sender,
    time::{sleep, timeout},
};

use crate::{
    cli::ask::Asker,
    clock::instant,
    cluster::Lines,
    wire::{ApiError, Call, ErrorKind, WatchEvent, decode_watch_line},
};

use super::model::TopInput;

/// What a feed can tell of.
pub(super) trait Fed: Sized {
    /// What of it is told of each object of a list.
    type Row;

    /// Reads one.
    fn read(json: &str) -> Result<Self, serde_json::Error>;

    /// Its `metadata.resourceVersion`.
    fn version(&self) -> String;

    /// What is told of it in a list.
    fn row(&self) -> Self::Row;
}

/// What a feed tells.
#[derive(Debug)]
pub(super) enum FeedNews<T: Fed> {
    /// All there is.
    Listed(Vec<T::Row>),
    /// There is a new one, or a new version.
    Applied(Box<T>),
    /// It is gone.
    Deleted(T::Row),
    /// Nothing is heard, for this reason. What was told before may be out of date.
    Broken(ApiError),
    /// It may not be watched, so that changes come late.
    Unwatched(ApiError),
    /// All is well again.
    Back,
}

/// How long to wait after the first failure, and at most. A view that is back after ten seconds is back.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How often a list is read where it may not be watched.
const POLL: Duration = Duration::from_secs(5);

/// However long a list takes, this is how much of the time goes into lists then: a twentieth.
const LIST_SHARE: u32 = 20;

/// A watch that says nothing for so long is opened anew: a server sends a bookmark each minute, and a connection may
/// be dead without saying so.
const SILENCE: Duration = Duration::from_secs(90);

/// Tells of what is at a path, until nobody listens.
pub(super) struct Feeder<T: Fed> {
    asker: Rc<Asker>,
    path: String,
    listener: Sender<TopInput>,
    /// Makes an input of what is told.
    input: Box<dyn Fn(FeedNews<T>) -> TopInput>,
    pause: Duration,
    /// How long the last list took.
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

    /// Lists and watches. Who does not listen any more ends this from outside.
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
        // One that cannot be read is not shown.
        let read = |json: &str| Ok::<_, String>(T::read(json).ok().map(|it| it.row()));
        self.asker.list_at(Call::get(&self.path), read).await
    }

    /// Watches from a version on, until all has to be listed anew.
    async fn follow(&mut self, mut version: String) {
        loop {
            let begun = instant();
            let Err(error) = self.watch(&mut version).await else {
                // A server that ends each watch at once is not asked more often than that.
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
            // What was only away goes on from where it was.
            if !is_away {
                return;
            }
        }
    }

    /// Tells what a watch says until that ends; `version` is how far it came.
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
        // NoNews ends it, as the end of the stream does.
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
