//! Records the outcome of each index of a Job, in a few bytes each.
//!
//! It covers the Pods that the caller reported: how many an index had, and how the last of them ended. Only a later
//! success replaces a success. Strings are stored once and rows refer to them by number, so a row has 14 bytes. Blocks
//! of rows are allocated as their indexes begin.
//!
//! Its maximum size is known in advance ([`IndexRecord::most_bytes`]), whatever Pods report. When a word table is full,
//! an end is stored without its reason, or a node without its name.
//!
//! Must not: know which Job this is, or keep Pods.

use compact_str::CompactString;

use lakh_model::{EndCause, PodEnd, Time};

use super::{
    block::{BLOCK, BLOCK_OVERHEAD, Block, IndexRow, ROW},
    word_table::WordTable,
};

/// Bytes for names of nodes, per index and at most: 5,000 names of 40 letters fit.
const NODE_ROOM: (usize, usize) = (160, 640 * 1024);

/// Bytes for ends, likewise: 256 exit codes with three reasons each fit.
const ENDING_ROOM: (usize, usize) = (192, 64 * 1024);

/// Bytes added to the per-index share of each table, so that small Jobs have room too.
const LEAST_ROOM: usize = 2048;

/// Bytes reserved for ends without a cause, one for each outcome.
const SPARE_ROOM: usize = 512;

/// The outcome of an index's last Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexOutcome {
    /// The Pod succeeded.
    Succeeded,
    /// The Pod failed.
    Failed,
    /// The Pod disappeared before its end was observed.
    Gone,
}

impl IndexOutcome {
    /// The outcome as one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Gone => "gone",
        }
    }
}

/// An outcome and its cause, shared by all Pods that ended so.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct IndexEnding {
    pub(super) outcome: IndexOutcome,
    pub(super) cause: EndCause,
}

/// An input of a record.
#[derive(Clone, Copy, Debug)]
pub enum RecordInput<'a> {
    /// A Pod of this index appeared.
    Seen {
        /// The index.
        index: u32,
    },
    /// A Pod of this index has ended. Repeated inputs may add details.
    Ended {
        /// The index.
        index: u32,
        /// The outcome.
        outcome: IndexOutcome,
        /// When it ended, in seconds since the epoch; 0 if unknown.
        at: u32,
        /// The cause, node and start time.
        end: &'a PodEnd,
    },
    /// The Job's current number of indexes.
    Completions(u32),
}

/// The recorded facts about an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedIndex<'a> {
    /// The number of its Pods that were seen; at most 65,535 are counted.
    pub tries: u16,
    /// The end of the last Pod that ended; none if none has.
    pub end: Option<IndexEnd<'a>>,
}

/// The end of an index's last Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEnd<'a> {
    /// The outcome.
    pub outcome: IndexOutcome,
    /// The exit code and reason.
    pub cause: &'a EndCause,
    /// Its node; empty if unknown.
    pub node: &'a str,
    /// When the kubelet started the Pod, if known.
    pub started: Option<Time>,
    /// When it ended, if known.
    pub ended: Option<Time>,
}

/// The record of all indexes of one Job. [`IndexRecord::handle`] feeds it, [`IndexRecord::of`] reads it. It never
/// exceeds [`IndexRecord::most_bytes`].
#[derive(Debug)]
pub struct IndexRecord {
    since: Time,
    completions: u32,
    blocks: Vec<Option<Box<Block>>>,
    nodes: WordTable<CompactString>,
    endings: WordTable<IndexEnding>,
    /// The number of indexes with a nonempty row.
    known: u32,
}

impl IndexRecord {
    /// Creates an empty record of a Job with this number of indexes. Observation begins at `since`.
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

    /// The maximum size in bytes of a record of this number of indexes.
    pub fn most_bytes(completions: u32) -> usize {
        let indexes = completions as usize;
        let blocks = completions.div_ceil(BLOCK) as usize;
        let rows = indexes * ROW + blocks * BLOCK_OVERHEAD;
        let words = room(NODE_ROOM, completions) + room(ENDING_ROOM, completions);
        size_of::<Self>() + rows + words
    }

    /// Its current size in bytes.
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

    /// The time since which Pods are observed.
    pub fn since(&self) -> Time {
        self.since
    }

    /// The number of indexes of the Job.
    pub fn completions(&self) -> u32 {
        self.completions
    }

    /// The number of indexes with recorded facts.
    pub fn known(&self) -> u32 {
        self.known
    }

    /// Handles an input. An index that the Job does not have is ignored.
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

    /// The recorded facts about an index, if there are any.
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
            // Later inputs about the same Pod add details. Its start time never moves back.
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

    /// The number of an end. Drops the reason, then the whole cause, if the table is full.
    fn number_of(&mut self, outcome: IndexOutcome, cause: &EndCause) -> u16 {
        let whole = room(ENDING_ROOM, self.completions);
        // Part of the space is reserved for ends without a reason, and part of that for ends without a cause.
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
            // Avoids a list with twice the capacity it needs.
            self.blocks.reserve_exact(more);
            self.blocks.resize_with(number + 1, || None);
        }
        let rows = (self.completions - index / BLOCK * BLOCK).min(BLOCK) as usize;
        let block = self.blocks[number].get_or_insert_with(|| Box::new(Block::new(rows)));
        if block.rows() <= at {
            // The Job had fewer indexes when the block was allocated.
            **block = block.grown(rows);
        }
        block.set(at, row);
    }
}

/// The maximum bytes of a word table in a Job of this number of indexes.
fn room((each, most): (usize, usize), completions: u32) -> usize {
    (LEAST_ROOM + completions as usize * each).min(most)
}

fn time(seconds: u32) -> Option<Time> {
    (seconds > 0).then(|| Time::from_secs(seconds.into()))
}
