//! Registers the controller's metrics and writes them for `/metrics`.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use parking_lot::Mutex;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::{Metric, Registry},
};

pub(crate) mod by_job;
mod exposition;
pub(crate) mod held;
pub(crate) mod jobs;
pub(crate) mod last_heard;
pub(crate) mod lease_health;
pub(crate) mod measured_queue;
mod process;
pub(crate) mod progress;
pub(crate) mod queues;
mod rest_client;

pub use exposition::Exposition;
use lakh_clock::instant;
use lakh_model::Monotonic;
pub use rest_client::RestClientMetrics;

use by_job::JobFamilies;
use held::HeldGauges;
use jobs::JobMetrics;
use last_heard::{FailedTries, LastHeard};
use lease_health::LeaseHealth;
use process::Process;
use queues::QueueFamilies;

/// All metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// The metrics of Kubernetes' Job controller.
    pub(crate) jobs: JobMetrics,
    /// Numbers of held Jobs, Pods and indexes.
    pub(crate) held: Arc<HeldGauges>,
    /// Gauges of single Jobs that ask for them.
    pub(crate) by_job: Arc<JobFamilies>,
    /// Metrics of work queues.
    pub(crate) queues: QueueFamilies,
    /// Turns of Jobs' actors.
    pub(crate) turns: Counter,
    /// Actors that panicked and were rebuilt.
    pub(crate) panics: Counter,
    /// Calls to the API server.
    pub(crate) calls: Family<CallLabels, Counter>,
    /// Calls to the API server, as client-go counts them.
    /// Requests to the API server, as client-go counts them.
    pub rest_client: RestClientMetrics,
    process: Process,
    /// Objects that could not be decoded.
    pub(crate) unreadable: Family<Label, Counter>,
    /// Templates that are kept in memory.
    pub(crate) templates: Gauge<i64>,
    /// Their size in bytes.
    pub(crate) template_bytes: Gauge<i64>,
    /// Templates that were dropped for lack of memory.
    pub(crate) templates_evicted: Counter,
    /// Templates that were read because they were not kept.
    pub(crate) template_reads: Counter,
    /// Watches that were opened.
    pub(crate) watches: Family<Label, Counter>,
    /// Number of times that the whole cache was dropped and listed anew.
    pub(crate) cache_resets: Counter,
    /// Time of the server's last answer about each kind.
    last_heard: Mutex<Vec<Arc<LastHeard>>>,
    /// The same as ages in seconds, updated with each scrape.
    watch_ages: Family<Label, Gauge<i64>>,
    /// Lists, watches and reads of the Lease that failed.
    failed_tries: FailedTries,
    /// Outcomes of writes to the Leases of elections.
    lease_health: Mutex<Vec<Arc<LeaseHealth>>>,
    /// The same, by the name of the Lease.
    leases_writable: Family<[(&'static str, String); 1], Gauge<i64>>,
    /// 1 if this replica leads, by the name of the Lease.
    leads: Family<[(&'static str, String); 1], Gauge<i64>>,
    /// Writes that are queued or in flight.
    pub(crate) writes_pending: Gauge<i64>,
    /// Delay of CronJobs' Jobs after their scheduled time.
    pub(crate) cron_job_skew: Histogram,
    /// Delay of deletions after finished Jobs' TTL.
    pub(crate) ttl_deletions: Histogram,
    /// Time from an Event until the server has it.
    pub(crate) event_delay: Histogram,
    /// Events that were dropped because too many were queued.
    pub(crate) events_dropped: Counter<u64, AtomicU64>,
}

/// Labels of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CallLabels {
    pub(crate) verb: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) code: u16,
}

/// One label: its name and its value.
type Label = [(&'static str, &'static str); 1];

impl Default for Metrics {
    fn default() -> Self {
        Self::of_build(env!("CARGO_PKG_VERSION"))
    }
}

impl Metrics {
    /// Returns metrics at zero that name the version of the binary.
    pub fn of_build(version: &'static str) -> Self {
        let mut registry = Registry::default();
        let jobs = JobMetrics::registered(&mut registry);
        let queues = QueueFamilies::registered(&mut registry);
        let cron_job_skew = register(
            &mut registry,
            "cronjob_controller_job_creation_skew_duration_seconds",
            "Delay between the scheduled time of a CronJob's run and the creation of its Job",
            Histogram::new(exponential_buckets(1.0, 2.0, 10)),
        );
        let ttl_deletions = register(
            &mut registry,
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "Delay between the expiry of a finished Job's TTL and its deletion",
            Histogram::new(exponential_buckets(0.1, 2.0, 14)),
        );
        let process = Process::registered(&mut registry);
        let rest_client = RestClientMetrics::registered(&mut registry);
        let leads = at_zero(
            &mut registry,
            "leader_election_master_status",
            "1 if this replica is the leader, by the name of the Lease",
        );
        let own = registry.sub_registry_with_prefix("lakh");
        let held = HeldGauges::registered(own);
        let by_job = JobFamilies::registered(own);
        own.register(
            "build",
            "Version and commit of the build",
            Info::new([("version", version)]),
        );
        Self {
            jobs,
            held,
            by_job,
            queues,
            cron_job_skew,
            ttl_deletions,
            leads,
            process,
            rest_client,
            turns: at_zero(own, "turns", "Syncs of Jobs, including those without work"),
            panics: at_zero(
                own,
                "actor_panics",
                "Jobs whose state was rebuilt after a panic",
            ),
            calls: at_zero(
                own,
                "api_calls",
                "Requests to the API server; code 0 means no response",
            ),
            unreadable: at_zero(
                own,
                "unreadable_objects",
                "Objects that could not be decoded",
            ),
            templates: at_zero(own, "templates", "Pod templates in memory"),
            template_bytes: at_zero(
                own,
                "template_memory_bytes",
                "Memory of the Pod templates, in bytes",
            ),
            templates_evicted: at_zero(
                own,
                "templates_evicted",
                "Pod templates evicted from memory",
            ),
            template_reads: at_zero(
                own,
                "template_reads",
                "Pod templates read from the API server because they were not in memory",
            ),
            watches: at_zero(own, "watches", "Watches opened"),
            cache_resets: at_zero(
                own,
                "cache_resets",
                "Times that all caches were cleared and relisted: after becoming the leader, or when the API server \
                 had older data than before",
            ),
            last_heard: Mutex::default(),
            watch_ages: at_zero(
                own,
                "watch_age_seconds",
                "Seconds since the last watch event or bookmark of a kind; without changes, there is a bookmark each minute",
            ),
            failed_tries: at_zero(
                own,
                "failed_tries",
                "Failed lists, watches and requests for the Lease, by kind and request",
            ),
            lease_health: Mutex::default(),
            leases_writable: at_zero(
                own,
                "lease_writable",
                "1 if the last write to the Lease, or the last dry run of a standby, succeeded",
            ),
            writes_pending: at_zero(own, "writes_pending", "Writes that are queued or in flight"),
            event_delay: register(
                own,
                "event_delay_seconds",
                "Time from an Event's occurrence until the API server stored it",
                Histogram::new(exponential_buckets(0.01, 2.0, 14)),
            ),
            events_dropped: at_zero(
                own,
                "events_dropped",
                "Events dropped because the queue was full",
            ),
            registry,
        }
    }
}

/// Registers a metric.
fn register<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Registers a metric that starts at zero.
fn at_zero<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    register(registry, name, help, M::default())
}

