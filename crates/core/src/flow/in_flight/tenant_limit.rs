//! Limits a tenant's writes in flight: halves the limit when a busy server refuses one, and raises it while none is
//! refused.
//!
//! Additive increase would need minutes to recover from a short overload, so the limit grows by a quarter.
//!
//! Must not: know the content of a write.

use std::time::Duration;

/// A limit unchanged for this long says nothing about the server any more. It is ten times the longest pause that a
/// server may ask for.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);

/// The limit and the pause of one tenant; no limit before the first refusal. A limit expires some time after its last
/// change.
#[derive(Debug, Default)]
pub(in crate::flow) struct TenantLimit {
    /// The maximum number in flight, if the server has refused a write.
    limit: Option<usize>,
    /// When the limit changed last.
    changed: Duration,
    /// The last pause that the server asked for.
    pause: Duration,
    paused_until: Duration,
}

impl TenantLimit {
    /// Returns true if one more write may be in flight.
    pub(in crate::flow) fn allows(&self, in_flight: usize, now: Duration) -> bool {
        let limit = self.limit.filter(|_| now < self.forgotten_at());
        limit.is_none_or(|limit| in_flight < limit) && self.paused_until <= now
    }

    /// Handles the refusal of a write sent at `sent`. Writes sent before the limit changed carry no new information.
    pub(in crate::flow) fn refused(
        &mut self,
        sent: Duration,
        pause: Duration,
        max: usize,
        now: Duration,
    ) {
        if self.forgotten_at() <= now {
            self.limit = None;
        }
        self.paused_until = self.paused_until.max(now + pause);
        if self.limit.is_none() || sent > self.changed {
            self.limit = Some((self.limit.unwrap_or(max) / 2).max(1));
            self.changed = now;
            self.pause = pause;
        }
    }

    /// Handles an accepted write. The limit grows at most once per pause that the server asked for: growing sooner
    /// would lead to almost nothing but pauses.
    pub(in crate::flow) fn taken(&mut self, max: usize, now: Duration) {
        let Some(limit) = self.limit else {
            return;
        };
        let since = now.saturating_sub(self.changed.max(self.paused_until));
        if since > self.pause {
            let more = limit + 1 + limit / 4;
            self.limit = (more < max).then_some(more);
            self.changed = now;
        }
    }

    /// Returns true if there is no state to keep.
    pub(in crate::flow) fn is_default(&self, now: Duration) -> bool {
        match self.limit {
            None => self.paused_until <= now,
            Some(_) => self.forgotten_at() <= now,
        }
    }

    /// Returns when there is no state to keep any more, if nothing else happens.
    pub(in crate::flow) fn forgotten_at(&self) -> Duration {
        match self.limit {
            None => self.paused_until,
            Some(_) => self.changed.max(self.paused_until) + FORGOTTEN_AFTER,
        }
    }

    /// Returns until when no write is sent.
    pub(in crate::flow) fn paused_until(&self) -> Duration {
        self.paused_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_wave_of_refusals_halves_it_once_and_quiet_lets_it_grow() {
        let mut limit = TenantLimit::default();
        let at = |secs| SECOND * secs;
        limit.refused(at(9), SECOND, 96, at(10));
        limit.refused(at(9), SECOND, 96, at(10));
        limit.taken(96, at(10));
        assert_eq!((limit.limit, limit.allows(0, at(10))), (Some(48), false));
        assert!(limit.allows(47, at(11)) && !limit.allows(48, at(11)));
        limit.refused(at(11), SECOND, 96, at(12));
        assert_eq!(limit.limit, Some(24));
        for (secs, expected) in [(13, 24), (14, 24), (15, 31), (16, 31), (17, 39)] {
            limit.taken(96, at(secs));
            assert_eq!(limit.limit, Some(expected), "{secs}");
        }
        for secs in (19..40).step_by(2) {
            limit.taken(96, at(secs));
        }
        assert!(limit.is_default(at(40)));
    }

    #[test]
    fn a_limit_of_long_ago_is_forgotten() {
        let mut limit = TenantLimit::default();
        let at = |secs| SECOND * secs;
        limit.refused(at(9), SECOND, 96, at(10));
        assert!(!limit.is_default(at(310)) && !limit.allows(48, at(310)));
        assert!(limit.is_default(at(311)) && limit.allows(48, at(311)));
        limit.refused(at(999), SECOND, 96, at(1_000));
        assert_eq!(limit.limit, Some(48), "as if it were the first time");
    }
}
