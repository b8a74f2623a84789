//! Defines the value types that all crates share: Kubernetes objects and their parts as small values, without
//! behaviour beyond their own arithmetic.
//!
//! [`cron`] has the schedules of CronJobs, which the embedded cluster needs, too.
//!
//! Must not: decide anything, do IO, read a clock, or know how anything is written as bytes.

mod api_text;
mod backoff;
pub mod cron;
mod cron_job;
mod failure;
mod gang;
mod go_duration;
mod ids;
mod index_set;
mod job;
mod job_annotations;
mod labels;
mod lease;
mod limits;
pub mod names;
mod now;
mod observed_pod;
mod partition;
mod pod;
mod pod_end;
mod pod_table;
mod policy;
mod quantity;
mod report;
mod roster;
mod slots;
mod stable_hash;
mod time;
mod well_known;

pub use backoff::Exponential;
pub use cron_job::{ActiveJob, ChildJob, ConcurrencyPolicy, CronJob, CronJobSpec, CronJobStatus};
pub use failure::{FailedContainer, FailureCounts, FailureFacts};
pub use gang::{
    GangFacts, GangObject, NewPodGroup, NewWorkload, PodGroup, PodGroupTemplate, Workload,
};
pub use go_duration::{GoDurationError, format_go_duration, go_duration_nanos, parse_go_duration};
pub use ids::{JobId, JobKey, Slot, Uid};
pub use index_set::IndexSet;
pub use job::{
    CompletionMode, Condition, ConditionKind, Job, JobSpec, JobStatus, PodReplacement,
    RestartPolicy, StatusChange, Uncounted,
};
pub use job_annotations::{
    AnnotationSwitch, FAILURE_SUMMARY, INDEX_RECORD, JOB_METRICS, JobAnnotations,
};
pub use labels::{Labelled, Labels, Operator, PodLabels, Requirement, Selector, wears_uid};
pub use lease::{Lease, LeaseRecord};
pub use limits::Limits;
pub use names::PodSuffix;
pub use now::{Monotonic, Now, Timeout};
pub use observed_pod::{Controller, DecodedPod};
pub use partition::{Division, Partition};
pub use pod::{CompactIndex, PodFlags, PodName, PodPhase, PodRecord};
pub use pod_end::{EndCause, PodEnd};
pub use pod_table::PodTable;
pub use policy::{
    CodeOperator, FailureAction, FailureRule, FailureTest, PerIndexLimit, PodFailurePolicy,
    SuccessPolicy, SuccessRule,
};
pub use quantity::{Suffix, WrittenQuantity};
pub use report::{Report, Severity};
pub use roster::{Roster, RosterEntry};
pub use slots::Slots;
pub use stable_hash::stable_hash;
pub use time::Time;
pub use well_known::{
    COMPLETION_INDEX, CONTROLLER_UID, DEFAULT_MANAGER, INDEX_FAILURES, INDEX_IGNORED_FAILURES,
    OWN_MANAGER, OWN_TRACKING_FINALIZER, SYSTEM_NAMESPACE, TRACKING_FINALIZER,
};
