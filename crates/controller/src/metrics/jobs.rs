//! Exports the metrics of Kubernetes' Job controller, with its names, labels and buckets, so that its dashboards and
//! alerts keep working. docs/metrics.md defines what each counts here.
//!
//! Must not: decide when to count.

use std::{borrow::Cow, sync::Arc, time::Duration};

use hashbrown::HashSet;
use parking_lot::Mutex;

use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use lakh_model::{CompletionMode, FailureAction, PodFlags, PodRecord};

use super::{at_zero, progress::Progress, register};

type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];
type Counters<const N: usize> = Family<Labels<N>, Counter>;

/// One turn of a Job's actor, as its metrics show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sync {
    pub(crate) mode: CompletionMode,
    /// A write that ended since the last turn failed, or the turn itself panicked.
    pub(crate) failed: bool,
    pub(crate) action: Action,
}

/// Effect of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It advanced the Job, or there were no Pods to manage.
    Reconciling,
    /// It managed Pods, with none to create or delete.
    Tracking,
    /// It requested new Pods.
    PodsCreated,
    /// It requested deletions of Pods.
    PodsDeleted,
}

/// The metrics of the Job controller.
#[derive(Debug)]
pub(crate) struct JobMetrics {
    sync_duration: Family<Labels<3>, Histogram>,
    syncs: Counters<3>,
    jobs_finished: Counters<3>,
    pods_finished: Counters<2>,
    failures_by_policy: Counters<1>,
    creations: Counters<2>,
    finished_indexes: Counters<2>,
    /// Lakh's own metrics of Jobs that another controller works on, too.
    foreign_statuses: Counter,
    contests: Counter,
    /// Time from when a watch showed a new Job until its first Pod was created.
    first_pod: Histogram,
    /// Time from when a Pod's end was seen until a status that names it was written; one sample per status, of the Pod
    /// that waited longest.
    count_delay: Histogram,
    /// Counters of objects in the store.
    pub(crate) seen: Seen,
}

/// Counters of objects as the store sees them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    terminated_pods: Counters<1>,
    external: Counters<1>,
    /// The managers that have a series of their own.
    managers: Arc<Mutex<HashSet<String>>>,
}

/// Maximum number of series of managers; tenants choose the names of managers.
const MANAGERS_MAX: usize = 100;

/// The series of all further managers.
const OTHER_MANAGERS: &str = "other";

