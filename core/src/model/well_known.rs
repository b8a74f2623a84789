//! Names that Kubernetes, or lakh, has given a meaning: finalizers, labels, annotations.

/// The finalizer by which a Pod is kept until it is counted.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// The finalizer that takes its place beside the built-in controller, which it is reserved for.
pub const OWN_TRACKING_FINALIZER: &str = "lakh.dev/job-tracking";

/// Annotation and label that carry a Pod's completion index.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Annotation with the number of an index's earlier failures that counted.
pub const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// Annotation with the number of an index's earlier failures that did not count.
pub const INDEX_IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The label by which the server's generated selector matches a Job's Pods.
pub const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

/// The controller name that a Job's `spec.managedBy` may spell out for the default controller.
pub const DEFAULT_MANAGER: &str = "kubernetes.io/job-controller";

/// What `spec.managedBy` says of lakh's Jobs beside the built-in controller, unless another name was chosen.
pub const OWN_MANAGER: &str = "lakh.dev/job-controller";
