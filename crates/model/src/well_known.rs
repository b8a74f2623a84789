//! Lists names with a meaning to Kubernetes or lakh: finalizers, labels, annotations.

/// The finalizer that keeps a Pod until it is counted.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// The tracking finalizer that lakh uses beside the built-in controller, for which the standard one is reserved.
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

/// The default `spec.managedBy` of Jobs that lakh manages beside the built-in controller.
pub const OWN_MANAGER: &str = "lakh.dev/job-controller";

/// The namespace of the control plane, and of the Lease of a controller outside of a Pod.
pub const SYSTEM_NAMESPACE: &str = "kube-system";
