//! The limit on writes in flight: one state, which hears what becomes of each write and how long it took.
//!
//! - So many may be in flight that no server is overrun, and nobody has all places ([`Room`]).
//! - What a server refuses because it is busy (429) concerns the tenant that was refused ([`TenantLimit`]); only when
//!   the next tenant hears the same, and nothing was taken in between, does it concern all.
//! - How long answers take concerns the server, whoever asked, and so all tenants at once: when they take long because of
//!   what is in flight, there are fewer places, for as long as a Job has others beside it ([`Congestion`]).
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
/// for who comes new. Known from switches that share memory between ports as dynamic thresholds (Choudhury and Hahne,
/// 1998); docs/flow.md.
const SHARE: usize = 2;

/// How much room there is for one more write. The first of a Job or a tenant needs no share: writes of others that
/// hang may hold all places that a busy server has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    free: usize,
}

impl Room {
    /// How many writes a Job may have in flight.
    pub(super) fn of_job(self) -> usize {
        self.free.saturating_mul(SHARE).max(1)
    }

    /// How many writes a tenant may have in flight.
    pub(super) fn of_tenant(self) -> usize {
        self.free.saturating_mul(SHARE * SHARE).max(1)
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

    /// The room for one more write, if there is any. While there is congestion it may be for nobody but a tenant that
    /// has nothing in flight.
    pub(super) fn room(&self, now: Duration) -> Option<Room> {
        let in_flight = self.in_flight_of_all();
        let places = self.congestion.places().unwrap_or(self.max);
        (in_flight < self.max && self.paused_until <= now).then(|| Room {
            free: places.saturating_sub(in_flight),
        })
    }

    /// One more is in flight; with it so many of its Job's are.
    pub(super) fn sent(&mut self, of_job: usize, now: Duration) {
        self.in_flight += 1;
        let of_all = self.in_flight_of_all();
        self.congestion.in_flight(of_all, of_job < of_all, now);
    }

    /// The server took a write that was sent then and is still in flight; whether how long that took can be compared with
    /// others.
    pub(super) fn took(&mut self, sent: Duration, is_alike: bool, now: Duration) {
        let in_flight = self.in_flight_of_all();
        let time = now.saturating_sub(sent);
        self.congestion.answered(sent, now);
        self.congestion.took(time, is_alike, in_flight, self.max);
    }

    pub(super) fn is_congested(&self) -> bool {
        self.congestion.places().is_some()
    }

    /// A tenant's write is no longer in flight.
    pub(super) fn answered(&mut self, tenant: &N, answer: WriteAnswer, now: Duration) {
        self.in_flight -= 1;
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
