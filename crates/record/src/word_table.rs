//! Interns words under numbers, within a limit of memory.
//!
//! Must not: know the meaning of the words.

use std::hash::{BuildHasher as _, Hash};

use compact_str::CompactString;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::index_record::IndexEnding;

/// A value that may own heap memory.
pub(super) trait Word: Clone + Eq + Hash {
    /// Its bytes on the heap.
    fn heap(&self) -> usize;
}

impl Word for CompactString {
    fn heap(&self) -> usize {
        if self.is_heap_allocated() {
            self.capacity()
        } else {
            0
        }
    }
}

impl Word for IndexEnding {
    fn heap(&self) -> usize {
        self.cause.reason.heap()
    }
}

/// Stores each distinct word once, under a number. Numbers begin with 1.
#[derive(Debug)]
pub(super) struct WordTable<W> {
    words: Vec<W>,
    numbers: HashTable<u16>,
    hasher: DefaultHashBuilder,
    heap: usize,
}

impl<W> Default for WordTable<W> {
    fn default() -> Self {
        Self {
            words: Vec::new(),
            numbers: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            heap: 0,
        }
    }
}

/// Maximum bytes of a word in both tables. A growing list has up to twice the capacity it needs. A hash table of
/// two-byte numbers with a control byte takes up to seven bytes for each.
const fn charge<W>() -> usize {
    2 * size_of::<W>() + 7
}

/// Bytes that the first few words take: both tables begin with a minimum capacity.
const FIRST_ROOM: usize = 256;

impl<W: Word> WordTable<W> {
    /// The number of a word. A new word is stored if it fits into `room`.
    pub(super) fn number(&mut self, word: &W, room: usize) -> Option<u16> {
        let Self {
            words,
            numbers,
            hasher,
            heap,
        } = self;
        let hash = hasher.hash_one(word);
        let at = |number: u16| &words[usize::from(number) - 1];
        if let Some(known) = numbers.find(hash, |number| at(*number) == word) {
            return Some(*known);
        }
        let number = u16::try_from(words.len() + 1).ok()?;
        let needed = FIRST_ROOM + usize::from(number) * charge::<W>() + *heap + word.heap();
        if needed > room {
            return None;
        }
        *heap += word.heap();
        words.push(word.clone());
        numbers.insert_unique(hash, number, |number| {
            hasher.hash_one(&words[usize::from(*number) - 1])
        });
        Some(number)
    }

    /// The word with this number.
    pub(super) fn word(&self, number: u16) -> Option<&W> {
        self.words.get(usize::from(number).checked_sub(1)?)
    }

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<W>() + self.numbers.allocation_size() + self.heap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_one_number_and_no_more_are_kept_than_there_is_room_for() {
        let mut table: WordTable<CompactString> = WordTable::default();
        let room = 10_000;
        let mut refused = 0;
        for number in 0..10_000_u32 {
            let word = CompactString::from(format!("node-{number}.of.a.name.that.is.long.example"));
            match table.number(&word, room) {
                None => refused += 1,
                Some(first) => {
                    assert_eq!(table.number(&word, room), Some(first));
                    assert_eq!(table.word(first), Some(&word));
                }
            }
            assert!(table.bytes() <= room, "{} bytes", table.bytes());
        }
        assert!((9_000..10_000).contains(&refused), "{refused} refused");
        assert_eq!((table.word(0), table.word(u16::MAX)), (None, None));
    }
}
