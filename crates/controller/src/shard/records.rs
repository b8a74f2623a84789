//! Answers queries of a Job's index record, one page at a time, so that a query takes bounded time for any number of
//! indexes.
//!
//! Must not: change anything, or be called on the path of a Pod event.

use compact_str::CompactString;

use lakh_core::decide::IndexOverview;
use lakh_model::{EndCause, IndexSet, JobId, JobKey, Time, Uid};
use lakh_record::{IndexOutcome, RecordedIndex};

use super::{actor::Actor, index_map::MapState};

/// The most rows of one page.
const PAGE_MAX: u32 = 4096;

/// The most indexes scanned for one page, if the query filters them: a few milliseconds.
const SCAN_MAX: u32 = 65_536;

/// A query of some indexes of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordQuery {
    /// The Job.
    pub key: JobKey,
    /// Only the Job with this UID, not a later one of its name.
    pub uid: Option<Uid>,
    /// The first index.
    pub from: u32,
    /// The maximum number of rows.
    pub limit: u32,
    /// The filter.
    pub rows: WantedRows,
}

/// A filter for the rows of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedRows {
    /// All.
    All,
    /// Rows of indexes that have failed for good.
    Failed,
    /// The same, and rows of indexes that have not succeeded and whose last Pod failed.
    LastFailed,
}

/// One page of a Job's record.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordPage {
    /// UID of the Job.
    pub uid: Uid,
    /// The Job was deleted, and has Pods left.
    pub is_gone: bool,
    /// Start of the record. Earlier Pods are unknown.
    pub since: Time,
    /// The number of indexes of the Job.
    pub completions: u32,
    /// The number of indexes with a record.
    pub known: u32,
    /// Size of the record in bytes.
    pub bytes: usize,
    /// The rows.
    pub rows: Vec<RecordRow>,
    /// The index at which the next page starts.
    pub next: Option<u32>,
}

/// The record of one index.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordRow {
    /// The index.
    pub index: u32,
    /// Succeeded or failed for good, if the index has ended.
    pub verdict: Option<MapState>,
    /// The number of its Pods that were seen; none without a record.
    pub tries: Option<u16>,
    /// The end of the last Pod that finished.
    pub end: Option<RowEnd>,
}

/// The end of an index's last Pod.
#[derive(Clone, Debug, PartialEq)]
pub struct RowEnd {
    /// The outcome.
    pub outcome: IndexOutcome,
    /// The exit code and the reason.
    pub cause: EndCause,
    /// The node; empty if unknown.
    pub node: CompactString,
    /// When the kubelet started the Pod.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
}

impl RecordQuery {
    /// Returns true if the query is about this Job.
    pub(super) fn is_about(&self, job: &JobId) -> bool {
        job.key == self.key && self.uid.is_none_or(|uid| uid == job.uid)
    }
}

impl RecordPage {
    /// Returns the rows that the query selects; none if the Job has no record.
    pub(super) fn of(actor: &Actor, query: &RecordQuery) -> Option<Self> {
        let record = actor.annotated.as_ref()?.record()?;
        let completions = record.completions();
        let [succeeded, failed] = verdicts(actor, completions);
        let limit = query.limit.min(PAGE_MAX) as usize;
        let mut not_looked_at = None;
        let wanted: Vec<u32> = match query.rows {
            WantedRows::All => (query.from..completions).take(limit + 1).collect(),
            WantedRows::Failed => {
                let failed = failed.iter().skip_while(|index| *index < query.from);
                failed.take(limit + 1).collect()
            }
            WantedRows::LastFailed => {
                let end = completions.min(query.from.saturating_add(SCAN_MAX));
                not_looked_at = Some(end).filter(|end| *end < completions);
                let has_failed = |index: &u32| {
                    let last = record.of(*index).and_then(|known| known.end);
                    last.is_some_and(|end| end.outcome == IndexOutcome::Failed)
                };
                let is_wanted = |index: &u32| {
                    failed.contains(*index) || (has_failed(index) && !succeeded.contains(*index))
                };
                let wanted = (query.from..end).filter(is_wanted);
                wanted.take(limit + 1).collect()
            }
        };
        let next = wanted.get(limit).copied().or(not_looked_at);
        let rows = wanted.into_iter().take(limit).map(|index| {
            let verdict = match () {
                () if failed.contains(index) => Some(MapState::Failed),
                () if succeeded.contains(index) => Some(MapState::Succeeded),
                () => None,
            };
            RecordRow::of(index, verdict, record.of(index))
        });
        Some(Self {
            uid: actor.id.uid,
            is_gone: actor.gone,
            since: record.since(),
            completions,
            known: record.known(),
            bytes: record.bytes(),
            rows: rows.collect(),
            next,
        })
    }
}

impl RecordRow {
    fn of(index: u32, verdict: Option<MapState>, known: Option<RecordedIndex<'_>>) -> Self {
        let end = known.and_then(|known| known.end);
        Self {
            index,
            verdict,
            tries: known.map(|known| known.tries),
            end: end.map(|end| RowEnd {
                outcome: end.outcome,
                cause: end.cause.clone(),
                node: end.node.into(),
                started: end.started,
                ended: end.ended,
            }),
        }
    }
}

/// Returns the indexes that succeeded, and those that failed for good.
fn verdicts(actor: &Actor, completions: u32) -> [IndexSet; 2] {
    if let Some(known) = actor.machine.as_deref().and_then(IndexOverview::of) {
        return [known.completed, known.failed.unwrap_or_default()];
    }
    let status = actor.job.as_ref().map(|job| &job.status);
    let read = |text: Option<&str>| IndexSet::parse(text.unwrap_or_default(), completions);
    [
        read(status.map(|status| &*status.completed_indexes)),
        read(status.and_then(|status| status.failed_indexes.as_deref())),
    ]
}
