//! Raises the process's limit on open files, and so on connections.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit. The usual soft limit of 1024 exists for programs that use select(2); a few
/// hundred writes and watches come near it.
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let mut raised = limit;
    raised.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, ?limit, "could not raise the limit on open files");
    }
}
