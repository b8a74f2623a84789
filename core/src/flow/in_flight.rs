//! The limit on writes in flight: one state, which hears what becomes of each write and how long it took.
//!
//! - So many may be in flight that no server is overrun, and nobody has all places ([`Room`]).
//! - What a server refuses because it is busy (429) concerns the tenant that was refused ([`TenantLimit`]); only when
//!   the next tenant hears the same, and nothing was taken in between, does it concern all.
//! - How long answers take concerns the server, whoever asked, and so all tenants at once ([`Congestion`]).
//!
//! Must not: know what a write is, or which one is next.

mod congestion;
mod tenant_limit;

use std::time::Duration;

use self::congestion::Congestion;
pub(super) use self::tenant_limit::TenantLimit;
use super::WriteAnswer;

/// A Job may have this many times as many writes in flight as there are places left, a tenant as many times
/// what its Jobs may. One Job alone gets two places of three, two get two of five each; there is always one left
/// for who comes new. While there is congestion it is the other way round: a Job may have one write in flight where
/// this many places are left, and so one of three. Known from switches that share memory between ports as dynamic
/// thresholds (Choudhury and Hahne, 1998); docs/flow.md.
const SHARE: usize = 2;

/// How much room there is for one more write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    free: usize,
    is_congested: bool,
}

impl Room {
    /// How many writes a Job may have in flight.
    pub(super) fn of_job(self) -> usize {
        match self.is_congested {
            false => self.free.saturating_mul(SHARE),
            true => self.free.div_ceil(SHARE),
        }
    }

    /// How many writes a tenant may have in flight.
    pub(super) fn of_tenant(self) -> usize {
        self.of_job().saturating_mul(SHARE)
    }
}

/// See the module's text. `N` names tenants.
#[derive(Debug)]
pub(super) struct InFlightLimit<N> {
    max: usize,
    in_flight: usize,
    /// How many of others are, who share the places.
    elsewhere: usize,
    congestion: Congestion,
    /// The tenant that was refused last, if nothing was taken since.
    refused: Option<N>,
    /// Until when nothing goes, as the server refuses everybody.
    paused_until: Duration,
}

impl<N: Clone + Eq> InFlightLimit<N> {
    /// At most `max` writes are in flight at once.
    pub(super) fn new(max: usize) -> Self {
        Self {
            max: max.max(1),
            in_flight: 0,
            elsewhere: 0,
            congestion: Congestion::default(),
            refused: None,
            paused_until: Duration::ZERO,
        }
    }

    /// The room for one more write, if there is any.
    pub(super) fn room(&self, now: Duration) -> Option<Room> {
        let free = self.max.saturating_sub(self.in_flight_of_all());
        (free > 0 && self.paused_until <= now).then(|| Room {
            free,
            is_congested: self.congestion.is_congested(),
        })
    }

    /// One more is in flight.
    pub(super) fn sent(&mut self) {
        self.in_flight += 1;
    }

    /// So long the answer took to a write of the kind whose times can be compared.
    pub(super) fn took(&mut self, time: Duration) {
        self.congestion.took(time);
    }

    /// A tenant's write is no longer in flight.
    pub(super) fn answered(&mut self, tenant: &N, answer: WriteAnswer, now: Duration) {
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.congestion.forget();
        }
        match answer {
            WriteAnswer::Taken => self.refused = None,
            WriteAnswer::Busy { pause, .. } => {
                let last = self.refused.replace(tenant.clone());
                if last.is_some_and(|last| last != *tenant) {
                    self.paused_until = self.paused_until.max(now + pause);
                }
            }
            WriteAnswer::Denied(_) | WriteAnswer::Other => {}
        }
    }

    /// Others, who share the places, have so many writes in flight.
    pub(super) fn set_elsewhere(&mut self, in_flight: usize) {
        self.elsewhere = in_flight;
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Its own and the others'.
    pub(super) fn in_flight_of_all(&self) -> usize {
        self.in_flight + self.elsewhere
    }

    /// Until when nothing goes.
    pub(super) fn paused_until(&self) -> Duration {
        self.paused_until
    }

    #[cfg(test)]
    pub(super) fn end_pause(&mut self) {
        self.paused_until = Duration::ZERO;
    }
}
