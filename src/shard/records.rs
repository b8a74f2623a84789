//! What was recorded of a Job's indexes, for people who ask: a page at a time, so that to answer takes a moment however many
//! indexes there are.
//!
//! Must not: change anything, or be asked on the way of a Pod.

use compact_str::CompactString;

use crate::{
    decide::IndexOverview,
    model::{EndCause, IndexSet, JobId, JobKey, Time, Uid},
    record::{IndexOutcome, RecordedIndex},
};

use super::{actor::Actor, index_map::MapState};

/// Rows that are answered at once at most: a moment's work.
const PAGE_MAX: u32 = 4096;

/// Indexes that are looked at for an answer at most, where only some are asked for: some milliseconds' work.
const SCAN_MAX: u32 = 65_536;

/// Which indexes are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordQuery {
    /// Of which Job.
    pub key: JobKey,
    /// Of this one alone, and of none that has its name by now.
    pub uid: Option<Uid>,
    /// From this index on.
    pub from: u32,
    /// So many at most.
    pub limit: u32,
    /// Which of them.
    pub rows: WantedRows,
}

/// Which rows of a record are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedRows {
    /// All.
    All,
    /// Those of indexes that have failed for good.
    Failed,
    /// These, and those of indexes that have not succeeded and whose last Pod failed.
    LastFailed,
}

/// Some rows of a Job's record.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordPage {
    /// Whose it is.
    pub uid: Uid,
    /// The Job was deleted, and has Pods left.
    pub is_gone: bool,
    /// Since when Pods are looked at: of what was before nothing is known.
    pub since: Time,
    /// How many indexes the Job has.
    pub completions: u32,
    /// Of how many something is known.
    pub known: u32,
    /// Bytes that the record takes.
    pub bytes: usize,
    /// The rows.
    pub rows: Vec<RecordRow>,
    /// From where on there is more.
    pub next: Option<u32>,
}

/// What is known of one index.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordRow {
    /// Which.
    pub index: u32,
    /// That it succeeded or failed for good, if it did.
    pub verdict: Option<MapState>,
    /// How many Pods it had that were seen; none if nothing is known.
    pub tries: Option<u16>,
    /// How the last that ended did.
    pub end: Option<RowEnd>,
}

/// How an index' last Pod ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RowEnd {
    /// In a word.
    pub outcome: IndexOutcome,
    /// By which exit code, and why.
    pub cause: EndCause,
    /// On which node; empty if that is not known.
    pub node: CompactString,
    /// When its node took it up.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
}

impl RecordQuery {
    /// Whether it means this Job.
    pub(super) fn is_about(&self, job: &JobId) -> bool {
        job.key == self.key && self.uid.is_none_or(|uid| uid == job.uid)
    }
}

impl RecordPage {
    /// Those of a Job's rows that are asked for; none if nothing is recorded of it.
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

/// The indexes that succeeded, and those that failed for good.
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
