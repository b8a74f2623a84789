//! Builds response bodies: bytes, lists encoded in chunks, and watch streams.
//!
//! Responsible for: turning replies into HTTP bodies. Must not: hold the lock while encoding.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use tokio::{sync::watch, time::timeout_at};
use tokio_util::sync::CancellationToken;

use super::{faults, shared::SharedApi};
use crate::{
    apiserver::{
        Body, ListBody, WatchCursor,
        faults::{Course, ObservedRequest, expired_event},
    },
    clock::instant,
    model::Monotonic,
};

/// Any response body.
pub(super) type HttpBody = UnsyncBoxBody<Bytes, Infallible>;

/// Size of the chunks of a list response: large enough to make system calls rare.
const LIST_CHUNK: usize = 256 * 1024;
/// Maximum number of events that a watch takes per lock.
const WATCH_BATCH: usize = 512;
/// Interval of bookmarks on an idle watch that wants them.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Duration of a watch without `timeoutSeconds`.
const DEFAULT_WATCH: Duration = Duration::from_secs(45 * 60);

/// Returns a body of complete bytes.
fn full(bytes: impl Into<Bytes>) -> HttpBody {
    Full::new(bytes.into()).boxed_unsync()
}

/// Returns the body of a complete reply.
pub(super) fn complete(body: Body) -> HttpBody {
    match body {
        Body::Bytes(bytes) => full(bytes),
        Body::Object(object) => full(object.bytes().to_vec()),
        Body::List(list) => listed(list),
    }
}

fn listed(mut list: Box<ListBody>) -> HttpBody {
    let mut first = Vec::new();
    list.encode_some(LIST_CHUNK, &mut first);
    let mut second = Vec::new();
    if !list.encode_some(LIST_CHUNK, &mut second) {
        return full(first);
    }
    let rest = stream::unfold(list, |mut list| async move {
        let mut out = Vec::with_capacity(LIST_CHUNK + LIST_CHUNK / 8);
        list.encode_some(LIST_CHUNK, &mut out)
            .then(|| (frame(out), list))
    });
    let begun = stream::iter([first, second].map(frame));
    BodyExt::boxed_unsync(StreamBody::new(begun.chain(rest)))
}

struct Watching {
    api: Arc<SharedApi>,
    cursor: Box<WatchCursor>,
    changes: watch::Receiver<u64>,
    /// The request, for matching against fault rules.
    request: Option<ObservedRequest>,
    opened: Monotonic,
    rules: watch::Receiver<()>,
    stopped: CancellationToken,
    deadline: Instant,
    next_bookmark: Instant,
    over: bool,
}

/// Returns the event stream of a watch.
pub(super) fn watching(
    api: Arc<SharedApi>,
    cursor: Box<WatchCursor>,
    request: Option<ObservedRequest>,
    stopped: CancellationToken,
) -> HttpBody {
    let start = instant();
    let watching = Watching {
        changes: api.changes(cursor.kind()),
        deadline: start + cursor.timeout().unwrap_or(DEFAULT_WATCH),
        next_bookmark: start + BOOKMARK_EVERY,
        over: false,
        request,
        opened: api.now().monotonic,
        rules: api.faults().changes(),
        api,
        cursor,
        stopped,
    };
    let frames = stream::unfold(watching, |mut watching| async move {
        let bytes = watching.next().await?;
        Some((frame(bytes), watching))
    });
    BodyExt::boxed_unsync(StreamBody::new(frames))
}

impl Watching {
    /// Returns the next frames; `None` at the end.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if self.over || self.cursor.ended() || self.stopped.is_cancelled() {
                return None;
            }
            let next_fault = match self.course() {
                Course::On(next) => next,
                Course::Held(until) => {
                    self.wait_for_rules(until).await;
                    continue;
                }
                Course::Closed => return None,
                Course::Expired => {
                    self.over = true;
                    return Some(expired_event());
                }
            };
            self.changes.mark_unchanged();
            let pulled = self.api.pull(&mut self.cursor, WATCH_BATCH);
            if !pulled.is_empty() {
                let mut out = Vec::with_capacity(4096);
                self.cursor.encode(pulled, self.api.now().wall, &mut out);
                if !out.is_empty() {
                    return Some(self.sent(out).await);
                }
                continue;
            }
            let now = instant();
            if now >= self.next_bookmark || now >= self.deadline {
                self.next_bookmark = now + BOOKMARK_EVERY;
                self.over = now >= self.deadline;
                let mut out = Vec::new();
                self.cursor.encode_bookmark(&mut out);
                if !out.is_empty() {
                    return Some(out);
                }
                continue;
            }
            self.wait(self.deadline.min(self.next_bookmark), next_fault)
                .await;
        }
    }

    /// Returns the fault rules' decision for this watch; usually to go on.
    fn course(&mut self) -> Course {
        self.rules.mark_unchanged();
        match &self.request {
            Some(request) if self.api.faults().are_any() => {
                let (opened, now) = (self.opened, self.api.now().monotonic);
                self.api.faults().lock().judge_watch(request, opened, now)
            }
            Some(_) | None => Course::On(None),
        }
    }

    /// Applies faults to encoded events: delays or duplicates them.
    async fn sent(&mut self, lines: Vec<u8>) -> Vec<u8> {
        let faults = self.api.faults();
        let Some(request) = self.request.as_ref().filter(|_| faults.are_any()) else {
            return lines;
        };
        let now = self.api.now().monotonic;
        let sending = faults.lock().judge_events(request, now);
        if !sending.delay.is_zero() {
            let delay = tokio::time::sleep(sending.delay);
            self.stopped.run_until_cancelled(delay).await;
        }
        match sending.twice {
            true => faults::twice(&lines),
            false => lines,
        }
    }

    async fn wait_for_rules(&mut self, until: Option<Monotonic>) {
        tokio::select! {
            _ = self.rules.changed() => {}
            () = self.api.sleep_until(until) => {}
            () = self.stopped.cancelled() => {}
        }
    }

    /// Waits for an event, a change of the fault rules, a deadline, a fault, or the server's shutdown.
    async fn wait(&mut self, until: Instant, fault: Option<Monotonic>) {
        let change = async {
            tokio::select! {
                // Both senders outlive this stream; an error would only mean shutdown.
                _ = self.changes.changed() => {}
                _ = self.rules.changed() => {}
                () = self.api.sleep_until(fault) => {}
                () = self.stopped.cancelled() => {}
            }
        };
        // A timeout is not an error here; the caller checks the clock.
        let _ = timeout_at(until.into(), change).await;
    }
}

fn frame(bytes: Vec<u8>) -> Result<Frame<Bytes>, Infallible> {
    Ok(Frame::data(Bytes::from(bytes)))
}
