//! Lists a kind and watches it, for ever: what the cluster has, the store has.
//!
//! A list comes in pages; objects that it does not show are taken out once it is complete. A watch
//! goes on from the version it was last told of, also after a broken connection; when that version
//! is too old (410), a new list starts. Nothing is missed and, as facts carry versions, nothing is
//! taken in twice.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use hashbrown::HashSet;
use tokio::time::{sleep, timeout};

use crate::{
    clock::instant,
    cluster::{Client, Encoding, Splitter, Watch},
    model::Exponential,
    wire::{ApiError, ErrorKind, decode_list_page},
};

use super::{
    intake::{Intake, News, Watched},
    metrics::Kind,
    throttle::Throttle,
};

/// Objects per page of a list: what the standard client asks for.
const PAGE_SIZE: u32 = 500;

/// How long the server keeps a watch open.
const WATCH_SECONDS: u64 = 290;

/// How long a watch may be silent before it is taken for dead: a server sends a bookmark about once
/// a minute. To watch again from where one is costs little.
const SILENCE: Duration = Duration::from_secs(90);

/// How long lists must be older than what was told before, to be believed: a server that is only behind
/// catches up by then, as it waits 3 s itself to become as new as it is asked to be.
const OLDER_FOR: Duration = Duration::from_secs(5);

/// How long to wait before the next try when the server does not answer.
pub(super) const RETRY: Exponential = Exponential {
    base: Duration::from_millis(200),
    max: Duration::from_secs(30),
};

/// One list and watch of a kind, in one namespace or all.
#[derive(Debug)]
pub(super) struct Informer {
    pub(super) intake: Intake,
    pub(super) client: Client,
    pub(super) throttle: Arc<Throttle>,
    /// Whose first list comes before ours: a Pod is compared with its Job's selector as it comes.
    pub(super) after: Option<tokio::sync::watch::Receiver<Synced>>,
    /// Set once the first list is complete.
    pub(super) synced: tokio::sync::watch::Sender<Synced>,
    /// How far the server has told.
    pub(super) told: Told,
}

/// The history in which a kind has been listed last.
pub(super) type Synced = Option<u64>;

/// How far the server has told of a kind.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// In which history.
    history: u64,
    /// The newest version of it.
    newest: u64,
    /// Since when lists are older.
    older_since: Option<Instant>,
}

