//! The work queue: keys that wait for their turn.
//!
//! Laws. A key waits at most once. A key that is being worked on is not given out a second time;
//! added meanwhile, it comes again after. Keys that are new come before all others. Of two delayed
//! adds of a key the earlier wins; an immediate add does not cancel a delayed one. A rate-limited add
//! is delayed by an exponential backoff per key, until the key is forgotten. When the clock is set back,
//! delays do not grow by it: all keys come earlier by as much. A key whose time of day has not come then
//! looks once too often.

use std::{
    collections::{BTreeSet, VecDeque},
    hash::Hash,
    time::Duration,
};

use hashbrown::HashMap;

use crate::model::{Exponential, Time};

/// Less is no step back of the clock: of two threads that read it the second may come first.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// See the module's text. A key that is idle and has not failed takes no memory.
#[derive(Debug)]
pub struct WorkQueue<K> {
    backoff: Exponential,
    new: VecDeque<K>,
    ready: VecDeque<K>,
    delayed: BTreeSet<(Time, K)>,
    states: HashMap<K, State>,
    /// The time when it was last asked for.
    seen: Option<Time>,
}

#[derive(Debug, Default)]
struct State {
    waiting: bool,
    working: bool,
    again: bool,
    due: Option<Time>,
    failures: u32,
}

impl State {
    fn is_idle(&self) -> bool {
        !self.waiting && !self.working && self.due.is_none() && self.failures == 0
    }
}

impl<K: Clone + Eq + Ord + Hash> WorkQueue<K> {
    /// An empty queue with this backoff for keys that fail.
    pub fn new(backoff: Exponential) -> Self {
        Self {
            backoff,
            new: VecDeque::new(),
            ready: VecDeque::new(),
            delayed: BTreeSet::new(),
            states: HashMap::new(),
            seen: None,
        }
    }

    /// Looks at the clock; if it was set back, what is to come is to come earlier by as much.
    fn heed_clock(&mut self, now: Time) {
        let step = self.seen.map_or(Duration::ZERO, |seen| seen.since(now));
        if step < CLOCK_STEP {
            self.seen = self.seen.max(Some(now));
            return;
        }
        self.seen = Some(now);
        for (due, key) in std::mem::take(&mut self.delayed) {
            let due = due.before(step);
            if let Some(state) = self.states.get_mut(&key) {
                state.due = Some(due);
            }
            self.delayed.insert((due, key));
        }
    }

    /// Adds a key, to be worked on as soon as it is its turn. Whether it waits only since now.
    pub fn add(&mut self, key: K) -> bool {
        let waits = self.begin_to_wait(&key);
        if waits {
            self.ready.push_back(key);
        }
        waits
    }

    /// Adds a key that has had no turn yet: those that had theirs can wait. Whether it waits only
    /// since now.
    pub fn add_new(&mut self, key: K) -> bool {
        let waits = self.begin_to_wait(&key);
        if waits {
            self.new.push_back(key);
        }
        waits
    }

    fn begin_to_wait(&mut self, key: &K) -> bool {
        let state = self.states.entry(key.clone()).or_default();
        if state.working {
            state.again = true;
            return false;
        }
        if state.waiting {
            return false;
        }
        state.waiting = true;
        true
    }

    /// Adds a key, to be worked on from `due` on.
    pub fn add_at(&mut self, key: K, due: Time) {
        let state = self.states.entry(key.clone()).or_default();
        if let Some(before) = state.due {
            if before <= due {
                return;
            }
            self.delayed.remove(&(before, key.clone()));
        }
        state.due = Some(due);
        self.delayed.insert((due, key));
    }

    /// Adds a key that failed, to be tried again after a delay that grows with each failure.
    pub fn add_rate_limited(&mut self, key: K, now: Time) {
        self.heed_clock(now);
        let state = self.states.entry(key.clone()).or_default();
        state.failures = state.failures.saturating_add(1);
        let due = now + self.backoff.delay(state.failures);
        self.add_at(key, due);
    }

    /// Forgets that a key failed.
    pub fn forget(&mut self, key: &K) {
        if let Some(state) = self.states.get_mut(key) {
            state.failures = 0;
            self.drop_if_idle(key);
        }
    }

    /// Finds the next delayed key that waits from now on, if one does: its time has come, and it neither
    /// waits nor is worked on already.
    pub fn come_due(&mut self, now: Time) -> Option<K> {
        self.heed_clock(now);
        while self.next_due().is_some_and(|due| due <= now) {
            let (_, key) = self.delayed.pop_first()?;
            if let Some(state) = self.states.get_mut(&key) {
                state.due = None;
            }
            if self.add(key.clone()) {
                return Some(key);
            }
        }
        None
    }

