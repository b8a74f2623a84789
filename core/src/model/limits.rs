//! The numbers that an operator may tune; the defaults are Kubernetes'.
//!
//! They are constants in upstream's `job_controller.go`, or flags of kube-controller-manager
//! (docs/rules/jobs.md, 0).

use std::time::Duration;

use super::Exponential;

/// The limits of one controller, the same for all its Jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Status writes that only carry Pod progress are at least this far apart, per Job.
    pub sync_batch_period: Duration,
    /// How long a Job waits after failed Pods before it makes new ones.
    pub pod_failure_backoff: Exponential,
    /// How long a Job waits before it repeats a refused write.
    pub retry_backoff: Exponential,
    /// How many UIDs one status write may list as finished but not yet counted.
    pub max_uncounted_pods: u32,
    /// How many Pod creations, and as many finalizer removals and deletions, one Job may have
    /// under way at once.
    pub max_pod_writes: u32,
    /// How long nobody else may have done what is to be done for a Job that another controller works on, too, until
    /// this one does it. None: nobody asks whether there is another.
    pub alone_after: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sync_batch_period: Duration::from_secs(1),
            pod_failure_backoff: Exponential {
                base: Duration::from_secs(10),
                max: Duration::from_secs(600),
            },
            retry_backoff: Exponential {
                base: Duration::from_secs(1),
                max: Duration::from_secs(60),
            },
            max_uncounted_pods: 500,
            max_pod_writes: 500,
            alone_after: None,
        }
    }
}
