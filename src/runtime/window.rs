//! How many writes may be under way at once: as many as the options say, and fewer when the server
//! does not take as many.
//!
//! A server that has enough to do refuses what is beyond its own limit and asks for a pause.
//! Whoever comes back with as many writes as before hears the same again, and does little but
//! pause. So the window is halved by each wave of refusals, and grows while there are none. One that
//! takes them all, but takes longer and longer, gets fewer too: see [`Pace`].
//!
//! Must not: pause; that is the throttle's work.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::instant;

use super::{
    lull::Lull,
    pace::{Generation, Pace, Verb},
};

/// Refusals within so long of a change are of writes that were sent before it.
const WAVE: Duration = Duration::from_secs(1);

/// The window grows after so long without a change: much longer than the usual pause, or there
/// would be little but pauses.
const CALM: Duration = Duration::from_secs(3);

/// See the module's text.
#[derive(Debug)]
pub(super) struct Window {
    state: Mutex<State>,
    freed: Notify,
    lull: Lull,
}

#[derive(Debug)]
struct State {
    max: usize,
    size: usize,
    under_way: usize,
    changed: Instant,
    pace: Pace,
}

/// A write's place in the window, for as long as it is under way.
#[derive(Debug)]
pub(super) struct Place<'a> {
    window: &'a Window,
    generation: Generation,
}

impl Window {
    /// A window for this many writes, that says how long to rest between answers.
    pub(super) fn new(max: usize, lull: Lull) -> Self {
        Self {
            state: Mutex::new(State::new(max, instant())),
            freed: Notify::new(),
            lull,
        }
    }

    /// Waits for a place.
    pub(super) async fn enter(&self) -> Place<'_> {
        loop {
            if let Some(generation) = self.state.lock().enter() {
                return Place {
                    window: self,
                    generation,
                };
            }
            // A place that was freed since the look is not missed: it left its notice.
            self.freed.notified().await;
        }
    }
}

impl Place<'_> {
    /// The server was too busy to take the write.
    pub(super) fn refused(self) {
        self.window.state.lock().refused(instant());
    }

    /// The server took the write, which was sent at this time.
    pub(super) fn taken(self, verb: Option<Verb>, sent: Instant) {
        let now = instant();
        let mut state = self.window.state.lock();
        state.taken(now);
        if let Some(verb) = verb {
            let took = now.duration_since(sent);
            state.pace.answered(verb, self.generation, took, now);
            self.window.lull.set(state.pace.rest());
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let free = {
            let mut state = self.window.state.lock();
            state.under_way -= 1;
            if state.under_way == 0 {
                // The next write may be one that somebody waits for.
                self.window.lull.set(Duration::ZERO);
            }
            state.allows().saturating_sub(state.under_way)
        };
        for _ in 0..free {
            self.window.freed.notify_one();
        }
    }
}

impl State {
    fn new(max: usize, now: Instant) -> Self {
        Self {
            max,
            size: max,
            under_way: 0,
            changed: now,
            pace: Pace::new(max, now),
        }
    }

    fn allows(&self) -> usize {
        self.size.min(self.pace.allows())
    }

    fn enter(&mut self) -> Option<Generation> {
        let free = self.under_way < self.allows();
        self.under_way += usize::from(free);
        free.then(|| self.pace.generation())
    }

    fn refused(&mut self, now: Instant) {
        if self.size == self.max || now.duration_since(self.changed) >= WAVE {
            self.size = (self.under_way.min(self.size) / 2).max(1);
            self.changed = now;
        }
    }

    fn taken(&mut self, now: Instant) {
        if self.size < self.max && now.duration_since(self.changed) >= CALM {
            self.size = (self.size + 1 + self.size / 4).min(self.max);
            self.changed = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window whose pace allows all.
    fn state(max: usize) -> State {
        let mut state = State::new(max, instant());
        let now = state.changed;
        for _ in 0..10 * max {
            let generation = state.pace.generation();
            let took = Duration::ZERO;
            state.pace.answered(Verb::Patch, generation, took, now);
        }
        assert_eq!(state.allows(), max);
        state
    }

    /// A server that takes so many writes at once, for so many seconds of ten waves each; how many
    /// it took, of those it could have taken.
    fn taken_by(limit: usize, seconds: u32) -> f64 {
        let mut state = state(64);
        let (start, mut taken, mut paused_until) = (state.changed, 0, state.changed);
        for tenth in 0..seconds * 10 {
            let now = start + Duration::from_millis(100) * tenth;
            if now < paused_until {
                continue;
            }
            while state.enter().is_some() {}
            for nth in 0..state.under_way {
                if nth < limit {
                    taken += 1;
                    state.taken(now);
                } else {
                    state.refused(now);
                    paused_until = now + Duration::from_secs(1);
                }
            }
            state.under_way = 0;
        }
        taken as f64 / (limit as f64 * f64::from(seconds) * 10.0)
    }

    #[test]
    fn a_server_that_takes_few_gets_few() {
        for limit in [1, 4, 20, 50] {
            let share = taken_by(limit, 300);
            assert!(share > 0.4, "{limit}: {share}");
        }
        assert!(taken_by(64, 10) > 0.99);
    }

    #[test]
    fn one_wave_of_refusals_counts_once() {
        let mut state = state(64);
        while state.enter().is_some() {}
        let now = state.changed + Duration::from_secs(5);
        for _ in 0..60 {
            state.refused(now);
        }
        assert_eq!(state.size, 32);
        state.refused(now + WAVE);
        assert_eq!(state.size, 16);
    }

    #[test]
    fn it_grows_to_its_full_size_again() {
        let mut state = state(64);
        state.size = 1;
        for _ in 0..14 {
            state.taken(state.changed + CALM);
        }
        assert_eq!(state.size, 64);
    }

    #[tokio::test]
    async fn places_are_handed_on() {
        let window = std::sync::Arc::new(Window::new(2, Lull::default()));
        let (first, _second) = (window.enter().await, window.enter().await);
        let third = tokio::spawn({
            let window = std::sync::Arc::clone(&window);
            async move { drop(window.enter().await) }
        });
        tokio::task::yield_now().await;
        assert!(!third.is_finished());
        drop(first);
        third.await.expect("a place is free");
    }
}
