//! Connections that nobody uses at the moment.
//!
//! The one that was used last is used first: the others may grow old enough to be closed. Nobody reads from
//! them, so all are looked at now and then: one that the server has closed, or that was not used for long,
//! goes. To be woken for each end would cost each call more than the look costs all.
//!
//! Must not: open a connection, or know what is sent.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{task::coop::unconstrained, time::sleep};

use crate::clock::instant;

use super::{dial::Io, line::Line};

/// A connection that nobody has used for so long is closed: servers, and what stands between, do so
/// after longer.
const IDLE: Duration = Duration::from_secs(50);

/// How often they are looked at.
const SWEEP: Duration = Duration::from_secs(2);

/// See the module's text.
pub(super) struct Pool(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    /// With which certificates these connections were opened.
    tls: u64,
    lines: VecDeque<(Line<Io>, Instant)>,
}

impl Pool {
    /// An empty one, which is swept as long as it is there.
    pub(super) fn new() -> Arc<Self> {
        let pool = Arc::new(Self(Mutex::default()));
        tokio::spawn(sweep_often(Arc::downgrade(&pool)));
        pool
    }

    /// Takes a connection that was opened with these certificates; those opened with others are closed.
    pub(super) fn take(&self, tls: u64) -> Option<Line<Io>> {
        let mut idle = self.0.lock();
        if idle.tls != tls {
            idle.tls = tls;
            idle.lines.clear();
        }
        idle.lines.pop_back().map(|(line, _)| line)
    }

    /// Keeps a connection that was opened with these certificates, if they still are in use.
    pub(super) fn keep(&self, line: Line<Io>, tls: u64) {
        let now = instant();
        let mut idle = self.0.lock();
        if idle.tls == tls {
            idle.lines.push_back((line, now));
        }
    }

    fn sweep(&self) {
        let now = instant();
        let mut idle = self.0.lock();
        idle.lines
            .retain_mut(|(line, since)| now.duration_since(*since) < IDLE && !line.has_ended());
    }
}

async fn sweep_often(pool: Weak<Pool>) {
    loop {
        sleep(SWEEP).await;
        let Some(pool) = pool.upgrade() else { return };
        // However many there are: with a budget, the runtime would let the last ones look as if they waited.
        unconstrained(async { pool.sweep() }).await;
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    /// A connection, and its other end.
    async fn line() -> (Line<Io>, DuplexStream) {
        let (near, far) = duplex(64);
        let io: Io = Box::new(TokioIo::new(near));
        let line = Line::new(io).await;
        (line.unwrap_or_else(|error| panic!("{error}")), far)
    }

    #[tokio::test]
    async fn what_has_ended_or_was_not_used_for_long_goes() {
        let pool = Pool::new();
        let (good, _far) = line().await;
        let (old, _other) = line().await;
        let (ended, gone) = line().await;
        drop(gone);
        pool.keep(good, 0);
        pool.keep(ended, 0);
        let long_ago = instant() - IDLE;
        pool.0.lock().lines.push_front((old, long_ago));
        pool.sweep();
        assert_eq!(pool.0.lock().lines.len(), 1);
        assert!(pool.take(0).is_some_and(|mut line| !line.has_ended()));
    }

    #[tokio::test]
    async fn none_is_used_with_other_certificates_than_its_own() {
        let pool = Pool::new();
        let ((one, _far), (late, _other)) = (line().await, line().await);
        pool.keep(one, 0);
        assert!(pool.take(1).is_none());
        pool.keep(late, 0);
        assert!(pool.0.lock().lines.is_empty());
    }
}
