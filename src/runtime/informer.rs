//! Lists a kind and watches it, for ever: what the cluster has, the store has.
//!
//! A list comes in pages; objects that it does not show are taken out once it is complete. A watch
//! goes on from the version it was last told of, also after a broken connection; when that version
//! is too old (410), a new list starts. Nothing is missed and, as facts carry versions, nothing is
//! taken in twice.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use hashbrown::HashSet;
use tokio::time::{sleep, timeout};

use crate::{
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
    pub(super) after: Option<tokio::sync::watch::Receiver<bool>>,
    /// Set once the first list is complete.
    pub(super) synced: tokio::sync::watch::Sender<bool>,
}

impl Informer {
    /// Keeps the store up to date, for ever.
    pub(super) async fn run(mut self) {
        if let Some(after) = &mut self.after
            && after.wait_for(|synced| *synced).await.is_err()
        {
            return;
        }
        let mut failures = 0;
        loop {
            let error = match self.list().await {
                Ok(listed) => {
                    let mut version = listed;
                    let error = self.watch_from(&mut version).await;
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

    /// Takes in all there is; gives the version that the list shows.
    async fn list(&self) -> Result<u64, ApiError> {
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
            self.intake.page(&page, &mut listed);
            token = page.continue_token;
            if token.is_empty() {
                let version = page.resource_version.parse().unwrap_or(0);
                self.intake.finish_list(&listed, version);
                self.synced.send_replace(true);
                return Ok(version);
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
            if matches!(error.kind, ErrorKind::Expired | ErrorKind::Refused) {
                return error;
            }
            failures = if *version > before { 1 } else { failures + 1 };
            tracing::debug!(kind = self.intake.kind(), %error, "watch broke");
            sleep(error.retry_after.unwrap_or(RETRY.delay(failures))).await;
        }
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
        let mut splitter = Splitter::new(encoding);
        let mut news = News::default();
        loop {
            let next = timeout(SILENCE, pieces.next()).await;
            let Ok(next) = next else {
                return Err(ApiError::no_answer("the watch went silent"));
            };
            let Some(piece) = next else { return Ok(()) };
            let taken_in = splitter.push(&piece?, |event| {
                self.intake.event(encoding, event, version, &mut news)
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
