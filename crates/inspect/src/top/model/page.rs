//! Holds the open Job: its Pods, its indexes, its Events, and the time of the next read.
//!
//! The Job itself comes from the feed of all Jobs. Its Pods are read after it has changed, and rarely enough that the
//! reads take a small part of the time. Must not: send requests, or know how something looks.

use std::{cmp::Reverse, time::Duration};

use compact_str::CompactString;

use lakh_client::Result;
use lakh_model::{IndexSet, JobKey, Monotonic, Now, Time, Uid};
use lakh_wire::ApiError;

use crate::{
    ask::Unseen,
    one_job::{Depth, JobDetails, SeenSuccesses},
    status::StatusReport,
    top::{
        feed::FeedNews,
        page_look::PageLook,
        records::{EventRow, JobRow},
    },
    why,
};

use super::{
    NoNews,
    cells::{CellFacts, CellSets},
};

/// Minimum interval between reads of the Pods.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Reads take at most a twentieth of the time, however long one takes.
const LOOK_SHARE: u32 = 20;

/// Interval of reads while the Job does not change: its Pods may have changed.
const STILL: Duration = Duration::from_secs(30);

/// Pause after a failed read.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Maximum number of Events that are kept: more fit on no screen.
const MOST_EVENTS: usize = 200;

/// The page of one Job, from its opening on. It combines the last read with the newest version of the Job from the
/// feed.
#[derive(Debug)]
pub(in crate::top) struct JobPage {
    /// Unique number: inputs for an earlier page are ignored.
    pub(in crate::top) number: u64,
    pub(in crate::top) key: JobKey,
    pub(in crate::top) uid: Uid,
    /// The last read, with the Job's newest version.
    pub(in crate::top) look: Option<PageLook>,
    pub(in crate::top) report: Option<StatusReport>,
    /// Why the Job makes no progress, from the last read of its Pods and the Job's newest version.
    pub(in crate::top) why: Option<String>,
    pub(in crate::top) cells: Option<CellSets>,
    pub(in crate::top) events: EventList,
    /// Error of the last read.
    pub(in crate::top) failure: Option<ApiError>,
    /// The Job was deleted.
    pub(in crate::top) is_gone: bool,
    /// The index selected on the map.
    pub(in crate::top) cursor: u32,
    /// Zoom steps of the map.
    pub(in crate::top) zoom: u32,
    pub(in crate::top) is_looking: bool,
    successes: SeenSuccesses,
    /// Indexes with a failed Pod.
    failed_once: IndexSet,
    looked: Option<LookDone>,
    /// The newest version in the feed.
    version: u64,
    /// Parts that must be recomputed.
    stale: Stale,
}

/// A finished read.
#[derive(Clone, Copy, Debug)]
struct LookDone {
    at: Monotonic,
    took: Duration,
    /// The Job's version and ended Pods in this read; after a failure, those known before.
    version: u64,
    ended: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stale {
    Nothing,
    /// The Job.
    Job,
    /// Its Pods, too.
    Pods,
}

impl JobPage {
    pub(in crate::top) fn new(number: u64, row: &JobRow) -> Self {
        Self {
            number,
            key: row.key.clone(),
            uid: row.uid,
            look: None,
            report: None,
            why: None,
            cells: None,
            events: EventList::default(),
            failure: None,
            is_gone: false,
            cursor: 0,
            zoom: 0,
            is_looking: false,
            successes: SeenSuccesses::default(),
            failed_once: IndexSet::default(),
            looked: None,
            version: row.version,
            stale: Stale::Nothing,
        }
    }

    /// Returns the number of indexes, if it has any.
    pub(in crate::top) fn completions(&self) -> Option<u32> {
        self.cells.as_ref().map(|cells| cells.completions)
    }

    /// Returns the Job in its newest version.
    pub(in crate::top) fn job(&self) -> Option<&JobDetails> {
        self.look.as_ref().map(|look| &look.sight.job)
    }

    /// Returns the server's time.
    pub(in crate::top) fn time(&self, now: Now) -> Time {
        let ahead = self.look.as_ref().map_or(0, |look| look.ahead);
        Time::from_millis(now.wall.as_millis() + ahead)
    }

    /// Returns the time and depth of the next read.
    pub(super) fn next_look(&self) -> Option<(Monotonic, Depth)> {
        if self.is_looking || self.is_gone {
            return None;
        }
        let Some(last) = self.looked else {
            return Some((Monotonic::default(), Depth::Reasons));
        };
        let pause = LOOK_EVERY.max(last.took * LOOK_SHARE);
        let job = self.job();
        let is_over = job.is_some_and(|job| job.end().is_some());
        let ended = job.map_or(0, ended);
        if self.failure.is_some() {
            return Some((last.at + pause.max(AFTER_FAILURE), Depth::Reasons));
        }
        if self.version == last.version {
            return (!is_over).then(|| (last.at + pause.max(STILL), Depth::Reasons));
        }
        let depth = match ended > last.ended && !is_over {
            true => Depth::Pods,
            false => Depth::Reasons,
        };
        Some((last.at + pause, depth))
    }

    /// Handles a new version of the Job.
    pub(super) fn see_job(&mut self, details: JobDetails) {
        if details.job.uid != self.uid {
            self.is_gone = true;
            return;
        }
        self.version = self.version.max(details.job.resource_version);
        let Some(look) = &mut self.look else {
            return;
        };
        if details.job.resource_version >= look.sight.job.job.resource_version {
            look.sight.job = details;
            self.stale = self.stale.max(Stale::Job);
        }
    }

