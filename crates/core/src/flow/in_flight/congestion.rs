//! Limits writes in flight to the number above which they only wait for each other.
//!
//! More requests do not make an overloaded server faster: only its queue grows, and a new Job waits behind it. The
//! latency with few writes in flight distinguishes this from a distant server. By Little's law latency grows with the
//! number in flight, so the latency at a known number gives the number that there may be. LEDBAT (RFC 6817) and TCP
//! Vegas leave room for others in a network in this way.
//!
//! The room is for other Jobs. Without other Jobs it helps none, and fewer writes in flight cost server and controller
//! more work per write. Then each evaluation adds at least one place, as in TCP's congestion avoidance.
//!
//! Must not: know the content of a write.

use std::time::Duration;

use super::{super::fair_queue::BATCH, SHARE};

/// A write may wait this long for others. Measured on a busy real server, docs/flow.md ("Congestion").
const WAIT: Duration = Duration::from_millis(50);

/// The minimum number of places, enough for one Job alone to have a batch in flight. With fewer a real server does less
/// in all (docs/load-tests.md, `--max-in-flight`).
const FEWEST: usize = BATCH * (SHARE + 1) / SHARE;

/// Estimates the useful number of writes in flight from their latency. `places` is the result; each write is reported
/// by `in_flight`, `answered` and `took`.
#[derive(Debug, Default)]
pub(super) struct Congestion {
    /// The maximum number in flight, if more would wait too long.
    places: Option<usize>,
    /// The shortest latency so far. The first sample must be of a write sent while few were in flight.
    shortest: Option<Duration>,
    /// The last time when more than `FEWEST` writes were in flight.
    crowded: Duration,
    /// The mean latency at the minimum number of places, if that was still too long: then our own concurrency is not
    /// the cause. Zero once the latency has fallen to less than half.
    with_fewest: Duration,
    /// The latencies of comparable writes since their last evaluation. They are evaluated after as many responses as
    /// writes may be in flight.
    alike: Answers,
    /// The same for all other writes.
    others: Answers,
    /// The number of next responses that belong to writes sent while there were more places.
    stale: usize,
}

/// Sums over several responses.
#[derive(Debug, Default)]
struct Answers {
    count: usize,
    /// The sum of their latencies.
    time: Duration,
    /// The sum of the numbers in flight when each response came.
    in_flight: usize,
    /// Writes of several Jobs were in flight at once in the meantime.
    is_shared: bool,
}

impl Congestion {
    /// Records the number of writes in flight; `is_shared` if they belong to several Jobs.
    pub(super) fn in_flight(&mut self, in_flight: usize, is_shared: bool, now: Duration) {
        if in_flight > FEWEST {
            self.crowded = now;
        }
        self.alike.is_shared |= is_shared;
        self.others.is_shared |= is_shared;
    }

    /// Records any response to a write sent at `sent`.
    pub(super) fn answered(&mut self, sent: Duration, now: Duration) {
        let time = now.saturating_sub(sent);
        self.shortest = match self.shortest {
            Some(shortest) => Some(shortest.min(time)),
            None => (sent > self.crowded).then_some(time),
        };
    }

    /// Records the latency of an accepted write; `is_alike` if it can be compared. `in_flight` writes were in flight,
    /// of at most `max`.
    pub(super) fn took(&mut self, time: Duration, is_alike: bool, in_flight: usize, max: usize) {
        if self.stale > 0 {
            self.stale -= 1;
            return;
        }
        let seen = match is_alike {
            true => &mut self.alike,
            false => &mut self.others,
        };
        seen.count += 1;
        seen.time += time;
        seen.in_flight += in_flight;
        if seen.count >= max {
            let seen = std::mem::take(seen);
            self.judge(seen, is_alike, in_flight, max);
        }
    }

    fn judge(&mut self, seen: Answers, is_alike: bool, in_flight: usize, max: usize) {
        let mean = seen.time.div_f64(seen.count as f64);
        let places = self.places.unwrap_or(max);
        let shortest = self.shortest.unwrap_or_default();
        if is_alike && places <= FEWEST && mean > bearable(shortest) {
            self.with_fewest = mean;
        } else if mean < self.with_fewest / 2 {
            self.with_fewest = Duration::ZERO;
        }
        let bearable = bearable(shortest.max(self.with_fewest));
        let fit = seen.in_flight as f64 * bearable.div_duration_f64(seen.time);
        let fit = fit as usize;
        let next = match mean > bearable {
            _ if !seen.is_shared => fit.max(places + 1),
            true if is_alike => fit.min(places).max(FEWEST),
            // An admission webhook may be the slow part.
            true => places,
            false => fit.max(places),
        };
        if next < places {
            self.stale = in_flight;
        }
        self.places = (next < max).then_some(next);
    }

    /// Returns the maximum number in flight, if it is lower than usual.
    pub(super) fn places(&self) -> Option<usize> {
        self.places
    }
}

