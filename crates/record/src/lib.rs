//! Records the outcome of each index and the causes of failures, so that they outlive the Job's Pods. Only for Jobs
//! that request it.
//!
//! Both are plain values, fed as Pods appear, end and disappear. Their size is bounded whatever a tenant does: by the
//! number of indexes, and by the number of distinct words.
//!
//! Read first: [`IndexRecord`]. Must not: influence any decision, or store data that no Job requests.

mod block;
mod failure_summary;
mod index_record;
#[cfg(test)]
mod tests;
mod word_table;

pub use failure_summary::{FAILURE_SUMMARY_REASON, FailureSummary};
pub use index_record::{IndexEnd, IndexOutcome, IndexRecord, RecordInput, RecordedIndex};