impl Metrics {
    /// Counts a call.
    pub(crate) fn call(&self, verb: &'static str, resource: &'static str, code: u16) {
        let labels = CallLabels {
            verb,
            resource,
            code,
        };
        self.calls.get_or_create(&labels).inc();
    }

    /// Records whether this replica leads.
    pub(crate) fn leads(&self, lease: &str, leads: bool) {
        let label = [("name", lease.to_owned())];
        self.leads.get_or_create(&label).set(leads.into());
    }

    /// Counts an object that could not be decoded.
    pub(crate) fn unreadable_object(&self, kind: &'static str) {
        self.unreadable.get_or_create(&[("kind", kind)]).inc();
    }

    /// Counts a watch that is opened.
    pub(crate) fn watch_opened(&self, kind: &'static str) {
        self.watches.get_or_create(&[("kind", kind)]).inc();
    }

    /// Returns the size of the kept templates in bytes.
    pub fn template_bytes(&self) -> usize {
        usize::try_from(self.template_bytes.get()).unwrap_or_default()
    }

    /// Returns how often the whole cache was dropped and listed anew.
    pub fn cache_resets(&self) -> u64 {
        self.cache_resets.get()
    }

    /// Registers a kind in a namespace; returns the record to update when the server answers.
    pub(crate) fn watch(&self, kind: &'static str, namespace: Option<Arc<str>>) -> Arc<LastHeard> {
        let failures = self.failed_tries.clone();
        let heard = Arc::new(LastHeard::new(kind, namespace, failures));
        self.last_heard.lock().push(Arc::clone(&heard));
        heard
    }

    /// Returns the kinds that the server has not answered for this long, with namespace and duration.
    pub fn lost(&self, longest: Duration, now: Monotonic) -> Vec<String> {
        let watched = self.last_heard.lock();
        let lost = watched.iter().filter_map(|heard| {
            let silence = heard.lost_for(now).filter(|silence| *silence >= longest)?;
            let namespace = heard.namespace.as_deref();
            let of = namespace.map_or_else(String::new, |name| format!(" of namespace {name}"));
            Some(format!("{}{of} for {} s", heard.kind, silence.as_secs()))
        });
        lost.collect()
    }

    /// Returns a new record of the writes to the Lease of this name.
    pub(crate) fn lease(&self, name: &str) -> Arc<LeaseHealth> {
        let gauge = self
            .leases_writable
            .get_or_create(&[("name", name.to_owned())])
            .clone();
        let health = Arc::new(LeaseHealth::new(gauge));
        self.lease_health.lock().push(Arc::clone(&health));
        health
    }

    /// Returns the reason why this replica could not lead, if that has lasted for the grace period.
    pub fn lease_problem(&self, grace: Duration, now: Monotonic) -> Option<String> {
        let leases = self.lease_health.lock();
        leases.iter().find_map(|lease| lease.problem(grace, now))
    }

    /// Starts a measurement for a metric; no decision depends on it.
    pub(crate) fn stopwatch(&self) -> impl Fn() -> Duration + use<> {
        let begun = instant();
        move || begun.elapsed()
    }

    /// Returns all metrics in the text format of OpenMetrics.
    pub fn text(&self, now: Monotonic) -> String {
        self.queues.look(instant());
        self.process.look();
        // Of several namespaces, the greatest age counts.
        let mut ages = BTreeMap::new();
        for heard in self.last_heard.lock().iter() {
            let age: &mut Duration = ages.entry(heard.kind).or_default();
            *age = heard.age(now).max(*age);
        }
        for (kind, age) in ages {
            let seconds = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
            self.watch_ages
                .get_or_create(&[("kind", kind)])
                .set(seconds);
        }
        let mut text = String::new();
        // Writing to a string fails only if a metric's own encoder does. The text so far is sent.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
