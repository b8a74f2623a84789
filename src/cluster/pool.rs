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
