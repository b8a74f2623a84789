//! Kubernetes' objects as bytes: what lakh reads of them, and the bodies it writes.
//!
//! Responsible for: bytes to small records, values to request bodies and paths.
//! Must not: send anything, decide anything, or keep an object whole.

mod cron_job;
mod delete;
mod error;
mod gang;
mod job;
mod json;
mod ownership;
pub mod paths;
mod pod;
mod policy;
mod protobuf;
mod scheduling_api;
mod selector;
mod status;
mod template;
mod timestamp;
mod watch;

pub use cron_job::{DecodedCronJob, cron_job_status_patch, decode_cron_job, job_of_cron_job};
pub use delete::{background_deletion, exact_deletion, foreground_deletion};
pub use error::{ApiError, ErrorKind};
pub use gang::{DecodedGangObject, decode_pod_group, decode_workload, gang_object_body};
pub use job::{DecodedJob, Owner, child_job, decode_job};
pub use ownership::{adoption_patch, freeing_patch, release_patch};
pub use pod::{Controller, DecodedPod, OddPod, PodDecoder, PodEvent, ack_of_write};
pub use protobuf::Malformed;
pub use scheduling_api::SchedulingApi;
pub use selector::{Labelled, Labels, PodLabels, Selector, wears_uid};
pub use status::status_patch;
pub use template::{PodTemplate, TemplateError};
pub use watch::{
    ListPage, Object, OddAnswer, WatchEvent, decode_list_page, decode_watch_frame,
    decode_watch_line,
};

/// The finalizer by which a Pod is kept until it is counted.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// The finalizer that takes its place beside the built-in controller, which it is reserved for.
pub const OWN_TRACKING_FINALIZER: &str = "lakh.dev/job-tracking";

/// Annotation and label that carry a Pod's completion index.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Annotation that tells a Pod how often its index failed before, and counted.
pub const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// Annotation that tells a Pod how often its index failed before, and did not count.
pub const INDEX_IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The label by which the server tells the Pods of a Job that chose no selector of its own.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

/// The controller name that a Job's `spec.managedBy` may spell out for the default controller.
pub const DEFAULT_MANAGER: &str = "kubernetes.io/job-controller";