    /// Gives out the next key, if one is due; its user must call [`WorkQueue::done`].
    pub fn take(&mut self, now: Time) -> Option<K> {
        while self.come_due(now).is_some() {}
        let key = self.new.pop_front().or_else(|| self.ready.pop_front())?;
        let state = self
            .states
            .get_mut(&key)
            .expect("each waiting key has a state");
        state.waiting = false;
        state.working = true;
        Some(key)
    }

    /// The work on a key is over, for now. Whether it came again meanwhile and waits.
    pub fn done(&mut self, key: &K) -> bool {
        let Some(state) = self.states.get_mut(key) else {
            return false;
        };
        state.working = false;
        if std::mem::take(&mut state.again) {
            return self.add(key.clone());
        }
        self.drop_if_idle(key);
        false
    }

    /// When the next delayed key is due.
    pub fn next_due(&self) -> Option<Time> {
        self.delayed.first().map(|(due, _)| *due)
    }

    /// How many keys wait for their turn now.
    pub fn len(&self) -> usize {
        self.new.len() + self.ready.len()
    }

    /// Whether no key waits for its turn now.
    pub fn is_empty(&self) -> bool {
        self.new.is_empty() && self.ready.is_empty()
    }

    fn drop_if_idle(&mut self, key: &K) {
        if self.states.get(key).is_some_and(State::is_idle) {
            self.states.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn queue() -> WorkQueue<&'static str> {
        let max = Duration::from_secs(60);
        WorkQueue::new(Exponential {
            base: Duration::from_secs(1),
            max,
        })
    }

    fn at(secs: i64) -> Time {
        Time::from_secs(secs)
    }

    #[test]
    fn a_key_waits_once_and_is_not_worked_on_twice_at_once() {
        let mut queue = queue();
        assert!(queue.add("a"));
        assert!(!queue.add("a"));
        assert_eq!(queue.take(at(0)), Some("a"));
        assert!(!queue.add("a"));
        assert_eq!(queue.take(at(0)), None);
        assert!(queue.done(&"a"));
        assert_eq!(queue.take(at(0)), Some("a"));
        assert!(!queue.done(&"a"));
        assert!(queue.states.is_empty(), "an idle key takes no memory");
    }

    #[test]
    fn new_keys_come_first_in_their_order() {
        let mut queue = queue();
        queue.add("a");
        queue.add("b");
        assert!(queue.add_new("c"));
        assert!(queue.add_new("d"));
        assert!(!queue.add_new("b"), "it waits already");
        assert_eq!(queue.len(), 4);
        let order: Vec<_> = std::iter::from_fn(|| queue.take(at(0))).collect();
        assert_eq!(order, ["c", "d", "a", "b"]);
        assert!(!queue.add_new("a"), "it is worked on");
        assert!(queue.done(&"a") && !queue.is_empty());
    }

    #[test]
    fn the_earlier_delay_wins_and_an_immediate_add_cancels_none() {
        let mut queue = queue();
        queue.add_at("a", at(9));
        queue.add_at("a", at(5));
        queue.add_at("a", at(7));
        assert_eq!(queue.next_due(), Some(at(5)));
        queue.add("a");
        assert_eq!(queue.take(at(1)), Some("a"));
        queue.done(&"a");
        assert_eq!(queue.take(at(4)), None);
        assert_eq!(queue.take(at(5)), Some("a"));
        queue.done(&"a");
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn a_delay_does_not_grow_when_the_clock_is_set_back() {
        let mut queue = queue();
        assert_eq!(queue.take(at(10_000)), None);
        queue.add_at("a", at(10_005));
        queue.add_at("b", at(10_009));
        assert_eq!(queue.take(at(6_400)), None);
        assert_eq!(queue.next_due(), Some(at(6_405)));
        queue.add_at("a", at(6_403));
        assert_eq!(queue.take(at(6_403)), Some("a"));
        queue.done(&"a");
        assert_eq!(queue.take(at(6_409)), Some("b"));
        queue.done(&"b");
        assert!(queue.states.is_empty() && queue.delayed.is_empty());
    }

    #[test]
    fn failures_in_a_row_double_the_delay_until_forgotten() {
        let mut queue = queue();
        let mut now = at(0);
        for delay in [1, 2, 4, 8, 16, 32, 60, 60] {
            queue.add_rate_limited("a", now);
            assert_eq!(queue.next_due(), Some(now + Duration::from_secs(delay)));
            now = now + Duration::from_secs(delay);
            assert_eq!(queue.take(now), Some("a"));
            queue.done(&"a");
        }
        queue.forget(&"a");
        queue.add_rate_limited("a", now);
        assert_eq!(queue.next_due(), Some(now + Duration::from_secs(1)));
    }
}