/// Buckets in seconds: from the time of one call to delays that users complain about.
const DELAYS: [f64; 12] = [
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

impl JobMetrics {
    /// Registers and returns the metrics, some of lakh's own included. The registry's encoder adds `_total` to the
    /// names of counters.
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let lakh = registry.sub_registry_with_prefix("lakh");
        let foreign_statuses = at_zero(
            lakh,
            "foreign_statuses",
            "Status writes by another controller to Jobs that lakh manages",
        );
        let contests = at_zero(
            lakh,
            "contests",
            "Times that lakh stopped creating Pods because another controller writes the Job's status",
        );
        let first_pod = register(
            lakh,
            "first_pod_delay_seconds",
            "Time from the first event of a new Job until its first Pod was created",
            Histogram::new(DELAYS),
        );
        let count_delay = register(
            lakh,
            "count_delay_seconds",
            "Time from the event of a Pod's end until a status lists the Pod; the longest time of each status",
            Histogram::new(DELAYS),
        );
        let own = registry.sub_registry_with_prefix("job_controller");
        let sync_duration: Family<Labels<3>, Histogram> =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.004, 2.0, 15)));
        let _: Counters<2> = at_zero(
            own,
            "stale_sync_skips",
            "Always 0: no sync waits for a cache",
        );
        Self {
            sync_duration: register(
                own,
                "job_sync_duration_seconds",
                "Duration of Job syncs, without API requests",
                sync_duration,
            ),
            syncs: at_zero(own, "job_syncs", "Job syncs"),
            jobs_finished: at_zero(own, "jobs_finished", "Jobs that finished"),
            pods_finished: at_zero(
                own,
                "job_pods_finished",
                "Pods, or indexes, counted in a Job status",
            ),
            failures_by_policy: at_zero(
                own,
                "pod_failures_handled_by_failure_policy",
                "Failed Pods that a rule of spec.podFailurePolicy matched",
            ),
            finished_indexes: at_zero(
                own,
                "job_finished_indexes",
                "Indexes that succeeded, or failed for good",
            ),
            creations: at_zero(own, "job_pods_creation", "Pod creations"),
            foreign_statuses,
            contests,
            first_pod,
            count_delay,
            seen: Seen {
                terminated_pods: at_zero(
                    own,
                    "terminated_pods_tracking_finalizer",
                    "Pods that terminated with the tracking finalizer (add), and those that lost it (delete)",
                ),
                external: at_zero(
                    own,
                    "jobs_by_external_controller",
                    "Watched Jobs that another controller manages",
                ),
                managers: Arc::default(),
            },
        }
    }

    /// Records a turn of a Job's actor and its duration.
    pub(crate) fn sync(&self, sync: Sync, took: Duration) {
        let labels = [
            ("completion_mode", mode(sync.mode)),
            (
                "result",
                if sync.failed { "error" } else { "success" }.into(),
            ),
            ("action", sync.action.word().into()),
        ];
        self.sync_duration
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
        add(&self.syncs, labels, 1);
    }

    /// Records a Pod creation and its success. `why` is a word of [`CreationReason`](lakh_core::decide::CreationReason).
    pub(crate) fn pod_creation(&self, why: &'static str, succeeded: bool) {
        let status = if succeeded { "succeeded" } else { "failed" };
        let labels = [("reason", why.into()), ("status", status.into())];
        add(&self.creations, labels, 1);
    }

    /// Records that another controller wrote a status of our Job; `begins` if this makes us give way.
    pub(crate) fn foreign_status(&self, begins: bool) {
        self.foreign_statuses.inc();
        self.contests.inc_by(begins.into());
    }

    /// Records the first Pod of a new Job, and how long the Job waited for it.
    pub(crate) fn first_pod(&self, after: Duration) {
        self.first_pod.observe(after.as_secs_f64());
    }

    /// Records a status write that names Pods, and how long the first of them waited for it.
    pub(crate) fn counted(&self, after: Duration) {
        self.count_delay.observe(after.as_secs_f64());
    }

    /// Records that a rule of a podFailurePolicy decided on a failed Pod.
    pub(crate) fn failure_handled(&self, action: FailureAction) {
        // No rule with an unknown action is followed.
        if action != FailureAction::Unrecognized {
            let action = action.as_str().into();
            add(&self.failures_by_policy, [("action", action)], 1);
        }
    }

    /// Records a status write by its difference to the last status.
    pub(crate) fn progress(&self, progress: &Progress) {
        let mode = mode(progress.mode);
        for (result, more) in [
            ("succeeded", progress.succeeded),
            ("failed", progress.failed),
        ] {
            let labels = [("completion_mode", mode.clone()), ("result", result.into())];
            add(&self.pods_finished, labels, more);
        }
        for (status, limit, more) in progress.indexes.iter().flatten() {
            let labels = [
                ("status", (*status).into()),
                ("backoffLimit", (*limit).into()),
            ];
            add(&self.finished_indexes, labels, *more);
        }
        if let Some((result, reason)) = &progress.end {
            let labels = [
                ("completion_mode", mode),
                ("result", (*result).into()),
                ("reason", reason.clone().into()),
            ];
            add(&self.jobs_finished, labels, 1);
        }
    }
}

impl Seen {
    /// Records the change of a Pod's record. `before` and `after` are of [`is_held_after_end`].
    pub(crate) fn pod(&self, before: bool, after: bool) {
        let event = match (before, after) {
            (false, true) => "add",
            (true, false) => "delete",
            (true, true) | (false, false) => return,
        };
        add(&self.terminated_pods, [("event", event.into())], 1);
    }

    /// Records a Job that another controller manages when the store first sees it.
    pub(crate) fn external_job(&self, manager: &str) {
        let mut managers = self.managers.lock();
        if managers.len() < MANAGERS_MAX && !managers.contains(manager) {
            managers.insert(manager.to_owned());
        }
        let name = match managers.contains(manager) {
            true => manager.to_owned(),
            false => OTHER_MANAGERS.to_owned(),
        };
        add(&self.external, [("controller_name", name.into())], 1);
    }
}

fn add<const N: usize>(counters: &Counters<N>, labels: Labels<N>, more: u32) {
    counters.get_or_create(&labels).inc_by(more.into());
}

/// Returns true if a Pod has ended and still carries the finalizer.
pub(crate) fn is_held_after_end(pod: Option<&PodRecord>) -> bool {
    pod.is_some_and(|pod| pod.phase.is_terminal() && pod.has(PodFlags::FINALIZER))
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Self::Reconciling => "reconciling",
            Self::Tracking => "tracking",
            Self::PodsCreated => "pods_created",
            Self::PodsDeleted => "pods_deleted",
        }
    }
}

fn mode(mode: CompletionMode) -> Cow<'static, str> {
    let known = match mode {
        CompletionMode::Unrecognized => CompletionMode::NonIndexed,
        known => known,
    };
    known.as_str().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_have_few_series() {
        let seen = Seen::default();
        for number in 0..1_000 {
            seen.external_job(&format!("example.com/{number}"));
        }
        seen.external_job("example.com/7");
        let of = |name: &str| {
            let labels = [("controller_name", name.to_owned().into())];
            seen.external.get_or_create(&labels).get()
        };
        assert_eq!((of("example.com/7"), of("other")), (2, 900));
        assert_eq!(seen.managers.lock().len(), MANAGERS_MAX);
    }
}
