//! Provides the output of containers, which only the kubelet knows.

use std::{fmt, sync::Arc};

/// Source of container output. Its arguments are the Pod's JSON, the container name, and true for the run before the
/// last restart.
#[derive(Clone)]
pub struct PodOutput(
    /// Returns `None` for a container without output.
    pub Arc<OutputOf>,
);

type OutputOf = dyn Fn(&[u8], &str, bool) -> Option<String> + Send + Sync;

impl fmt::Debug for PodOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PodOutput")
    }
}
