//! Lists the limits that an operator may tune; the defaults are Kubernetes'.
//!
//! They are constants in upstream's `job_controller.go`, or flags of kube-controller-manager
//! (docs/rules/jobs.md, 0).

use std::time::Duration;

use super::Exponential;

/// The limits of one controller, the same for all its Jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The minimum interval between a Job's status writes that only report Pod progress.
    pub sync_batch_period: Duration,
    /// The delay before a Job replaces failed Pods.
    pub pod_failure_backoff: Exponential,
    /// The delay before a Job retries a refused write.
    pub retry_backoff: Exponential,
    /// The maximum number of UIDs in `uncountedTerminatedPods` of one status write.
    pub max_uncounted_pods: u32,
    /// The maximum number of concurrent Pod creations per Job, and likewise of finalizer removals and deletions.
    pub max_pod_writes: u32,
    /// The time before lakh creates missing Pods of a Job that another controller also works on. It restarts with each
    /// sign of that controller. None turns the detection of other controllers off.
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
