//! Keeps idle connections for reuse.
//!
//! The connection used last is reused first, so that the others may time out. Nothing reads from idle connections. A
//! periodic sweep drops those that the server has closed or that were idle for too long. A task per connection to
//! notice its end would cost every call more than the sweep costs in total.
//!
//! Must not: open a connection, or know the content of requests.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{task::coop::unconstrained, time::sleep};

use lakh_clock::instant;

use super::{connection::Connection, dial::Io};

/// Maximum idle time of a connection. Servers, and proxies between, close theirs later.
const IDLE: Duration = Duration::from_secs(50);

/// Interval of the sweep.
const SWEEP: Duration = Duration::from_secs(2);

/// The idle connections to one server.
pub(super) struct Pool(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    /// Number of the certificates that these connections were opened with.
    tls: u64,
    connections: VecDeque<(Connection<Io>, Instant)>,
}

impl Pool {
    /// An empty pool, swept for as long as it exists.
    pub(super) fn new() -> Arc<Self> {
        let pool = Arc::new(Self(Mutex::default()));
        tokio::spawn(sweep_often(Arc::downgrade(&pool)));
        pool
    }

    /// Takes a connection that was opened with these certificates; those opened with others are closed.
    pub(super) fn take(&self, tls: u64) -> Option<Connection<Io>> {
        let mut idle = self.0.lock();
        if idle.tls != tls {
            idle.tls = tls;
            idle.connections.clear();
        }
        idle.connections
            .pop_back()
            .map(|(connection, _)| connection)
    }

    /// Keeps a connection that was opened with these certificates, if they are still in use.
    pub(super) fn keep(&self, connection: Connection<Io>, tls: u64) {
        let now = instant();
        let mut idle = self.0.lock();
        if idle.tls == tls {
            idle.connections.push_back((connection, now));
        }
    }

    /// Closes the connection that was idle for longest; returns true if there was one.
    pub(super) fn close_one(&self) -> bool {
        self.0.lock().connections.pop_front().is_some()
    }

    fn sweep(&self) {
        let now = instant();
        let mut idle = self.0.lock();
        idle.connections.retain_mut(|(connection, since)| {
            now.duration_since(*since) < IDLE && !connection.has_ended()
        });
    }
}

async fn sweep_often(pool: Weak<Pool>) {
    loop {
        sleep(SWEEP).await;
        let Some(pool) = pool.upgrade() else { return };
        // Outside of tokio's budget: beyond it, the last connections would seem to be pending.
        unconstrained(async { pool.sweep() }).await;
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};

    use super::*;
    use crate::budget::Budget;

    /// Returns a connection and its other end.
    async fn connection() -> (Connection<Io>, DuplexStream) {
        let (near, far) = duplex(64);
        let io: Io = Box::new(TokioIo::new(near));
        let connection = Connection::new(io, Budget::new(1).open()).await;
        (connection.unwrap_or_else(|error| panic!("{error}")), far)
    }

    #[tokio::test]
    async fn closed_and_idle_connections_are_removed() {
        let pool = Pool::new();
        let (good, _far) = connection().await;
        let (old, _other) = connection().await;
        let (ended, gone) = connection().await;
        drop(gone);
        pool.keep(good, 0);
        pool.keep(ended, 0);
        let long_ago = instant() - IDLE;
        pool.0.lock().connections.push_front((old, long_ago));
        pool.sweep();
        assert_eq!(pool.0.lock().connections.len(), 1);
        assert!(
            pool.take(0)
                .is_some_and(|mut connection| !connection.has_ended())
        );
    }

    #[tokio::test]
    async fn none_is_used_with_other_certificates_than_its_own() {
        let pool = Pool::new();
        let ((one, _far), (late, _other)) = (connection().await, connection().await);
        pool.keep(one, 0);
        assert!(pool.take(1).is_none());
        pool.keep(late, 0);
        assert!(pool.0.lock().connections.is_empty());
    }

    #[tokio::test]
    async fn idle_connections_are_closed_when_the_pool_is_full() {
        let (budget, pool) = (Budget::new(1), Pool::new());
        budget.add(&pool);
        let (near, mut far) = duplex(64);
        let io: Io = Box::new(TokioIo::new(near));
        let first = Connection::new(io, budget.open()).await;
        pool.keep(first.unwrap_or_else(|error| panic!("{error}")), 0);
        let _second = budget.open();
        assert!(pool.take(0).is_none());
        assert_eq!(far.read(&mut [0; 64]).await.expect("its end"), 0);
    }
}
