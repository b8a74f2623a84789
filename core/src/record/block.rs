//! Rows of an [`IndexRecord`](super::IndexRecord), column by column: 14 bytes a row, where a row of its own would take 16.
//!
//! Must not: know what the numbers mean.

/// Rows of a block: 14 KiB. A Job that has begun few of its indexes takes few blocks.
pub(super) const BLOCK: u32 = 1024;

/// Bytes of a row.
pub(super) const ROW: usize = 14;

/// Bytes of a block beside its rows: its columns' addresses and lengths, and its own address.
pub(super) const BLOCK_OVERHEAD: usize = size_of::<Block>() + size_of::<Option<Box<Block>>>();

/// What is kept of one index. All zero: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IndexRow {
    pub(super) tries: u16,
    /// How it ended, by its number in a table; 0 if it has not.
    pub(super) ending: u16,
    /// On which node, likewise.
    pub(super) node: u16,
    pub(super) started: u32,
    pub(super) ended: u32,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Block {
    tries: Box<[u16]>,
    endings: Box<[u16]>,
    nodes: Box<[u16]>,
    started: Box<[u32]>,
    ended: Box<[u32]>,
}

impl Block {
    /// One of so many rows, all zero.
    pub(super) fn new(rows: usize) -> Self {
        Self {
            tries: vec![0; rows].into(),
            endings: vec![0; rows].into(),
            nodes: vec![0; rows].into(),
            started: vec![0; rows].into(),
            ended: vec![0; rows].into(),
        }
    }

    /// The same with more rows.
    pub(super) fn grown(&self, rows: usize) -> Self {
        let mut grown = Self::new(rows);
        for at in 0..self.rows() {
            grown.set(at, self.get(at));
        }
        grown
    }

    pub(super) fn rows(&self) -> usize {
        self.tries.len()
    }

    /// The row there; nothing beyond the last.
    pub(super) fn get(&self, at: usize) -> IndexRow {
        if at >= self.rows() {
            return IndexRow::default();
        }
        IndexRow {
            tries: self.tries[at],
            ending: self.endings[at],
            node: self.nodes[at],
            started: self.started[at],
            ended: self.ended[at],
        }
    }

    pub(super) fn set(&mut self, at: usize, row: IndexRow) {
        self.tries[at] = row.tries;
        self.endings[at] = row.ending;
        self.nodes[at] = row.node;
        self.started[at] = row.started;
        self.ended[at] = row.ended;
    }
}
