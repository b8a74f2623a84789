//! What is kept of a Job's Pods after they are gone, where the Job asks for it: a record of each index, and a summary of
//! what Pods failed of.
//!
//! Both are values: they hear of Pods as these come, end and go. What they keep is limited, whatever a tenant does: by
//! the number of indexes, and by how many different words there may be.
//!
//! Read first: [`IndexRecord`]. Must not: be asked by any decision, or keep what no Job asks for.

mod block;
mod failure_summary;
mod index_record;
#[cfg(test)]
mod tests;
mod word_table;

pub use failure_summary::{FAILURE_SUMMARY_REASON, FailureSummary};
pub use index_record::{IndexEnd, IndexOutcome, IndexRecord, RecordInput, RecordedIndex};
