//! Gives each Job its turn to write, however much another Job has to write.

use std::{collections::VecDeque, hash::Hash};

use hashbrown::HashMap;

/// First in, first out per key, keys in turn. Within a key, urgent items go first.
///
/// Memory is what is waiting: a key without items has no entry.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    lanes: HashMap<K, Lane<T>>,
    turns: VecDeque<K>,
    len: usize,
}

#[derive(Debug)]
struct Lane<T> {
    urgent: VecDeque<T>,
    usual: VecDeque<T>,
}

impl<K: Clone + Eq + Hash, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self {
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            len: 0,
        }
    }
}

impl<K: Clone + Eq + Hash, T> FairQueue<K, T> {
    /// Adds an item.
    pub fn push(&mut self, key: K, urgent: bool, item: T) {
        self.len += 1;
        let lane = self.lanes.entry(key.clone()).or_insert_with(|| {
            self.turns.push_back(key);
            Lane {
                urgent: VecDeque::new(),
                usual: VecDeque::new(),
            }
        });
        if urgent {
            lane.urgent.push_back(item);
        } else {
            lane.usual.push_back(item);
        }
    }

    /// Takes the next item: of the key whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let key = self.turns.pop_front()?;
        let lane = self.lanes.get_mut(&key).expect("each turn has a lane");
        let item = lane.urgent.pop_front().or_else(|| lane.usual.pop_front());
        if lane.urgent.is_empty() && lane.usual.is_empty() {
            self.lanes.remove(&key);
        } else {
            self.turns.push_back(key);
        }
        self.len -= 1;
        item
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
    fn a_newcomer_waits_for_one_item_of_each_other_key() {
        let mut queue = FairQueue::default();
        for item in 0..100 {
            queue.push("giant", false, item);
        }
        assert_eq!(queue.pop(), Some(0));
        queue.push("small", false, 1000);
        assert_eq!(
            (queue.pop(), queue.pop(), queue.pop()),
            (Some(1), Some(1000), Some(2))
        );
    }

    #[test]
    fn urgent_items_of_a_key_go_first() {
        let mut queue = FairQueue::default();
        queue.push("job", false, "create");
        queue.push("job", true, "status");
        assert_eq!(
            (queue.pop(), queue.pop(), queue.pop()),
            (Some("status"), Some("create"), None)
        );
        assert!(queue.is_empty());
    }
}
