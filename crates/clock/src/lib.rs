//! Provides the clocks; no other file reads one.
//!
//! [`Clock`] combines the wall clock and the monotonic clock. The shells read both, pass the time to the state
//! machines, and wait on them. By default they are the system's. A cluster and a controller in one process can share a
//! clock that starts anywhere and can be advanced. Waits on it then end as if the time had passed. [`instant`], which
//! cannot be moved, measures the duration of calls, watches and pauses.
//!
//! A wait on the monotonic clock takes its full length, even if the wall clock is set. A wait on the wall clock ends
//! when that time has come. If the clock was set forward, or the machine slept, it may end a minute late (`LOOK`). If
//! the clock was set back, it takes longer.
//!
//! Must not: run backwards, or know the purpose of a wait.

use std::{
    future,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::Notify, time::sleep};

use lakh_model::{Monotonic, Now, Time, Timeout};

/// The interval at which a wait on the wall clock checks whether that clock was set forward. A minute late is
/// acceptable where the clock was set.
const LOOK: Duration = Duration::from_secs(60);

/// Both clocks; clones share one state. The default ones are the system's.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    began: Instant,
    /// The offset of the wall clock from the system's, in milliseconds, not counting moves. Negative if it is behind.
    ahead: AtomicI64,
    /// The time by which both clocks were advanced, in milliseconds.
    moved_by: AtomicI64,
    moved: Notify,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            began: instant(),
            ahead: AtomicI64::new(0),
            moved_by: AtomicI64::new(0),
            moved: Notify::new(),
        }
    }
}

impl Clock {
    /// Creates a clock that runs from this wall-clock time on.
    pub fn starting_at(now: Time) -> Self {
        let clock = Self::default();
        let ahead = now.as_millis().saturating_sub(system());
        clock.0.ahead.store(ahead, Ordering::Release);
        clock
    }

    /// Reads both clocks.
    pub fn now(&self) -> Now {
        let moved_by = self.0.moved_by.load(Ordering::Acquire);
        let passed = u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now {
            wall: Time::from_millis(self.unmoved().saturating_add(moved_by)),
            monotonic: Monotonic::from_millis(passed.saturating_add_signed(moved_by)),
        }
    }

    /// The wall-clock time without the moves.
    fn unmoved(&self) -> i64 {
        system().saturating_add(self.0.ahead.load(Ordering::Acquire))
    }

    /// Advances both clocks to a wall-clock time and wakes all waits. A time in the past changes nothing.
    pub fn move_on_to(&self, at: Time) {
        let by = at.as_millis().saturating_sub(self.unmoved());
        self.0.moved_by.fetch_max(by, Ordering::AcqRel);
        self.0.moved.notify_waiters();
    }

    /// Waits until a time; for ever, if it is never.
    pub async fn sleep_until(&self, due: impl Into<Timeout>) {
        let due = due.into();
        if due == Timeout::default() {
            return future::pending().await;
        }
        loop {
            // Registered before the clock is read, so that no move is missed.
            let moved = self.0.moved.notified();
            let nap = nap(due, self.now());
            if nap.is_zero() {
                return;
            }
            tokio::select! {
                () = sleep(nap) => {}
                () = moved => {}
            }
        }
    }

    /// Sets the wall clock back, as people and time servers do.
    #[cfg(test)]
    pub(crate) fn set_back(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("not that far");
        self.0.ahead.fetch_sub(by, Ordering::AcqRel);
    }
}

/// The time to sleep until the clocks are read again; zero if the wait is over.
fn nap(due: Timeout, now: Now) -> Duration {
    let left = due.left(now).unwrap_or_default();
    due.wall.map_or(left, |_| left.min(LOOK))
}

/// The current instant, to measure durations.
pub fn instant() -> Instant {
    Instant::now()
}

