//! The source of the output of containers, which only the kubelet knows.

use std::{fmt, sync::Arc};

/// Source of the output of containers: takes the Pod's JSON, the name of the container, and whether the run before its
/// last restart is asked for.
#[derive(Clone)]
pub struct PodOutput(
    /// Gives none for a container without output of its own.
    pub Arc<OutputOf>,
);

type OutputOf = dyn Fn(&[u8], &str, bool) -> Option<String> + Send + Sync;

impl fmt::Debug for PodOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PodOutput")
    }
}
