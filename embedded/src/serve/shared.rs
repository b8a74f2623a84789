//! The server's state behind one lock, and wake-ups for those that wait for changes.
//!
//! Responsible for: holding the lock briefly, and waking after commits. Must not: know HTTP.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{
    ServeOptions,
    counts::{RequestCount, RequestCounts},
    faults::SharedFaults,
    saver::{Saver, Ticket},
    state_file::{About as _, FileError, Loaded, StateFile},
};
use crate::{
    apiserver::{
        ApiServer, Event, KINDS, Kind, Label, Limits, Prepared, Pulled, Reply, Request, Stored,
        WatchCursor, faults::Faults, prepare,
    },
    clock::Clock,
    model::{Now, Time, Timeout},
};

/// The last line of OpenMetrics.
const END: &str = "# EOF\n";

/// Garbage-collection steps per lock, so that requests wait no longer than for a small list.
const GARBAGE_BATCH: usize = 64;

/// Tells metrics in the text format of OpenMetrics.
struct Teller(Box<dyn Fn() -> String + Send>);

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Teller")
    }
}

/// An API server that many tasks may use.
#[derive(Debug)]
pub struct SharedApi {
    server: Mutex<ApiServer>,
    /// Log ends per kind, in the order of [`Kind`]; sent after each change.
    changes: Vec<watch::Sender<u64>>,
    garbage: Notify,
    counts: RequestCounts,
    faults: SharedFaults,
    /// The metrics of `/metrics`.
    metrics: Mutex<Registry>,
    /// Metrics there of another part of this process.
    told_by_others: Mutex<Option<Teller>>,
    clock: Clock,
    /// Saves each change, where that is asked for.
    saver: Option<Saver>,
}

impl SharedApi {
    pub(super) fn new(options: &ServeOptions, faults: Faults) -> Result<Self, FileError> {
        let (mut server, saver) = begin(options)?;
        server.set_pod_output(options.pod_output.clone());
        let changes = KINDS
            .iter()
            .map(|row| watch::Sender::new(server.log_end(row.kind)));
        let garbage = Notify::new();
        if server.garbage_pending() {
            garbage.notify_one();
        }
        let counts = RequestCounts::default();
        let mut metrics = Registry::default();
        metrics.register_collector(Box::new(counts.clone()));
        Ok(Self {
            changes: changes.collect(),
            server: Mutex::new(server),
            garbage,
            counts,
            faults: SharedFaults::new(faults),
            metrics: Mutex::new(metrics),
            told_by_others: Mutex::default(),
            clock: options.clock.clone(),
            saver,
        })
    }

    /// Waits until something could not be saved; for ever, if nothing is.
    pub async fn saving_failed(&self) -> String {
        match &self.saver {
            Some(saver) => saver.failure().await,
            None => std::future::pending().await,
        }
    }

    /// Saves what is not saved yet; nothing is saved from then on.
    pub(super) fn end_saving(&self) {
        if let Some(saver) = &self.saver {
            saver.end();
        }
    }

    /// Answers a request within this process.
    pub fn handle(&self, request: Request<'_>) -> Reply {
        self.handle_prepared(prepare(request)).0
    }