    /// Handles a complete list of Jobs.
    pub(super) fn see_list(&mut self, rows: &[JobRow]) {
        let row = rows.iter().find(|row| row.key == self.key);
        match row.filter(|row| row.uid == self.uid) {
            Some(row) => self.version = self.version.max(row.version),
            None => self.is_gone = true,
        }
    }

    pub(super) fn see_deletion(&mut self, uid: Uid) {
        self.is_gone |= uid == self.uid;
    }

    /// Handles the result of a read.
    pub(super) fn see(&mut self, seen: Result<PageLook>, took: Duration, now: Now) {
        self.is_looking = false;
        let look = match seen {
            Ok(look) if look.sight.job.job.uid == self.uid => look,
            Ok(_) => {
                self.is_gone = true;
                return;
            }
            Err(error) => {
                self.looked = Some(LookDone {
                    at: now.monotonic,
                    took,
                    version: self.version,
                    ended: self.job().map_or(0, ended),
                });
                self.failure = Some(error);
                return;
            }
        };
        let version = look.sight.job.job.resource_version;
        self.version = self.version.max(version);
        self.looked = Some(LookDone {
            at: now.monotonic,
            took,
            version,
            ended: ended(&look.sight.job),
        });
        self.failure = None;
        let failed = look.sight.pods.failed.iter();
        self.failed_once = failed.filter_map(|pod| pod.index).collect();
        // The feed may have sent a newer version meanwhile.
        let newer = self.look.take().map(|before| before.sight.job);
        let newer = newer.filter(|job| job.job.resource_version > version);
        self.look = Some(look);
        self.stale = Stale::Pods;
        if let Some(job) = newer {
            self.see_job(job);
        }
    }

    /// Recomputes the derived data that have changed.
    pub(super) fn prepare(&mut self, now: Now) {
        let time = self.time(now);
        let Some(look) = &mut self.look else {
            return;
        };
        look.sight.now = time;
        let sight = &look.sight;
        let job = &sight.job;
        if self.stale > Stale::Nothing {
            self.successes.see(job, time);
        }
        let pace = self.successes.pace(job, time);
        match &mut self.report {
            // Its duration changes, too.
            Some(report) if self.stale < Stale::Pods => report.see_job(job, pace, time),
            report => *report = Some(StatusReport::of_causes(sight, pace)),
        }
        if self.stale == Stale::Nothing {
            return;
        }
        self.stale = Stale::Nothing;
        // From the same version of the Job as the lines above it.
        let is_deep = look.depth == Depth::Reasons;
        self.why = is_deep.then(|| why::trouble(sight)).flatten();
        let completions = job.job.spec.completions;
        let completions = completions.filter(|_| job.job.spec.is_indexed());
        self.cells = completions.map(|completions| {
            CellSets::of(CellFacts {
                completions,
                succeeded: job.completed_indexes(),
                failed: job.failed_indexes(),
                running: &look.running,
                pending: &sight.pods.pending_indexes,
                failed_once: &self.failed_once,
                is_over: job.end().is_some(),
            })
        });
        let last = completions.unwrap_or(0).saturating_sub(1);
        self.cursor = self.cursor.min(last);
    }

    /// Returns the failed reads.
    pub(in crate::top) fn unseen(&self) -> Vec<Unseen> {
        let mut unseen = self
            .look
            .as_ref()
            .map_or_else(Vec::new, |look| look.sight.unseen());
        if let Some(silence) = &self.events.silence {
            const EVENTS: &str = "Events of the Job";
            // A read of full depth reports the same.
            unseen.retain(|it| it.what != EVENTS);
            // Late Events are not missing.
            if !silence.is_late {
                unseen.push(Unseen::new(EVENTS, &silence.error));
            }
        }
        unseen
    }
}

fn ended(job: &JobDetails) -> u64 {
    u64::from(job.status().succeeded) + u64::from(job.status().failed)
}

/// The newest Events about a Job.
#[derive(Debug, Default)]
pub(in crate::top) struct EventList {
    /// The newest comes first.
    rows: Vec<EventRow>,
    /// The Events have been listed.
    pub(in crate::top) is_known: bool,
    pub(in crate::top) silence: Option<NoNews>,
}

impl EventList {
    pub(super) fn hear(&mut self, news: FeedNews<EventRow>, now: Now) {
        let silence = self.silence.take();
        match news {
            FeedNews::Listed(rows) => {
                self.rows = rows;
                self.is_known = true;
            }
            FeedNews::Applied(row) => {
                self.forget(&row.uid);
                self.rows.push(*row);
            }
            FeedNews::Deleted(row) => self.forget(&row.uid),
            FeedNews::Broken(error) => self.silence = Some(NoNews::of(silence, error, false, now)),
            FeedNews::Unwatched(error) => {
                self.silence = Some(NoNews::of(silence, error, true, now))
            }
            FeedNews::Back => {}
        }
        self.rows.sort_by_key(|row| Reverse(row.at));
        self.rows.truncate(MOST_EVENTS);
    }

    fn forget(&mut self, uid: &CompactString) {
        self.rows.retain(|row| row.uid != *uid);
    }

    /// Returns the newest Events.
    pub(in crate::top) fn newest(&self, count: usize) -> &[EventRow] {
        &self.rows[..count.min(self.rows.len())]
    }
}