impl Informer {
    /// Keeps the store up to date, for ever.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        loop {
            let history = self.intake.store.history.number();
            if let Some(after) = &mut self.after
                && after
                    .wait_for(|synced| *synced >= Some(history))
                    .await
                    .is_err()
            {
                return;
            }
            if history != self.told.history {
                self.intake.forget();
                self.told = Told {
                    history,
                    ..Told::default()
                };
            }
            let error = match self.list().await {
                Ok(None) => self.told_older(),
                Ok(Some(listed)) => {
                    let mut version = listed;
                    let error = self.watch_from(&mut version).await;
                    self.told.newest = self.told.newest.max(version);
                    tracing::debug!(kind = self.intake.kind(), %error, "listing anew");
                    if version > listed {
                        failures = 0;
                        continue;
                    }
                    error
                }
                Err(error) => {
                    tracing::warn!(kind = self.intake.kind(), %error, "list failed");
                    error
                }
            };
            failures += 1;
            sleep(error.retry_after.unwrap_or(RETRY.delay(failures))).await;
        }
    }

    /// A list was older than what was told before.
    fn told_older(&mut self) -> ApiError {
        let history = &self.intake.store.history;
        let since = *self.told.older_since.get_or_insert_with(|| {
            history.doubted(self.told.history);
            instant()
        });
        if since.elapsed() >= OLDER_FOR {
            tracing::warn!(
                kind = self.intake.kind(),
                "the API server has older data than it had, as if restored from a backup; starting anew"
            );
            history.ends(self.told.history);
        }
        ApiError::behind()
    }

    /// Takes in all there is; gives the version that the list shows, unless it is older than what was told
    /// before.
    async fn list(&mut self) -> Result<Option<u64>, ApiError> {
        let mut listed = HashSet::new();
        let mut token = String::new();
        loop {
            self.throttle.pass().await;
            let path = format!("{}?limit={PAGE_SIZE}&continue={token}", self.intake.path());
            let body = match self.intake.watched {
                Watched::Pods => self.client.get_compact(&path).await,
                _ => self.client.get(&path).await,
            };
            let code = body.as_ref().map_or_else(|error| error.code, |_| 200);
            self.intake.metrics.call("list", self.intake.kind(), code);
            let body = body?;
            let page = decode_list_page(&body)
                .map_err(|error| ApiError::no_answer(format!("odd list: {error}")))?;
            let version = page.resource_version.parse().unwrap_or(0);
            if version < self.told.newest || !self.intake.page(&page, version, &mut listed) {
                return Ok(None);
            }
            token = page.continue_token;
            if token.is_empty() {
                self.intake.finish_list(&listed, version);
                self.told.newest = version;
                let (history, number) = (&self.intake.store.history, self.told.history);
                let mut has_turns = false;
                if self.told.older_since.take().is_some() {
                    has_turns |= history.trusted(number);
                }
                if self.synced.send_replace(Some(number)) != Some(number) {
                    has_turns |= history.listed(number);
                }
                if has_turns {
                    self.intake.queue_all();
                }
                return Ok(Some(version));
            }
        }
    }

    /// Watches from a version on, until that is no longer possible.
    async fn watch_from(&self, version: &mut u64) -> ApiError {
        let mut failures = 0;
        loop {
            let before = *version;
            let error = match self.watch_once(version).await {
                Ok(()) => {
                    failures = 0;
                    continue;
                }
                Err(error) => error,
            };
            let is_anew = self.intake.store.history.number() != self.told.history;
            let is_over = matches!(
                error.kind,
                ErrorKind::Expired | ErrorKind::Refused | ErrorKind::Ahead
            );
            if is_over || is_anew {
                return error;
            }
            failures = if *version > before { 1 } else { failures + 1 };
            tracing::debug!(kind = self.intake.kind(), %error, "watch broke");
            sleep(error.retry_after.unwrap_or(RETRY.delay(failures))).await;
            if error.code == 0 && self.is_behind(*version).await {
                return ApiError::behind();
            }
        }
    }

    /// Whether the server, after it could not be heard, has not come as far as it had. A watch from a
    /// version that is still to come would be open, and tell nothing.
    async fn is_behind(&self, version: u64) -> bool {
        self.throttle.pass().await;
        let path = format!("{}?limit=1", self.intake.path());
        let answer = self.client.get(&path).await;
        let code = answer.as_ref().map_or_else(|error| error.code, |_| 200);
        self.intake.metrics.call("list", self.intake.kind(), code);
        let page = answer.ok();
        let page = page.as_ref().and_then(|body| decode_list_page(body).ok());
        let at = page.and_then(|page| page.resource_version.parse::<u64>().ok());
        at.is_some_and(|at| at < version)
    }

    /// One watch, to its regular end.
    async fn watch_once(&self, version: &mut u64) -> Result<(), ApiError> {
        self.intake
            .metrics
            .watches
            .get_or_create(&Kind {
                kind: self.intake.kind(),
            })
            .inc();
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}",
            self.intake.path()
        );
        let Watch {
            encoding,
            mut pieces,
        } = self.watch(&path).await?;
        let from = *version;
        let mut ended = pin!(self.intake.store.history.ended(self.told.history));
        let mut splitter = Splitter::new(encoding);
        let mut news = News::default();
        loop {
            let next = tokio::select! {
                next = timeout(SILENCE, pieces.next()) => next,
                () = &mut ended => return Err(ApiError::behind()),
            };
            let Ok(next) = next else {
                return Err(ApiError::no_answer("the watch went silent"));
            };
            let Some(piece) = next else { return Ok(()) };
            let taken_in = splitter.push(&piece?, |event| {
                self.intake.event(encoding, event, from, version, &mut news)
            });
            self.intake.queue(&mut news);
            taken_in?;
        }
    }

    /// Pods make nearly all the traffic: only they are worth a second encoding.
    async fn watch(&self, path: &str) -> Result<Watch, ApiError> {
        if matches!(self.intake.watched, Watched::Pods) {
            return self.client.watch_compact(path).await;
        }
        Ok(Watch {
            encoding: Encoding::Json,
            pieces: self.client.watch(path).await?,
        })
    }
}
