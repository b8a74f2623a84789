//! Gives each Job its turn to write, however much another Job has to write.

use std::{collections::VecDeque, hash::Hash};

use hashbrown::HashMap;

/// First in, first out per key, keys in turn. Within a key, urgent items go first.
///
/// A key gives some items in its turn, because what is done for one Job costs less at one go. Who comes
/// new, and who has something urgent, does not wait for the turns of all others: one item of theirs goes
/// with each item of those whose turn it is.
///
/// Memory is what is waiting: a key without items has no entry once its turn has come.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    lanes: HashMap<K, Lane<T>>,
    /// Keys that have one item to give before their turn.
    called: VecDeque<K>,
    /// Whether the next item is to be of those.
    call: bool,
    turns: VecDeque<K>,
    /// How many items the first of `turns` has given in this turn.
    given: usize,
    len: usize,
}

/// So many items a key gives in its turn.
const TURN: usize = 8;

#[derive(Debug)]
struct Lane<T> {
    urgent: VecDeque<T>,
    usual: VecDeque<T>,
    /// Whether the key is among `turns`.
    has_turn: bool,
}

impl<T> Lane<T> {
    fn pop(&mut self) -> Option<T> {
        self.urgent.pop_front().or_else(|| self.usual.pop_front())
    }

    fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.usual.is_empty()
    }
}

impl<K: Clone + Eq + Hash, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self {
            lanes: HashMap::new(),
            called: VecDeque::new(),
            call: false,
            turns: VecDeque::new(),
            given: 0,
            len: 0,
        }
    }
}

impl<K: Clone + Eq + Hash, T> FairQueue<K, T> {
    /// Adds an item.
    pub fn push(&mut self, key: K, urgent: bool, item: T) {
        self.len += 1;
        let mut calls = urgent;
        let lane = self.lanes.entry(key.clone()).or_insert_with(|| {
            calls = true;
            Lane {
                urgent: VecDeque::new(),
                usual: VecDeque::new(),
                has_turn: false,
            }
        });
        if urgent {
            lane.urgent.push_back(item);
        } else {
            lane.usual.push_back(item);
        }
        if calls {
            self.called.push_back(key);
        }
    }

    /// Takes the next item.
    pub fn pop(&mut self) -> Option<T> {
        let first = self.call;
        self.call = !self.call;
        let item = if first {
            self.pop_called().or_else(|| self.pop_in_turn())
        } else {
            self.pop_in_turn().or_else(|| self.pop_called())
        };
        self.len -= usize::from(item.is_some());
        item
    }

    fn pop_called(&mut self) -> Option<T> {
        while let Some(key) = self.called.pop_front() {
            let Some(lane) = self.lanes.get_mut(&key) else {
                continue;
            };
            let item = lane.pop();
            if !lane.has_turn {
                if lane.is_empty() {
                    self.lanes.remove(&key);
                } else {
                    lane.has_turn = true;
                    self.turns.push_back(key);
                }
            }
            if item.is_some() {
                return item;
            }
        }
        None
    }

    fn pop_in_turn(&mut self) -> Option<T> {
        while let Some(key) = self.turns.front() {
            let lane = self.lanes.get_mut(key).expect("each turn has a lane");
            let item = lane.pop();
            let is_empty = lane.is_empty();
            self.given += 1;
            if is_empty || self.given == TURN {
                self.given = 0;
                let key = self.turns.pop_front()?;
                if is_empty {
                    self.lanes.remove(&key);
                } else {
                    self.turns.push_back(key);
                }
            }
            if item.is_some() {
                return item;
            }
        }
        None
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_turns() {
        let mut queue = FairQueue::default();
        for item in 0..100 {
            for key in ["a", "b", "c"] {
                queue.push(key, false, (key, item));
            }
        }
        // Each is called for one item first.
        let key = |item: Option<(&'static str, i32)>| item.map(|(key, _)| key);
        let first: Vec<_> = (0..4).filter_map(|_| key(queue.pop())).collect();
        assert_eq!(first, ["a", "b", "a", "c"]);
        for (expected, items) in [("a", TURN - 1), ("b", TURN), ("c", TURN), ("a", TURN)] {
            for _ in 0..items {
                assert_eq!(key(queue.pop()), Some(expected));
            }
        }
        let rest = std::iter::from_fn(|| queue.pop()).count();
        assert_eq!(rest, 300 - 3 - 4 * TURN);
        assert!(queue.lanes.is_empty() && queue.turns.is_empty() && queue.is_empty());
    }

    #[test]
    fn a_newcomer_waits_for_one_item_of_the_others() {
        let mut queue = FairQueue::default();
        for item in 0..100 {
            queue.push("giant", false, item);
            queue.push("giant too", false, item);
        }
        for _ in 0..7 {
            queue.pop();
        }
        queue.push("small", false, 1000);
        assert!(queue.pop() == Some(1000) || queue.pop() == Some(1000));
    }

    #[test]
    fn newcomers_do_not_keep_a_giant_from_its_turn() {
        let mut queue = FairQueue::default();
        for _ in 0..100 {
            queue.push(0, false, "giant");
        }
        queue.pop();
        let mut of_giant = 0;
        for newcomer in 1..=100 {
            queue.push(newcomer, false, "newcomer");
            of_giant += usize::from(queue.pop() == Some("giant"));
        }
        assert_eq!(of_giant, 50);
    }

    #[test]
    fn urgent_items_go_first() {
        let mut queue = FairQueue::default();
        queue.push("job", false, "create");
        queue.push("job", true, "status");
        assert_eq!(
            (queue.pop(), queue.pop(), queue.pop()),
            (Some("status"), Some("create"), None)
        );
        assert!(queue.is_empty());
        for _ in 0..20 {
            queue.push("job", false, "create");
            queue.push("giant", false, "create");
        }
        for _ in 0..4 {
            queue.pop();
        }
        queue.push("job", true, "status");
        queue.push("giant", true, "status");
        let next: Vec<_> = (0..4).filter_map(|_| queue.pop()).collect();
        assert_eq!(next.iter().filter(|item| **item == "status").count(), 2);
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), 40 + 2 - 4 - 4);
    }
}
