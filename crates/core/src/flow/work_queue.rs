//! Queues keys to sync, like client-go's `workqueue`, and lets new keys go first.
//!
//! Laws. A key waits at most once. A key in progress is not handed out a second time; if it is added meanwhile, it is
//! queued again afterwards. New keys come before all others. Of two delayed adds of a key the earlier wins; an
//! immediate add does not cancel a delayed one. A rate-limited add is delayed by an exponential backoff per key, until
//! the key is forgotten. A key may wait by both clocks: when either time has come, both waits end.

use std::{
    collections::{BTreeSet, VecDeque},
    hash::Hash,
};

use hashbrown::HashMap;

use crate::model::{Exponential, Monotonic, Now, Time, Timeout};

/// A work queue of keys `K`. Each key from [`WorkQueue::take`] must be returned by [`WorkQueue::done`]. A key that is
/// idle and has not failed takes no memory.
#[derive(Debug)]
#[doc(alias = "workqueue")]
#[doc(alias = "RateLimitingInterface")]
pub struct WorkQueue<K> {
    backoff: Exponential,
    new: VecDeque<K>,
    ready: VecDeque<K>,
    delayed: BTreeSet<(Monotonic, K)>,
    /// Keys that wait for a wall-clock time.
    dated: BTreeSet<(Time, K)>,
    states: HashMap<K, State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: bool,
    working: bool,
    again: bool,
    due: Timeout,
    failures: u32,
}

impl State {
    fn is_idle(&self) -> bool {
        !self.waiting && !self.working && self.due == Timeout::default() && self.failures == 0
    }
}

impl<K: Clone + Eq + Ord + Hash> WorkQueue<K> {
    /// Creates an empty queue with this backoff for failed keys.
    pub fn new(backoff: Exponential) -> Self {
        Self {
            backoff,
            new: VecDeque::new(),
            ready: VecDeque::new(),
            delayed: BTreeSet::new(),
            dated: BTreeSet::new(),
            states: HashMap::new(),
        }
    }

    /// Adds a key, to be handed out in its turn. Returns true if it was not waiting before.
    pub fn add(&mut self, key: K) -> bool {
        let waits = self.begin_to_wait(&key);
        if waits {
            self.ready.push_back(key);
        }
        waits
    }

    /// Adds a key that had no turn yet, ahead of those that had one. Returns true if it was not waiting before.
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

    /// Adds a key, to be handed out from `due` on.
    #[doc(alias = "AddAfter")]
    pub fn add_at(&mut self, key: K, due: Timeout) {
        let state = self.states.entry(key.clone()).or_default();
        let before = state.due;
        state.due = before.or(due);
        let after = state.due;
        if after.monotonic != before.monotonic {
            put_off(&mut self.delayed, &key, before.monotonic, after.monotonic);
        }
        if after.wall != before.wall {
            put_off(&mut self.dated, &key, before.wall, after.wall);
        }
    }

    /// Adds a failed key, to be retried after a delay that grows with each failure.
    pub fn add_rate_limited(&mut self, key: K, now: Monotonic) {
        let state = self.states.entry(key.clone()).or_default();
        state.failures = state.failures.saturating_add(1);
        let due = now + self.backoff.delay(state.failures);
        self.add_at(key, due.into());
    }

    /// Resets the failures of a key.
    pub fn forget(&mut self, key: &K) {
        if let Some(state) = self.states.get_mut(key) {
            state.failures = 0;
            self.drop_if_idle(key);
        }
    }

    /// Queues the next delayed key that is due and neither waiting nor in progress. Returns that key, if there is one.
    pub fn come_due(&mut self, now: Now) -> Option<K> {
        while let Some(key) = self.first_due(now).cloned() {
            let state = self.states.get_mut(&key);
            let state = state.expect("each waiting key has a state");
            let due = std::mem::take(&mut state.due);
            put_off(&mut self.delayed, &key, due.monotonic, None);
            put_off(&mut self.dated, &key, due.wall, None);
            if self.add(key.clone()) {
                return Some(key);
            }
        }
        None
    }

    /// Returns a delayed key that is due.
    fn first_due(&self, now: Now) -> Option<&K> {
        let delayed = self
            .delayed
            .first()
            .filter(|(due, _)| *due <= now.monotonic);
        let dated = self.dated.first().filter(|(due, _)| *due <= now.wall);
        let delayed = delayed.map(|(_, key)| key);
        delayed.or(dated.map(|(_, key)| key))
    }

