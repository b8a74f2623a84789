//! Congestion: how many writes may be in flight before they only wait for each other.
//!
//! A server that has more than it can do at once does not do it sooner for being asked for more: all that grows is
//! its queue, and whoever comes new waits behind it. How long a write took when few were in flight tells whether it is
//! that, or whether the server is far away. The more are in flight, the longer each takes (Little's law), and so what one takes
//! with so many in flight tells how many there may be. LEDBAT (RFC 6817) and TCP Vegas leave room for others in a network so.
//!
//! Room is made for other Jobs. While there is none, no Job gains by it, and server and controller do more work for
//! each write when fewer are in flight: then there is a place more after each look, as in congestion avoidance of TCP.
//!
//! Must not: know what a write is.

use std::time::Duration;

use super::{super::fair_queue::BATCH, SHARE};

/// A write may wait so long for others. Measured on a busy real server, docs/flow.md ("Congestion").
const WAIT: Duration = Duration::from_millis(50);

/// There are at least so many places: one Job alone has a batch in flight. With fewer a real server does less in all
/// (docs/load-tests.md, `--max-in-flight`).
const FEWEST: usize = BATCH * (SHARE + 1) / SHARE;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Congestion {
    /// At most so many are to be in flight, where more would wait too long.
    places: Option<usize>,
    /// The shortest time that an answer took which waited for no other.
    shortest: Option<Duration>,
    /// When more were in flight last than do without waiting.
    crowded: Duration,
    /// What answers took while no fewer could be in flight, if that was too long all the same: it is not for each other that
    /// they wait. Zero if they do not take so long any more.
    with_fewest: Duration,
    /// What the calls took that are like each other, since the last look at them. There is one each time that as many
    /// answers came as may be in flight.
    alike: Answers,
    /// The same of all others.
    others: Answers,
    /// So many of the next answers are to what was sent while there were more places.
    stale: usize,
}

/// What some answers took.
#[derive(Debug, Default)]
struct Answers {
    count: usize,
    /// Of all.
    time: Duration,
    /// How many were in flight when each came: the sum.
    in_flight: usize,
    /// Whether writes of several Jobs were in flight at once meanwhile.
    is_shared: bool,
}

impl Congestion {
    /// So many are in flight now; whether they are of several Jobs.
    pub(super) fn in_flight(&mut self, in_flight: usize, is_shared: bool, now: Duration) {
        if in_flight > FEWEST {
            self.crowded = now;
        }
        self.alike.is_shared |= is_shared;
        self.others.is_shared |= is_shared;
    }

    /// An answer came to what was sent then, whatever it was.
    pub(super) fn answered(&mut self, sent: Duration, now: Duration) {
        let time = now.saturating_sub(sent);
        self.shortest = match self.shortest {
            Some(shortest) => Some(shortest.min(time)),
            None => (sent > self.crowded).then_some(time),
        };
    }

    /// So long an answer took; whether to a call whose times can be compared. So many were in flight, and so many may be
    /// at the most.
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
            // Whoever is asked about them may be slow.
            true => places,
            false => fit.max(places),
        };
        if next < places {
            self.stale = in_flight;
        }
        self.places = (next < max).then_some(next);
    }

    /// How many may be in flight, where that is fewer than usual.
    pub(super) fn places(&self) -> Option<usize> {
        self.places
    }
}

/// What an answer may take to a write that takes so long by itself. Where that is long, times differ by as much.
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

    /// A server, and a Job that has always more to write.
    struct Run {
        congestion: Congestion,
        /// In milliseconds.
        now: f64,
        /// So many milliseconds a write takes by itself.
        takes: f64,
        /// Every second one takes so much more, and the others so much less.
        varies: f64,
        /// So many writes a second are done at most.
        does: f64,
        /// Whether what they take can be compared.
        is_alike: bool,
        /// Whether another Job has something in flight.
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

        /// The answer to a write that is alone.
        fn first(&mut self) {
            let now = millis(self.now);
            self.congestion.answered(now - millis(self.takes), now);
        }

        /// Lets so many be answered; how many may be in flight then, and what an answer takes on average.
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
            // The server has little to do again.
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
        // The other is gone: a place more after each look, until all are back.
        run.is_shared = false;
        run.answers(MAX);
        let places = run.congestion.places();
        run.answers(10 * MAX);
        assert_eq!(run.congestion.places(), places.map(|places| places + 10));
        run.answers(100 * MAX);
        assert_eq!(run.congestion.places(), None);
        // Creations alone give them back as well.
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
            // What it took then counts no more when it is as quick as before.
            (run.takes, run.varies) = (2.0, 0.0);
            run.answers(500);
            run.does = 430.0;
            let (_, takes) = run.answers(1_000);
            assert!(!long(takes), "{takes:?}");
        }
    }

    #[test]
    fn who_begins_in_the_middle_finds_out_how_long_a_write_takes() {
        let mut run = Run::new(40.0);
        run.does = 430.0;
        run.answers(2_000);
        assert!(run.answers(1).0 < 40);
        // Far away, with nobody else.
        let mut run = Run::new(80.0);
        run.answers(2_000);
        assert_eq!(run.congestion.places(), None);
    }

    #[test]
    fn what_cannot_be_compared_gives_room_and_takes_none() {
        let mut run = Run::new(4.0);
        (run.does, run.is_alike) = (200.0, false);
        run.answers(1_000);
        assert_eq!(run.congestion.places(), None, "a webhook may be slow");
        run.is_alike = true;
        run.answers(1_000);
        assert!(run.congestion.places().is_some_and(|places| places < 20));
        // Only Pods are made now, and the server has little to do.
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