/// Returns the acceptable latency of a write that takes `by_itself` without load. Where that is long, latencies vary as
/// much.
fn bearable(by_itself: Duration) -> Duration {
    by_itself + WAIT.max(by_itself)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 96;

    fn millis(millis: f64) -> Duration {
        Duration::from_secs_f64(millis / 1_000.0)
    }

    /// A server, and a Job that always has more to write.
    struct Run {
        congestion: Congestion,
        /// In milliseconds.
        now: f64,
        /// The latency of a write without load, in milliseconds.
        takes: f64,
        /// Every second write takes this much longer, and the others this much less.
        varies: f64,
        /// The maximum number of writes per second.
        does: f64,
        /// The latencies can be compared.
        is_alike: bool,
        /// Another Job has writes in flight.
        is_shared: bool,
    }

    impl Run {
        fn new(takes: f64) -> Self {
            Self {
                congestion: Congestion::default(),
                now: 1_000.0,
                takes,
                varies: 0.0,
                does: f64::INFINITY,
                is_alike: true,
                is_shared: true,
            }
        }

        /// The response to the only write in flight.
        fn first(&mut self) {
            let now = millis(self.now);
            self.congestion.answered(now - millis(self.takes), now);
        }

        /// Processes `count` responses. Returns the number in flight and the mean latency at the end.
        fn answers(&mut self, count: usize) -> (usize, Duration) {
            let mut last = (0, 0.0);
            for number in 0..count {
                let places = self.congestion.places().unwrap_or(MAX);
                let in_flight = places * SHARE / (SHARE + 1);
                let mean = self.takes.max(1_000.0 * in_flight as f64 / self.does);
                self.now += mean / in_flight as f64;
                let time = match number % 2 {
                    0 => mean + self.varies,
                    _ => mean - self.varies,
                };
                let (sent, now) = (millis(self.now - time), millis(self.now));
                self.congestion.in_flight(in_flight, self.is_shared, now);
                self.congestion.answered(sent, now);
                let time = now - sent;
                self.congestion.took(time, self.is_alike, in_flight, MAX);
                last = (in_flight, mean);
            }
            (last.0, millis(last.1))
        }
    }

    fn long(takes: Duration) -> bool {
        takes > Duration::from_millis(60)
    }

    #[test]
    fn on_a_busy_server_fewer_are_in_flight_and_as_many_are_done() {
        for (does, most) in [(430.0, 26), (1_000.0, 56), (200.0, 12)] {
            let mut run = Run::new(4.0);
            run.does = does;
            let (in_flight, takes) = run.answers(2_000);
            assert!((BATCH..=most).contains(&in_flight), "{does}: {in_flight}");
            assert!(in_flight == BATCH || !long(takes), "{does}: {takes:?}");
            // The server is idle again.
            run.does = f64::INFINITY;
            let (in_flight, _) = run.answers(500);
            assert_eq!((in_flight, run.congestion.places()), (64, None), "{does}");
        }
    }

    #[test]
    fn a_job_with_no_other_beside_it_makes_no_room() {
        let mut run = Run::new(4.0);
        (run.does, run.is_shared) = (430.0, false);
        assert_eq!(run.answers(2_000).0, 64);
        run.is_shared = true;
        let (in_flight, takes) = run.answers(2 * MAX + 64);
        assert!(in_flight <= 26 && !long(takes), "{in_flight}, {takes:?}");
        // The other Job is gone: one more place after each evaluation, until all are back.
        run.is_shared = false;
        run.answers(MAX);
        let places = run.congestion.places();
        run.answers(10 * MAX);
        assert_eq!(run.congestion.places(), places.map(|places| places + 10));
        run.answers(100 * MAX);
        assert_eq!(run.congestion.places(), None);
        // Creations alone restore the places as well.
        run.is_shared = true;
        run.answers(4 * MAX);
        assert!(run.congestion.places().is_some());
        (run.is_shared, run.is_alike) = (false, false);
        run.answers(100 * MAX);
        assert_eq!(run.congestion.places(), None);
    }

    #[test]
    fn a_server_that_is_far_away_is_not_congested() {
        for takes in [20.0, 60.0, 300.0] {
            let mut run = Run::new(takes);
            run.first();
            run.varies = takes / 4.0;
            run.answers(2_000);
            assert_eq!(run.congestion.places(), None, "{takes} ms");
        }
    }

    #[test]
    fn a_server_that_takes_longer_than_it_did_is_found_out() {
        for (takes, varies) in [(100.0, 0.0), (300.0, 0.0), (100.0, 90.0)] {
            let mut run = Run::new(2.0);
            run.answers(500);
            (run.takes, run.varies) = (takes, varies);
            let (in_flight, _) = run.answers(100);
            assert!(in_flight < 64, "it may be what is in flight");
            run.answers(2_000);
            assert_eq!(run.congestion.places(), None, "{takes} ms");
            // Its earlier latency does not count any more once the server is as quick as before.
            (run.takes, run.varies) = (2.0, 0.0);
            run.answers(500);
            run.does = 430.0;
            let (_, takes) = run.answers(1_000);
            assert!(!long(takes), "{takes:?}");
        }
    }

    #[test]
    fn a_start_under_load_measures_the_base_latency() {
        let mut run = Run::new(40.0);
        run.does = 430.0;
        run.answers(2_000);
        assert!(run.answers(1).0 < 40);
        // Far away, with no other Job.
        let mut run = Run::new(80.0);
        run.answers(2_000);
        assert_eq!(run.congestion.places(), None);
    }

    #[test]
    fn a_sample_without_baseline_may_grow_the_window_but_not_shrink_it() {
        let mut run = Run::new(4.0);
        (run.does, run.is_alike) = (200.0, false);
        run.answers(1_000);
        assert_eq!(run.congestion.places(), None, "a webhook may be slow");
        run.is_alike = true;
        run.answers(1_000);
        assert!(run.congestion.places().is_some_and(|places| places < 20));
        // Only Pods are created now, and the server is idle.
        (run.does, run.is_alike) = (f64::INFINITY, false);
        run.answers(1_000);
        assert_eq!(run.congestion.places(), None);
    }

    #[test]
    fn few_places_stay_few() {
        let mut congestion = Congestion::default();
        for _ in 0..1_000 {
            congestion.in_flight(3, true, Duration::from_secs(1));
            congestion.took(Duration::from_millis(500), true, 3, 4);
        }
        assert_eq!(congestion.places(), None);
    }
}
