//! What time it is: the only file that reads a clock.
//!
//! [`Clock`] is the time of day and the monotonic clock. The shells read both, hand them to the machines, and wait by
//! them. Usually they are the system's. A cluster and a controller in one process can share a clock that starts
//! anywhere and can be advanced: waits on it end as if the time had passed. [`instant`], which nobody can move,
//! measures how long calls, watches and pauses take.
//!
//! A wait on the monotonic clock takes its full length, whatever happens to the time of day. A wait for a time of day
//! ends when that has come. If the clock was set forward, or the machine slept, it may end a minute late (`LOOK`); if
//! the clock was set back, it takes longer.
//!
//! Must not: go back, or know who waits and for what.

use std::{
    future,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::Notify, time::sleep};

use lakh_core::model::{Monotonic, Now, Time, Timeout};

/// How often who waits for a time of day looks whether the clock was set on: a minute late is not late where
/// it was set.
const LOOK: Duration = Duration::from_secs(60);

/// Both clocks; clones show the same. The default ones are the system's.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    began: Instant,
    /// How far ahead of the system's time of day this one is, in milliseconds, but for moves; behind, below
    /// zero.
    ahead: AtomicI64,
    /// How far both clocks were moved on, in milliseconds.
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
    /// A clock that shows this time of day now, and goes on.
    pub fn starting_at(now: Time) -> Self {
        let clock = Self::default();
        let ahead = now.as_millis().saturating_sub(system());
        clock.0.ahead.store(ahead, Ordering::Release);
        clock
    }

    /// Now.
    pub fn now(&self) -> Now {
        let moved_by = self.0.moved_by.load(Ordering::Acquire);
        let passed = u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now {
            wall: Time::from_millis(self.unmoved().saturating_add(moved_by)),
            monotonic: Monotonic::from_millis(passed.saturating_add_signed(moved_by)),
        }
    }

    /// The time of day that this clock would show if it had not been moved.
    fn unmoved(&self) -> i64 {
        system().saturating_add(self.0.ahead.load(Ordering::Acquire))
    }

    /// Moves both clocks on to a time of day, and wakes whoever waits by them. A time that is over is no move.
    pub fn move_on_to(&self, at: Time) {
        let by = at.as_millis().saturating_sub(self.unmoved());
        self.0.moved_by.fetch_max(by, Ordering::AcqRel);
        self.0.moved.notify_waiters();
    }

    /// Waits until it is so late; for ever, if there is no such time.
    pub async fn sleep_until(&self, due: impl Into<Timeout>) {
        let due = due.into();
        if due == Timeout::default() {
            return future::pending().await;
        }
        loop {
            // Before the clock is read, so that no move falls in between.
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

    /// Sets the time of day back, as people and time servers do.
    #[cfg(test)]
    pub(crate) fn set_back(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("not that far");
        self.0.ahead.fetch_sub(by, Ordering::AcqRel);
    }
}

/// How long to sleep until the next look at the clocks; not at all if it is time.
fn nap(due: Timeout, now: Now) -> Duration {
    let left = due.left(now).unwrap_or_default();
    due.wall.map_or(left, |_| left.min(LOOK))
}

/// Now, to measure how long something takes.
pub fn instant() -> Instant {
    Instant::now()
}

/// Milliseconds since the Unix epoch, by the system's clock.
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

    /// No test waits so long if all is well.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_clock_starts_where_it_is_told_goes_on_and_never_back() {
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
    fn who_moves_a_clock_moves_both_and_who_sets_it_back_the_time_of_day_alone() {
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
    fn who_waits_for_a_time_of_day_looks_whether_the_clock_was_set_on() {
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
    async fn who_waits_does_not_wait_longer_because_the_clock_is_set_back() {
        let clock = Clock::starting_at(NOON);
        let start = clock.now();
        let soon = start.monotonic + Duration::from_millis(50);
        let waits = clock.sleep_until(soon);
        let set_back = async { clock.set_back(DAY) };
        let both = async { tokio::join!(waits, set_back) };
        timeout(PATIENCE, both).await.expect("it wakes");
        assert!(clock.now().wall < start.wall);
        // By whichever clock comes first.
        let now = clock.now();
        let either = Timeout::from(now.monotonic).or((now.wall + DAY).into());
        timeout(PATIENCE, clock.sleep_until(either))
            .await
            .expect("it wakes");
    }

    #[tokio::test]
    async fn who_waits_wakes_when_the_clock_is_moved_far_enough_or_time_passes() {
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
        // What is over is over.
        clock.sleep_until(NOON).await;
        let never = clock.sleep_until(Timeout::default());
        let never = timeout(Duration::from_millis(20), never).await;
        assert!(never.is_err());
    }
}
