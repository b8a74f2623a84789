//! Stores rows of an [`IndexRecord`](super::IndexRecord) by column: 14 bytes a row, where a struct would take 16.
//!
//! Must not: know the meaning of the numbers.

/// Rows of a block: 14 KiB. A Job that has begun few of its indexes has few blocks.
pub(super) const BLOCK: u32 = 1024;

/// Bytes of a row.
pub(super) const ROW: usize = 14;

/// Bytes of a block besides its rows: the pointers and lengths of its columns, and the pointer to it.
pub(super) const BLOCK_OVERHEAD: usize = size_of::<Block>() + size_of::<Option<Box<Block>>>();

/// The stored facts about one index. All zero: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IndexRow {
    pub(super) tries: u16,
    /// The number of its end in a word table; 0 if it has not ended.
    pub(super) ending: u16,
    /// The number of its node, likewise.
    pub(super) node: u16,
    pub(super) started: u32,
    pub(super) ended: u32,
}

/// A number of rows, with an array for each column.
#[derive(Debug)]
pub(super) struct Block {
    tries: Box<[u16]>,
    endings: Box<[u16]>,
    nodes: Box<[u16]>,
    started: Box<[u32]>,
    ended: Box<[u32]>,
}

impl Block {
    /// Creates a block of rows that are all zero.
    pub(super) fn new(rows: usize) -> Self {
        Self {
            tries: vec![0; rows].into(),
            endings: vec![0; rows].into(),
            nodes: vec![0; rows].into(),
            started: vec![0; rows].into(),
            ended: vec![0; rows].into(),
        }
    }

    /// Copies the block into one with more rows.
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

    /// Returns a row; an empty one beyond the last.
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
