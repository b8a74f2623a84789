//! Limits writes in flight: one state, fed with the result and the latency of each write.
//!
//! - No server is overrun, and no Job or tenant takes all places ([`Room`]).
//! - A response 429 (server busy) limits the tenant that got it ([`TenantLimit`]). It limits all tenants only if
//!   another tenant gets the next one, and no write was accepted in between.
//! - Latency is a property of the server, so it limits all tenants at once. While responses are slow because of the
//!   writes in flight, there are fewer places, as long as several Jobs write ([`Congestion`]).
//!
//! Must not: know the content of a write, or choose the next one.

mod congestion;
mod tenant_limit;

use std::time::Duration;

use self::congestion::Congestion;
pub(super) use self::tenant_limit::TenantLimit;
use super::WriteAnswer;

/// A Job may have this many times as many writes in flight as there are places left; a tenant this many times as many
/// as a Job. One Job alone gets two places of three, two Jobs get two of five each; one place is always left for a new
/// Job. Switches that share memory between ports call this dynamic thresholds (Choudhury and Hahne, 1998);
/// docs/flow.md.
const SHARE: usize = 2;

/// The room for one more write. The first write of a Job or a tenant needs no share: hanging writes of others may hold
/// all places that a busy server has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    free: usize,
}

impl Room {
    /// Returns how many writes a Job may have in flight.
    pub(super) fn of_job(self) -> usize {
        self.free.saturating_mul(SHARE).max(1)
    }

    /// Returns how many writes a tenant may have in flight.
    pub(super) fn of_tenant(self) -> usize {
        self.free.saturating_mul(SHARE * SHARE).max(1)
    }
}

/// The limit over all tenants. `N` identifies tenants. Report each write by `sent` and `answered`; `room` returns
/// whether another may be sent.
#[derive(Debug)]
pub(super) struct InFlightLimit<N> {
    max: usize,
    in_flight: usize,
    /// Writes in flight of other queues that share the limit.
    elsewhere: usize,
    congestion: Congestion,
    /// The tenant that was refused last, if no write was accepted since.
    refused: Option<N>,
    /// The end of a pause for all tenants, because the server refuses all.
    paused_until: Duration,
}

impl<N: Clone + Eq> InFlightLimit<N> {
    /// Creates a limit of at most `max` writes in flight.
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

    /// Returns the room for one more write, if there is any. Under congestion it may suffice only for a tenant that has
    /// nothing in flight.
    pub(super) fn room(&self, now: Duration) -> Option<Room> {
        let in_flight = self.in_flight_of_all();
        let places = self.congestion.places().unwrap_or(self.max);
        (in_flight < self.max && self.paused_until <= now).then(|| Room {
            free: places.saturating_sub(in_flight),
        })
    }

    /// Records a sent write. `of_job` is the Job's number in flight, including this write.
    pub(super) fn sent(&mut self, of_job: usize, now: Duration) {
        self.in_flight += 1;
        let of_all = self.in_flight_of_all();
        self.congestion.in_flight(of_all, of_job < of_all, now);
    }

    /// Records that the server accepted a write sent at `sent`, which is still in flight. `is_alike` is true if its
    /// latency can be compared with others.
    pub(super) fn took(&mut self, sent: Duration, is_alike: bool, now: Duration) {
        let in_flight = self.in_flight_of_all();
        let time = now.saturating_sub(sent);
        self.congestion.answered(sent, now);
        self.congestion.took(time, is_alike, in_flight, self.max);
    }

    pub(super) fn is_congested(&self) -> bool {
        self.congestion.places().is_some()
    }

    /// Records the end of a tenant's write.
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

    /// Sets the number of writes in flight of other queues that share the limit.
    pub(super) fn set_elsewhere(&mut self, in_flight: usize) {
        self.elsewhere = in_flight;
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns the number of writes in flight, including those of other queues.
    pub(super) fn in_flight_of_all(&self) -> usize {
        self.in_flight + self.elsewhere
    }

    /// Returns until when no write is sent.
    pub(super) fn paused_until(&self) -> Duration {
        self.paused_until
    }

    #[cfg(test)]
    pub(super) fn end_pause(&mut self) {
        self.paused_until = Duration::ZERO;
    }
}
