//! Accounts for and limits the memory of Jobs' policies and selectors by namespace.
//!
//! They are kept as long as the Job. A success policy may have 20 rules of 64 KiB, and a selector may be as large as an
//! object. A tenant may have thousands of suspended Jobs with them.
//!
//! Must not: know the content of a policy.

use compact_str::CompactString;
use hashbrown::HashMap;

/// The most bytes of a namespace's Jobs: ten times the longest policy that an API server accepts.
const NAMESPACE_MAX: usize = 16 << 20;

/// The bytes of each Job that are not counted. Typical policies and selectors have a few hundred bytes.
const SMALL: usize = 4 << 10;

/// The bytes of large policies and selectors.
#[derive(Debug, Default)]
pub(super) struct PolicyMemory {
    by_namespace: HashMap<CompactString, usize>,
}

impl PolicyMemory {
    /// Returns true if there is memory for policies and a selector of this size.
    pub(super) fn has_room(&self, namespace: &str, bytes: usize) -> bool {
        let used = self.by_namespace.get(namespace).copied().unwrap_or(0);
        counted(bytes) == 0 || used + counted(bytes) <= NAMESPACE_MAX
    }

    /// Records a changed size of a Job's policies and selector; 0 is none.
    pub(super) fn resize(&mut self, namespace: &CompactString, before: usize, after: usize) {
        let (before, after) = (counted(before), counted(after));
        if before == after {
            return;
        }
        let used = self.by_namespace.entry(namespace.clone()).or_default();
        *used = *used + after - before;
        if *used == 0 {
            self.by_namespace.remove(namespace);
        }
    }
}

fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(SMALL)
}