/// Milliseconds since the Unix epoch, from the system's clock.
fn system() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since_epoch.unwrap_or_default().as_millis();
    i64::try_from(millis).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const NOON: Time = Time::from_secs(2_000_000_000);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// Longer than any wait of a passing test.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_clock_starts_at_the_given_time_and_never_goes_back() {
        let clock = Clock::starting_at(NOON);
        assert!(clock.now().wall.since(NOON) < Duration::from_secs(60));
        let seen = clock.now();
        std::thread::sleep(Duration::from_millis(3));
        let later = clock.now();
        assert!(later.wall > seen.wall && later.monotonic > seen.monotonic);
        let same = clock.clone();
        same.move_on_to(NOON + DAY);
        assert!(clock.now().wall >= NOON + DAY);
        clock.move_on_to(NOON);
        assert!(clock.now().wall >= NOON + DAY);
    }

    #[test]
    fn advancing_moves_both_clocks_and_setting_back_only_the_wall_clock() {
        let clock = Clock::starting_at(NOON);
        let start = clock.now();
        clock.move_on_to(NOON + DAY);
        let moved = clock.now();
        assert!(moved.monotonic.since(start.monotonic) >= DAY - PATIENCE);
        clock.set_back(DAY);
        let set_back = clock.now();
        assert!(set_back.wall < moved.wall);
        assert!(set_back.monotonic >= moved.monotonic);
    }

    #[test]
    fn the_usual_clock_is_the_systems() {
        let (before, clock) = (system(), Clock::default());
        assert!((before..=system()).contains(&clock.now().wall.as_millis()));
    }

    #[test]
    fn a_wall_clock_sleep_notices_a_clock_set_forward() {
        let now = Now::at(NOON);
        let wall = Timeout::from(NOON + DAY);
        assert_eq!(nap(wall, now), LOOK);
        let set_on = Now {
            wall: NOON + DAY,
            ..now
        };
        assert_eq!(nap(wall, set_on), Duration::ZERO);
        assert_eq!(nap((now.monotonic + DAY).into(), now), DAY);
    }

    #[tokio::test]
    async fn setting_the_clock_back_does_not_extend_a_sleep() {
        let clock = Clock::starting_at(NOON);
        let start = clock.now();
        let soon = start.monotonic + Duration::from_millis(50);
        let waits = clock.sleep_until(soon);
        let set_back = async { clock.set_back(DAY) };
        let both = async { tokio::join!(waits, set_back) };
        timeout(PATIENCE, both).await.expect("it wakes");
        assert!(clock.now().wall < start.wall);
        // The wait ends with the clock that comes first.
        let now = clock.now();
        let either = Timeout::from(now.monotonic).or((now.wall + DAY).into());
        timeout(PATIENCE, clock.sleep_until(either))
            .await
            .expect("it wakes");
    }

    #[tokio::test]
    async fn a_sleep_ends_when_the_clock_advances_or_time_passes() {
        let clock = Clock::starting_at(NOON);
        let start = clock.now();
        let dues: [Timeout; 2] = [(NOON + DAY).into(), (start.monotonic + DAY).into()];
        let mut sleepers = dues.map(|due| {
            let waiter = clock.clone();
            tokio::spawn(async move { waiter.sleep_until(due).await })
        });
        clock.move_on_to(NOON + DAY / 2);
        for waits in &mut sleepers {
            let early = timeout(Duration::from_millis(50), waits).await;
            assert!(early.is_err(), "half a day is not enough");
        }
        clock.move_on_to(start.wall + DAY + Duration::from_secs(1));
        for waits in sleepers {
            let woken = timeout(PATIENCE, waits).await.expect("it wakes");
            woken.expect("no panic");
        }
        let soon = clock.now() + Duration::from_millis(20);
        for due in [soon.wall.into(), soon.monotonic.into()] {
            let due: Timeout = due;
            timeout(PATIENCE, clock.sleep_until(due))
                .await
                .expect("time passes");
        }
        assert!(clock.now().wall >= soon.wall && clock.now().monotonic >= soon.monotonic);
        // A time in the past ends at once.
        clock.sleep_until(NOON).await;
        let never = clock.sleep_until(Timeout::default());
        let never = timeout(Duration::from_millis(20), never).await;
        assert!(never.is_err());
    }
}