    /// Hands out the next key, if one is due; the caller must call [`WorkQueue::done`].
    #[doc(alias = "Get")]
    pub fn take(&mut self, now: Now) -> Option<K> {
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

    /// Ends the work on a key. Returns true if the key was added meanwhile and waits now.
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

    /// Returns when the next delayed key is due.
    pub fn next_due(&self) -> Timeout {
        Timeout {
            monotonic: self.delayed.first().map(|(due, _)| *due),
            wall: self.dated.first().map(|(due, _)| *due),
        }
    }

    /// Returns the number of keys that wait for their turn now.
    pub fn len(&self) -> usize {
        self.new.len() + self.ready.len()
    }

    /// Returns true if a key waits that has had no turn yet.
    pub fn has_new(&self) -> bool {
        !self.new.is_empty()
    }

    /// Returns true if no key waits for its turn now.
    pub fn is_empty(&self) -> bool {
        self.new.is_empty() && self.ready.is_empty()
    }

    fn drop_if_idle(&mut self, key: &K) {
        if self.states.get(key).is_some_and(State::is_idle) {
            self.states.remove(key);
        }
    }
}

/// Moves a key from one due time to another, if there is one.
fn put_off<T: Copy + Ord, K: Clone + Ord>(
    waiting: &mut BTreeSet<(T, K)>,
    key: &K,
    before: Option<T>,
    after: Option<T>,
) {
    if let Some(before) = before {
        waiting.remove(&(before, key.clone()));
    }
    waiting.extend(after.map(|after| (after, key.clone())));
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

    fn at(secs: i64) -> Now {
        Now::at(Time::from_secs(secs))
    }

    fn wait(secs: i64) -> Timeout {
        at(secs).monotonic.into()
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
        assert!(queue.has_new());
        let order: Vec<_> = std::iter::from_fn(|| queue.take(at(0))).collect();
        assert_eq!(order, ["c", "d", "a", "b"]);
        assert!(!queue.has_new());
        assert!(!queue.add_new("a"), "it is worked on");
        assert!(queue.done(&"a") && !queue.is_empty());
    }

    #[test]
    fn the_earlier_delay_wins_and_an_immediate_add_cancels_none() {
        let mut queue = queue();
        queue.add_at("a", wait(9));
        queue.add_at("a", wait(5));
        queue.add_at("a", wait(7));
        assert_eq!(queue.next_due(), wait(5));
        queue.add("a");
        assert_eq!(queue.take(at(1)), Some("a"));
        queue.done(&"a");
        assert_eq!(queue.take(at(4)), None);
        assert_eq!(queue.take(at(5)), Some("a"));
        queue.done(&"a");
        assert_eq!(queue.next_due(), Timeout::default());
    }

    #[test]
    fn a_delay_does_not_grow_when_the_clock_is_set_back() {
        let mut queue = queue();
        let start = at(10_000);
        let after = |secs| start + Duration::from_secs(secs);
        // From now on the clock is an hour earlier.
        let set_back = |secs| Now {
            wall: Time::from_secs(6_400) + Duration::from_secs(secs),
            ..after(secs)
        };
        assert_eq!(queue.take(start), None);
        queue.add_at("a", after(5).monotonic.into());
        queue.add_at("b", after(9).monotonic.into());
        queue.add_at("b", after(7).wall.into());
        queue.add_at("c", after(7).wall.into());
        assert_eq!(queue.take(set_back(4)), None);
        assert_eq!(queue.take(set_back(5)), Some("a"));
        queue.done(&"a");
        assert_eq!(queue.take(set_back(8)), None);
        assert_eq!(queue.take(set_back(9)), Some("b"));
        queue.done(&"b");
        assert_eq!(queue.next_due(), after(7).wall.into(), "its day will come");
        assert_eq!(queue.take(set_back(3606)), None);
        assert_eq!(queue.take(set_back(3607)), Some("c"));
        queue.done(&"c");
        assert!(queue.states.is_empty() && queue.delayed.is_empty() && queue.dated.is_empty());
    }

    #[test]
    fn a_time_of_day_comes_when_the_clock_is_set_on_and_a_delay_does_not() {
        let mut queue = queue();
        let start = at(1_000);
        queue.add_at("a", wait(1_009).or(at(5_000).wall.into()));
        queue.add_at("a", at(6_000).wall.into());
        queue.add_rate_limited("b", start.monotonic);
        assert_eq!(queue.take(start), None);
        let set_on = Now {
            wall: at(5_000).wall,
            ..start
        };
        assert_eq!(queue.take(set_on), Some("a"));
        queue.done(&"a");
        assert_eq!(queue.take(set_on), None);
        assert_eq!(queue.take(set_on + Duration::from_secs(1)), Some("b"));
        queue.done(&"b");
        queue.forget(&"b");
        assert!(queue.states.is_empty() && queue.delayed.is_empty() && queue.dated.is_empty());
    }

    #[test]
    fn failures_in_a_row_double_the_delay_until_forgotten() {
        let mut queue = queue();
        let mut now = at(0);
        for delay in [1, 2, 4, 8, 16, 32, 60, 60] {
            queue.add_rate_limited("a", now.monotonic);
            now = now + Duration::from_secs(delay);
            assert_eq!(queue.next_due(), now.monotonic.into());
            assert_eq!(queue.take(now), Some("a"));
            queue.done(&"a");
        }
        queue.forget(&"a");
        queue.add_rate_limited("a", now.monotonic);
        let due = now.monotonic + Duration::from_secs(1);
        assert_eq!(queue.next_due(), due.into());
    }
}
