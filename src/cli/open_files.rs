//! The limit on open files, and so on connections, of this process.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit as far as it may be raised. The usual one, 1024, is kept for programs that use
/// select(2), and a few hundred writes and watches come near it.
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let mut raised = limit;
    raised.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, ?limit, "the limit on open files stays as it is");
    }
}
