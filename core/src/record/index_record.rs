//! What became of each index of a Job, in a few bytes each.
//!
//! It has what its holder saw: how many Pods an index had, and how the last of them ended. A success stays: what a Pod does
//! that comes after it is of no use to anybody. Words are kept once and rows have their numbers, so that a row has 14
//! bytes; blocks of rows come as their indexes begin.
//!
//! What it takes at most is known before it begins ([`IndexRecord::most_bytes`]), whatever Pods say: when there is no room
//! for one more word, an end is kept without its reason, or a node without its name.
//!
//! Must not: know which Job this is, or keep Pods.

use compact_str::CompactString;

use crate::model::{EndCause, PodEnd, Time};

use super::{
    block::{BLOCK, BLOCK_OVERHEAD, Block, IndexRow, ROW},
    word_table::WordTable,
};

/// Bytes that names of nodes may take for each index, and at most: 5,000 names of 40 letters fit.
const NODE_ROOM: (usize, usize) = (160, 640 * 1024);

/// Bytes that ends may take likewise: 256 exit codes with three reasons each fit.
const ENDING_ROOM: (usize, usize) = (192, 64 * 1024);

/// What either may take of a Job of few indexes.
const LEAST_ROOM: usize = 2048;

/// Room that is kept for ends of which no cause is told, one for each outcome.
const SPARE_ROOM: usize = 512;

/// How an index' last Pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexOutcome {
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It went away, and nobody saw how it ended.
    Gone,
}

impl IndexOutcome {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Gone => "gone",
        }
    }
}

/// What many Pods have in common that ended the same way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct IndexEnding {
    pub(super) outcome: IndexOutcome,
    pub(super) cause: EndCause,
}

/// What a record hears.
#[derive(Clone, Copy, Debug)]
pub enum RecordInput<'a> {
    /// A Pod of this index came into sight.
    Seen {
        /// The index.
        index: u32,
    },
    /// A Pod of this index has ended. It may be told more than once, with more and more that is known of it.
    Ended {
        /// The index.
        index: u32,
        /// How.
        outcome: IndexOutcome,
        /// When, in seconds since the epoch; 0 if that is not known.
        at: u32,
        /// What there is to be said of it.
        end: &'a PodEnd,
    },
    /// The Job has so many indexes now.
    Completions(u32),
}

/// What is known of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedIndex<'a> {
    /// How many Pods it had that were seen; at most 65,535 are counted.
    pub tries: u16,
    /// How the last that ended did; none if none has.
    pub end: Option<IndexEnd<'a>>,
}

/// How the last Pod of an index ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEnd<'a> {
    /// In a word.
    pub outcome: IndexOutcome,
    /// By which exit code, and why.
    pub cause: &'a EndCause,
    /// On which node; empty if that is not known.
    pub node: &'a str,
    /// When its node took it up, if that is known.
    pub started: Option<Time>,
    /// When it ended, if that is known.
    pub ended: Option<Time>,
}

/// See the module's text.
#[derive(Debug)]
pub struct IndexRecord {
    since: Time,
    completions: u32,
    blocks: Vec<Option<Box<Block>>>,
    nodes: WordTable<CompactString>,
    endings: WordTable<IndexEnding>,
    /// How many indexes have something in it.
    known: u32,
}

impl IndexRecord {
    /// An empty one of a Job with so many indexes, which begins now.
    pub fn new(completions: u32, since: Time) -> Self {
        Self {
            since,
            completions,
            blocks: Vec::new(),
            nodes: WordTable::default(),
            endings: WordTable::default(),
            known: 0,
        }
    }

    /// Bytes that a record of so many indexes may come to take.
    pub fn most_bytes(completions: u32) -> usize {
        let indexes = completions as usize;
        let blocks = completions.div_ceil(BLOCK) as usize;
        let rows = indexes * ROW + blocks * BLOCK_OVERHEAD;
        let words = room(NODE_ROOM, completions) + room(ENDING_ROOM, completions);
        size_of::<Self>() + rows + words
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let blocks = self.blocks.iter().flatten();
        let rows: usize = blocks
            .map(|block| size_of::<Block>() + block.rows() * ROW)
            .sum();
        let list = self.blocks.capacity() * size_of::<Option<Box<Block>>>();
        size_of::<Self>() + list + rows + self.nodes.bytes() + self.endings.bytes()
    }

    #[cfg(test)]
    pub(super) fn nodes_and_endings_bytes(&self) -> usize {
        self.nodes.bytes() + self.endings.bytes()
    }

    /// Since when Pods are looked at.
    pub fn since(&self) -> Time {
        self.since
    }

    /// How many indexes the Job has.
    pub fn completions(&self) -> u32 {
        self.completions
    }

