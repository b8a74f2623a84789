//! Limits the connections to an API server by the process's limit on open files.
//!
//! The probe port, credential files and the runtimes need descriptors, too, so some are reserved for them. A request
//! first waits for a slot, in order of arrival, and keeps it until its response; a watch keeps it while it is open. So
//! requests wait for each other instead of failing for lack of descriptors. Idle connections are closed to make room
//! for new ones.
//!
//! Must not: open a connection, or know the content of requests.

use std::{
    error::Error,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{pool::Pool, transport::TransportError};

/// Descriptors for files that a process opens after its first connection: runtimes, listeners, files.
const OTHERS: usize = 16;

/// The fewest connections that the controller can work with: its watches, the Lease, and some writes.
const FEWEST: usize = 8;

/// `EMFILE` and `ENFILE`.
const OUT_OF_DESCRIPTORS: [rustix::io::Errno; 2] =
    [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];

/// Returns the number of descriptors that a port of the process may use for its connections: a quarter of `limit`, and
/// at most `most`.
pub fn descriptors_of_a_port(limit: usize, most: usize) -> usize {
    (limit / 4).clamp(8, most)
}

/// Returns the process's limit on open files.
pub fn descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

/// The connection limit of a process. Clients of one server share it.
///
/// A connection needs a slot ([`Budget::slot`]) before it is opened and counted ([`Budget::open`]).
#[derive(Debug)]
pub(super) struct Budget {
    slots: Arc<Semaphore>,
    most: usize,
    open: Arc<AtomicUsize>,
    pools: Mutex<Vec<Weak<Pool>>>,
}

/// Counts a connection while it is open.
#[derive(Debug)]
pub(super) struct OpenGuard(Arc<AtomicUsize>);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Budget {
    /// Creates the budget from the descriptors that the process's limit leaves.
    pub(super) fn of_process() -> Arc<Self> {
        let limit = descriptor_limit();
        let open = std::fs::read_dir("/proc/self/fd").map_or(OTHERS, Iterator::count);
        let port = descriptors_of_a_port(limit, 64);
        Self::new(limit.saturating_sub(open + OTHERS + port).max(FEWEST))
    }

    /// Creates a budget of at most this many connections.
    pub(super) fn new(most: usize) -> Arc<Self> {
        let most = most.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            slots: Arc::new(Semaphore::new(most)),
            most,
            open: Arc::default(),
            pools: Mutex::default(),
        })
    }

    /// Adds a pool. Its idle connections may be closed to make room.
    pub(super) fn add(&self, pool: &Arc<Pool>) {
        let mut pools = self.pools.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(pool));
    }

    /// Waits for a slot.
    pub(super) async fn slot(&self) -> Result<OwnedSemaphorePermit, TransportError> {
        Ok(Arc::clone(&self.slots).acquire_owned().await?)
    }

    /// Counts a connection that is about to be opened. Closes an idle one if the limit is exceeded.
    pub(super) fn open(&self) -> OpenGuard {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.close_idle();
        }
        OpenGuard(Arc::clone(&self.open))
    }

    /// Closes an idle connection, if there is one.
    pub(super) fn close_idle(&self) {
        let pools: Vec<_> = self.pools.lock().iter().filter_map(Weak::upgrade).collect();
        pools.iter().any(|pool| pool.close_one());
    }
}

/// Returns true if the system had no descriptor left.
pub(super) fn is_out_of_descriptors(error: &TransportError) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = Some(&**error);
    while let Some(error) = next {
        let found = error.downcast_ref::<std::io::Error>();
        let number = found.and_then(rustix::io::Errno::from_io_error);
        if number.is_some_and(|number| OUT_OF_DESCRIPTORS.contains(&number)) {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn slots_are_given_in_order_and_wait_for_each_other() {
        let budget = Budget::new(2);
        let (one, _two) = (budget.slot().await, budget.slot().await);
        let mut third = Box::pin(budget.slot());
        assert!(third.as_mut().now_or_never().is_none());
        drop(one);
        assert!(third.now_or_never().is_some_and(|slot| slot.is_ok()));
    }

    #[test]
    fn an_error_of_the_system_is_known_within_others() {
        let error = std::io::Error::from(rustix::io::Errno::MFILE);
        assert!(is_out_of_descriptors(&error.into()));
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert!(!is_out_of_descriptors(&refused.into()));
    }

    #[test]
    fn a_port_has_a_quarter_of_few_descriptors() {
        assert_eq!(
            [64, 512, 20].map(|limit| descriptors_of_a_port(limit, 64)),
            [16, 64, 8]
        );
    }
}