    /// Answers requests within this process, one after the other and nobody else's in between: who has
    /// many takes the lock once, and whoever watches is woken once. Each waits for all; so few at a time.
    pub fn handle_all<'a>(&self, requests: impl IntoIterator<Item = Request<'a>>) -> Vec<Reply> {
        let prepared: Vec<Prepared> = requests.into_iter().map(prepare).collect();
        let labels: Vec<Label> = prepared.iter().map(Prepared::label).collect();
        let (replies, _) = self.with_server(|server, now| -> Vec<Reply> {
            let prepared = prepared.into_iter();
            prepared
                .map(|prepared| server.handle_prepared(prepared, now))
                .collect()
        });
        for (label, reply) in labels.into_iter().zip(&replies) {
            self.count(label, reply.code());
        }
        replies
    }

    /// Answers a prepared request once what it has changed is saved, or what it was shown: nobody is to be told what a
    /// server that is killed would not know any more.
    pub(super) async fn answer(&self, prepared: Prepared) -> Reply {
        let (reply, ticket) = self.handle_prepared(prepared);
        if let (Some(saver), Some(ticket)) = (&self.saver, ticket)
            && let Err(why) = saver.saved(ticket).await
        {
            return Reply::not_saved(&why);
        }
        reply
    }

    /// Sets the certificate by which clients know this server.
    pub(super) fn set_root_ca(&self, pem: &str) {
        self.with_server(|server, _| server.set_root_ca(pem));
    }

    /// What the server's clocks show.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Waits until the server's clocks show this time; for ever, if there is none.
    pub async fn sleep_until(&self, due: impl Into<Timeout>) {
        self.clock.sleep_until(due).await;
    }

    /// Counters of the requests answered so far.
    pub fn request_counts(&self) -> Vec<RequestCount> {
        self.counts.snapshot()
    }

    /// Adds to the metrics of `/metrics`.
    pub fn with_metrics(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.metrics.lock());
    }

    /// Adds another source of metrics to `/metrics`, in the text format of OpenMetrics.
    pub fn tell_metrics_of(&self, teller: impl Fn() -> String + Send + 'static) {
        *self.told_by_others.lock() = Some(Teller(Box::new(teller)));
    }

    /// The metrics, in the text format of OpenMetrics.
    pub(super) fn metrics(&self) -> String {
        let others = self.told_by_others.lock();
        let mut text = others
            .as_ref()
            .map(|Teller(tell)| tell())
            .unwrap_or_default();
        drop(others);
        // There is one end, after all.
        text.truncate(text.trim_end_matches(END).len());
        // Writing to a string fails only if a metric's own encoder does; then what there is, is sent.
        let _ = encode(&mut text, &self.metrics.lock());
        text
    }

    /// Tells when a kind changes: the value is the end of its event log. Wait for it to change,
    /// then read [`Self::events`] from where you were.
    pub fn changes(&self, kind: Kind) -> watch::Receiver<u64> {
        self.changes[kind as usize].subscribe()
    }

    /// Up to `limit` events of a kind from a log position on; `None` if they have fallen out, and
    /// the reader starts again from [`Self::objects`].
    pub fn events(&self, kind: Kind, position: u64, limit: usize) -> Option<Vec<Event>> {
        self.server.lock().events(kind, position, limit)
    }

    /// Forgets all events, as a compaction does: every open watch ends with 410.
    pub fn forget_events(&self) {
        let mut server = self.server.lock();
        server.forget_events();
        self.publish_and_unlock(server, true);
    }

    /// All objects of a kind, and the log position from which later changes are read.
    pub fn objects(&self, kind: Kind) -> (Vec<Arc<Stored>>, u64) {
        let server = self.server.lock();
        (
            server.objects(kind).cloned().collect(),
            server.log_end(kind),
        )
    }

    /// Finds one object; `namespace` is empty for cluster-scoped kinds.
    pub fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.server.lock().get(kind, namespace, name)
    }

    /// The faults that were asked for.
    pub(super) fn faults(&self) -> &SharedFaults {
        &self.faults
    }

    /// Counts an answer that the server itself did not give.
    pub(super) fn count(&self, label: Label, code: u16) {
        self.counts.add(label, code);
    }

    /// Answers a prepared read as of so many changes ago, anything else as ever.
    pub(super) async fn answer_stale(&self, prepared: Prepared, changes: u64) -> Reply {
        if !prepared.is_read() {
            return self.answer(prepared).await;
        }
        let label = prepared.label();
        let mut server = self.server.lock();
        let reply = server.handle_stale(prepared, changes, self.now().wall);
        drop(server);
        if let Reply::Complete(response) = &reply {
            self.count(label, response.status);
        }
        reply
    }

    /// Answers a prepared request: decoding has been done without the lock. The ticket is for all that had changed by
    /// then, if that is to be saved.
    fn handle_prepared(&self, prepared: Prepared) -> (Reply, Option<Ticket>) {
        let label = prepared.label();
        let (reply, ticket) = self.with_server(|server, now| server.handle_prepared(prepared, now));
        self.count(label, reply.code());
        (reply, ticket)
    }

    /// Does something with the server under its lock, and notifies of the changes. The ticket is
    /// for all that has changed so far, if it is to be saved.
    fn with_server<T>(&self, act: impl FnOnce(&mut ApiServer, Time) -> T) -> (T, Option<Ticket>) {
        let now = self.now().wall;
        let mut server = self.server.lock();
        let before = server.version();
        let outcome = act(&mut server, now);
        let changed = server.version() != before;
        (outcome, self.publish_and_unlock(server, changed))
    }

    /// Takes entries for a watcher.
    pub(super) fn pull(&self, cursor: &mut WatchCursor, limit: usize) -> Pulled {
        self.server.lock().pull(cursor, limit)
    }

    /// One batch of garbage collection; true if more is left.
    fn collect_some_garbage(&self) -> bool {
        self.with_server(|server, now| server.collect_garbage(now, GARBAGE_BATCH))
            .0
    }

    fn publish_and_unlock(
        &self,
        server: parking_lot::MutexGuard<'_, ApiServer>,
        changed: bool,
    ) -> Option<Ticket> {
        if !changed {
            return self.saver.as_ref().map(Saver::last);
        }
        let ticket = self.saver.as_ref().map(|saver| saver.take(&server));
        for (row, sender) in KINDS.iter().zip(&self.changes) {
            let end = server.log_end(row.kind);
            sender.send_if_modified(|seen| std::mem::replace(seen, end) != end);
        }
        let garbage = server.garbage_pending();
        drop(server);
        if garbage {
            self.garbage.notify_one();
        }
        ticket
    }
}

/// A server with what was saved, or a new one; and who saves its changes, if they are to be saved.
fn begin(options: &ServeOptions) -> Result<(ApiServer, Option<Saver>), FileError> {
    let mut limits = Limits::default();
    limits.log_capacity = options.log_capacity.unwrap_or(limits.log_capacity);
    let new = || ApiServer::new(options.seed, limits, options.clock.now().wall);
    let Some(folder) = &options.state else {
        return Ok((new(), None));
    };
    let (file, loaded) = StateFile::open(folder)?;
    let known = loaded.is_some();
    let server = match loaded {
        Some(Loaded { version, objects }) => {
            ApiServer::restore(options.seed, limits, version, objects).about(file.path())?
        }
        None => new(),
    };
    let positions = KINDS.iter().map(|row| match known {
        true => server.log_end(row.kind),
        false => 0,
    });
    let saver = Saver::start(file, positions.collect())?;
    // The version of what was loaded is saved at once: it must not be given out twice.
    saver.take(&server);
    Ok((server, Some(saver)))
}

/// Works off garbage whenever there is some.
pub(super) async fn collect_garbage(api: Arc<SharedApi>, stopped: CancellationToken) {
    while let Some(()) = stopped.run_until_cancelled(api.garbage.notified()).await {
        while api.collect_some_garbage() && !stopped.is_cancelled() {
            tokio::task::yield_now().await;
        }
    }
}
