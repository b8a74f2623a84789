//! What time it is: the only file that reads a clock.
//!
//! [`Clock`] is the time of day, which the shells read, hand on to the machines, and wait by. Usually it
//! is the system's. A cluster and a controller in one process can be given one that they share, that
//! begins where somebody likes and can be moved on: whoever waits by it wakes as if the time had passed.
//! How long calls, watches and pauses take is measured by [`instant`], which nobody moves.
//!
//! Must not: go back when it is moved, or know who waits and for what.

use std::{
    future,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::Notify, time::sleep};

use lakh_core::model::Time;

/// How often who sleeps looks whether the clock was set on: a minute late is not late where it was set.
const LOOK: Duration = Duration::from_secs(60);

/// A clock of the time of day; clones show the same. The default one is the system's.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// How far ahead of the system's clock this one is, in milliseconds; behind, below zero.
    ahead: AtomicI64,
    moved: Notify,
}

impl Clock {
    /// A clock that shows this time now, and goes on.
    pub fn starting_at(now: Time) -> Self {
        let clock = Self::default();
        let ahead = ahead_of_system(now);
        clock.0.ahead.store(ahead, Ordering::Release);
        clock
    }

    /// Now.
    pub fn now(&self) -> Time {
        let ahead = self.0.ahead.load(Ordering::Acquire);
        Time::from_millis(system().saturating_add(ahead))
    }

    /// Moves the clock on to a time, and wakes whoever waits by it. A time that is over is no move.
    pub fn move_on_to(&self, at: Time) {
        let ahead = ahead_of_system(at);
        self.0.ahead.fetch_max(ahead, Ordering::AcqRel);
        self.0.moved.notify_waiters();
    }

    /// Waits until it is so late; for ever, if there is no such time. If the clock is set back meanwhile,
    /// until so much time has passed as was left before: who wakes looks at the clock anyway.
    pub async fn sleep_until(&self, due: Option<Time>) {
        let Some(due) = due else {
            return future::pending().await;
        };
        let began = instant();
        let at_most = due.since(self.now());
        loop {
            // Before the clock is read, so that no move falls in between.
            let moved = self.0.moved.notified();
            let left = at_most.saturating_sub(began.elapsed());
            let left = left.min(due.since(self.now()));
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = sleep(left.min(LOOK)) => {}
                () = moved => {}
            }
        }
    }

    /// Sets the clock back, as people and time servers do.
    #[cfg(test)]
    pub(crate) fn set_back(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("not that far");
        self.0.ahead.fetch_sub(by, Ordering::AcqRel);
    }
}

/// Now, to measure how long something takes.
pub fn instant() -> Instant {
    Instant::now()
}

fn ahead_of_system(time: Time) -> i64 {
    time.as_millis().saturating_sub(system())
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

    #[test]
    fn a_clock_starts_where_it_is_told_goes_on_and_never_back() {
        let clock = Clock::starting_at(NOON);
        assert!(clock.now().since(NOON) < Duration::from_secs(60));
        let seen = clock.now();
        std::thread::sleep(Duration::from_millis(3));
        assert!(clock.now() > seen, "it stands still");
        let same = clock.clone();
        same.move_on_to(NOON + DAY);
        assert!(clock.now() >= NOON + DAY);
        clock.move_on_to(NOON);
        assert!(clock.now() >= NOON + DAY);
    }

    #[test]
    fn the_usual_clock_is_the_systems() {
        let (before, clock) = (system(), Clock::default());
        assert!((before..=system()).contains(&clock.now().as_millis()));
    }

    #[tokio::test]
    async fn who_waits_does_not_wait_longer_because_the_clock_is_set_back() {
        let clock = Clock::starting_at(NOON);
        let soon = clock.now() + Duration::from_millis(50);
        let waits = clock.sleep_until(Some(soon));
        let set_back = async { clock.set_back(DAY) };
        let both = async { tokio::join!(waits, set_back) };
        timeout(Duration::from_secs(60), both)
            .await
            .expect("it wakes");
        assert!(clock.now() < soon);
    }

    #[tokio::test]
    async fn who_waits_wakes_when_the_clock_is_moved_far_enough_or_time_passes() {
        let clock = Clock::starting_at(NOON);
        let waiter = clock.clone();
        let mut waits = tokio::spawn(async move { waiter.sleep_until(Some(NOON + DAY)).await });
        let patience = Duration::from_secs(60);
        clock.move_on_to(NOON + DAY / 2);
        let early = timeout(Duration::from_millis(50), &mut waits).await;
        assert!(early.is_err(), "half a day is not enough");
        clock.move_on_to(NOON + DAY);
        let woken = timeout(patience, waits).await.expect("it wakes");
        woken.expect("no panic");
        let soon = clock.now() + Duration::from_millis(20);
        timeout(patience, clock.sleep_until(Some(soon)))
            .await
            .expect("time passes");
        assert!(clock.now() >= soon);
        // What is over is over.
        clock.sleep_until(Some(NOON)).await;
        let never = timeout(Duration::from_millis(20), clock.sleep_until(None)).await;
        assert!(never.is_err());
    }
}