    /// Of how many indexes something is known.
    pub fn known(&self) -> u32 {
        self.known
    }

    /// Takes something in. What is said of an index that the Job does not have is passed over.
    pub fn handle(&mut self, input: RecordInput<'_>) {
        match input {
            RecordInput::Completions(completions) => self.completions = completions,
            RecordInput::Seen { index } => self.change(index, |_, row| {
                row.tries = row.tries.saturating_add(1);
            }),
            RecordInput::Ended {
                index,
                outcome,
                at,
                end,
            } => self.change(index, |record, row| record.end(row, outcome, at, end)),
        }
    }

    /// What is known of an index, if anything is.
    pub fn of(&self, index: u32) -> Option<RecordedIndex<'_>> {
        let row = self.row(index);
        if row == IndexRow::default() {
            return None;
        }
        let ending = self.endings.word(row.ending);
        Some(RecordedIndex {
            tries: row.tries,
            end: ending.map(|ending| IndexEnd {
                outcome: ending.outcome,
                cause: &ending.cause,
                node: self.nodes.word(row.node).map_or("", CompactString::as_str),
                started: time(row.started),
                ended: time(row.ended),
            }),
        })
    }

    fn end(&mut self, row: &mut IndexRow, outcome: IndexOutcome, at: u32, end: &PodEnd) {
        let known = self.endings.word(row.ending).map(|ending| ending.outcome);
        let is_worth_more = match (known, outcome) {
            (None, _) => true,
            (Some(known), new)
                if (known == IndexOutcome::Succeeded) != (new == IndexOutcome::Succeeded) =>
            {
                new == IndexOutcome::Succeeded
            }
            // What is known of a Pod grows: then it starts no earlier than it was made.
            (Some(_), _) if row.started == end.started => !end.node.is_empty() || row.node == 0,
            (Some(_), _) => end.started > row.started,
        };
        if !is_worth_more {
            return;
        }
        row.ending = self.number_of(outcome, &end.cause);
        row.node = match end.node.is_empty() {
            true => 0,
            false => {
                let room = room(NODE_ROOM, self.completions);
                self.nodes.number(&end.node, room).unwrap_or(0)
            }
        };
        (row.started, row.ended) = (end.started, at);
    }

    /// The number of an end; without its reason, or of no cause at all, if there is no room for more.
    fn number_of(&mut self, outcome: IndexOutcome, cause: &EndCause) -> u16 {
        let whole = room(ENDING_ROOM, self.completions);
        // Room is kept for ends without a reason, and of these for those of no cause.
        let brief = EndCause::new(cause.exit_code, "");
        let tries = [
            (cause, whole / 2),
            (&brief, whole - SPARE_ROOM),
            (&EndCause::default(), whole),
        ];
        let mut numbers = tries.into_iter().filter_map(|(cause, room)| {
            let cause = cause.clone();
            self.endings.number(&IndexEnding { outcome, cause }, room)
        });
        numbers.next().unwrap_or(0)
    }

    fn row(&self, index: u32) -> IndexRow {
        let block = self.blocks.get((index / BLOCK) as usize);
        let block = block.and_then(Option::as_ref);
        let is_its = index < self.completions;
        let row = block.filter(|_| is_its);
        row.map(|block| block.get((index % BLOCK) as usize))
            .unwrap_or_default()
    }

    fn change(&mut self, index: u32, change: impl FnOnce(&mut Self, &mut IndexRow)) {
        if index >= self.completions {
            return;
        }
        let mut row = self.row(index);
        let was_known = row != IndexRow::default();
        change(self, &mut row);
        if row == IndexRow::default() {
            return;
        }
        self.known += u32::from(!was_known);
        let (number, at) = ((index / BLOCK) as usize, (index % BLOCK) as usize);
        if let Some(more) = (number + 1).checked_sub(self.blocks.len()) {
            // Else the list would have twice the room it needs.
            self.blocks.reserve_exact(more);
            self.blocks.resize_with(number + 1, || None);
        }
        let rows = (self.completions - index / BLOCK * BLOCK).min(BLOCK) as usize;
        let block = self.blocks[number].get_or_insert_with(|| Box::new(Block::new(rows)));
        if block.rows() <= at {
            // The Job had fewer indexes when it began.
            **block = block.grown(rows);
        }
        block.set(at, row);
    }
}

/// Bytes that words may take in a Job of so many indexes.
fn room((each, most): (usize, usize), completions: u32) -> usize {
    (LEAST_ROOM + completions as usize * each).min(most)
}

fn time(seconds: u32) -> Option<Time> {
    (seconds > 0).then(|| Time::from_secs(seconds.into()))
}
