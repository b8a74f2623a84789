//! Guards the server's state with one lock and signals changes.
//!
//! Responsible for: holding the lock briefly, and waking watches after commits. Must not: know HTTP.

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

/// Last line of OpenMetrics.
const END: &str = "# EOF\n";

/// Garbage-collection steps per lock: requests wait no longer than for a small list.
const GARBAGE_BATCH: usize = 64;

/// Source of metrics in the OpenMetrics text format.
struct Teller(Box<dyn Fn() -> String + Send>);

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Teller")
    }
}

/// An API server for use by many tasks. One lock guards its objects.
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
    /// Metrics that another part of this process adds to `/metrics`.
    told_by_others: Mutex<Option<Teller>>,
    clock: Clock,
    /// Saves each change, if there is a state folder.
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

    /// Waits until a save fails, and returns the reason. Never returns if nothing is saved.
    pub async fn saving_failed(&self) -> String {
        match &self.saver {
            Some(saver) => saver.failure().await,
            None => std::future::pending().await,
        }
    }

    /// Saves all unsaved changes; later changes are not saved.
    pub(super) fn end_saving(&self) {
        if let Some(saver) = &self.saver {
            saver.end();
        }
    }

    /// Answers a request within this process.
    pub fn handle(&self, request: Request<'_>) -> Reply {
        self.handle_prepared(prepare(request)).0
    }

    /// Answers requests within this process, in order, under one lock and with one wake-up of watches. No other request
    /// runs in between, and no reply is returned before the last one, so pass few at a time.
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

    /// Answers a prepared request once all changes that it made or read are saved. A client must not see state that
    /// would be lost if the server were killed.
    pub(super) async fn answer(&self, prepared: Prepared) -> Reply {
        let (reply, ticket) = self.handle_prepared(prepared);
        if let (Some(saver), Some(ticket)) = (&self.saver, ticket)
            && let Err(why) = saver.saved(ticket).await
        {
            return Reply::not_saved(&why);
        }
        reply
    }

    /// Sets the certificate with which clients verify this server.
    pub(super) fn set_root_ca(&self, pem: &str) {
        self.with_server(|server, _| server.set_root_ca(pem));
    }

    /// Returns the time of the server's clocks.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Waits until the server's clocks reach this time; forever if there is none.
    pub async fn sleep_until(&self, due: impl Into<Timeout>) {
        self.clock.sleep_until(due).await;
    }

    /// Returns the counters of the requests answered so far.
    pub fn request_counts(&self) -> Vec<RequestCount> {
        self.counts.snapshot()
    }

    /// Adds to the metrics of `/metrics`.
    pub fn with_metrics(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.metrics.lock());
    }

    /// Adds another source of metrics to `/metrics`, in the OpenMetrics text format.
    pub fn tell_metrics_of(&self, teller: impl Fn() -> String + Send + 'static) {
        *self.told_by_others.lock() = Some(Teller(Box::new(teller)));
    }

    /// Returns the metrics in the OpenMetrics text format.
    pub(super) fn metrics(&self) -> String {
        let others = self.told_by_others.lock();
        let mut text = others
            .as_ref()
            .map(|Teller(tell)| tell())
            .unwrap_or_default();
        drop(others);
        // The response has one end marker.
        text.truncate(text.trim_end_matches(END).len());
        // Writing to a string fails only if a metric's encoder does; then the response holds the metrics so far.
        let _ = encode(&mut text, &self.metrics.lock());
        text
    }

    /// Returns a receiver of the end of a kind's event log. Wait for a change, then read [`Self::events`] from the last
    /// position.
    pub fn changes(&self, kind: Kind) -> watch::Receiver<u64> {
        self.changes[kind as usize].subscribe()
    }

    /// Returns up to `limit` events of a kind from a log position on. `None` if the log no longer holds them; then
    /// start again from [`Self::objects`].
    pub fn events(&self, kind: Kind, position: u64, limit: usize) -> Option<Vec<Event>> {
        self.server.lock().events(kind, position, limit)
    }

    /// Drops all events, like a compaction: every open watch ends with 410.
    pub fn forget_events(&self) {
        let mut server = self.server.lock();
        server.forget_events();
        self.publish_and_unlock(server, true);
    }

    /// Returns all objects of a kind, and the log position at which later changes begin.
    pub fn objects(&self, kind: Kind) -> (Vec<Arc<Stored>>, u64) {
        let server = self.server.lock();
        (
            server.objects(kind).cloned().collect(),
            server.log_end(kind),
        )
    }

    /// Returns an object; `namespace` is empty for cluster-scoped kinds.
    pub fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.server.lock().get(kind, namespace, name)
    }

    /// Returns the fault rules.
    pub(super) fn faults(&self) -> &SharedFaults {
        &self.faults
    }

    /// Counts a response that did not come from the server itself.
    pub(super) fn count(&self, label: Label, code: u16) {
        self.counts.add(label, code);
    }

    /// Answers a prepared read with the state of that many changes ago; other requests as usual.
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

    /// Answers a prepared request, which was decoded without the lock. The ticket covers all changes up to then, if
    /// changes are saved.
    fn handle_prepared(&self, prepared: Prepared) -> (Reply, Option<Ticket>) {
        let label = prepared.label();
        let (reply, ticket) = self.with_server(|server, now| server.handle_prepared(prepared, now));
        self.count(label, reply.code());
        (reply, ticket)
    }

    /// Runs `act` under the lock and publishes its changes. The ticket covers all changes so far, if changes are saved.
    fn with_server<T>(&self, act: impl FnOnce(&mut ApiServer, Time) -> T) -> (T, Option<Ticket>) {
        let now = self.now().wall;
        let mut server = self.server.lock();
        let before = server.version();
        let outcome = act(&mut server, now);
        let changed = server.version() != before;
        (outcome, self.publish_and_unlock(server, changed))
    }

    /// Takes events for a watch.
    pub(super) fn pull(&self, cursor: &mut WatchCursor, limit: usize) -> Pulled {
        self.server.lock().pull(cursor, limit)
    }

    /// Runs one batch of garbage collection; returns true if more is left.
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

/// Restores the saved server or creates one; starts a saver if there is a state folder.
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
    // Saves the restored version at once: it must not be issued twice.
    saver.take(&server);
    Ok((server, Some(saver)))
}

/// Collects garbage whenever there is some, until the server stops.
pub(super) async fn collect_garbage(api: Arc<SharedApi>, stopped: CancellationToken) {
    while let Some(()) = stopped.run_until_cancelled(api.garbage.notified()).await {
        while api.collect_some_garbage() && !stopped.is_cancelled() {
            tokio::task::yield_now().await;
        }
    }
}
