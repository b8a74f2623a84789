//! Schedules status writes and composes their conditions.
//!
//! Source: docs/rules/jobs.md, 2.7, 2.8 and 3.4. At most one write is in flight; it is followed by one write for all
//! changes since. The first write after a verdict announces it, so no stored status shows the cause of a verdict
//! without the verdict. Once every Pod is counted and gone, another write turns the verdict into the Job's end.
//!
//! Must not: count Pods.

use std::time::Duration;

use crate::model::{
    Condition, ConditionKind, JobSpec, JobStatus, Limits, Monotonic, Time, Uncounted,
};

use super::{backoff::Backoff, ending::Verdict};

/// A little progress may wait one period for each this many Pods that run or should run at once. A status for this many
/// Pods carries a few kilobytes of indexes. docs/flow.md.
const LARGE_SCALE: u32 = 1000;

/// The maximum wait, in periods: ten seconds by default, about as long as a user watches a Job before taking it for
/// stuck. docs/flow.md.
const MOST_PERIODS: u32 = 10;

/// Tracks the one status write of a Job that may be in flight, and schedules the next.
#[derive(Clone, Debug, Default)]
#[doc(alias = "updateJobStatus")]
pub(super) struct StatusWriter {
    writing: Option<JobStatus>,
    /// When the last status write was sent; unset after one that begins a run.
    written_at: Option<Monotonic>,
    is_stale: bool,
    /// When `is_stale` was first noticed.
    stale_since: Option<Monotonic>,
    backoff: Backoff,
}

/// The properties of the next status that decide when it is written.
#[derive(Clone, Debug, Default)]
pub(super) struct StatusChanges {
    /// The Job's next step waits for the write.
    pub(super) is_urgent: bool,
    pub(super) flips_suspension: bool,
    /// Own writes are about to add or remove Pods. A status write waits for them, for at most `batching_delay`, and then
    /// carries them all.
    pub(super) is_moving: bool,
    /// The Job ends.
    pub(super) ends: bool,
    /// The number of Pods that run or should run at once.
    pub(super) scale: u32,
    /// The number of Pods that were added or ended since the stored status.
    pub(super) progress: u32,
    /// The latency of the Job's Pod writes.
    pub(super) latency: Duration,
}

impl StatusWriter {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            is_stale: true,
            backoff: Backoff::new(limits.retry_backoff),
            ..Self::default()
        }
    }

    /// Inherits the state that is not stored: the backoff after a refusal.
    pub(super) fn succeed_to(&mut self, before: &Self) {
        self.backoff = before.backoff.clone();
    }

    /// Ends the backoff, because the cause of the refusal may be gone.
    pub(super) fn try_at_once(&mut self) {
        self.backoff.open();
    }

    /// Marks the stored status as stale.
    pub(super) fn set_stale(&mut self) {
        self.is_stale = true;
    }

    /// Records when the stored status became stale.
    pub(super) fn note_time(&mut self, now: Monotonic) {
        if self.is_stale {
            self.stale_since.get_or_insert(now);
        }
    }

    pub(super) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Returns true if no write can be due.
    pub(super) fn has_nothing_to_write(&self) -> bool {
        self.is_writing() || !self.is_stale
    }

    /// Returns when the next write is due, now at the earliest.
    pub(super) fn due_at(
        &self,
        changes: &StatusChanges,
        period: Duration,
        now: Monotonic,
    ) -> Monotonic {
        let due = if changes.is_urgent {
            now
        } else {
            let throttled = self.written_at.filter(|_| !changes.flips_suspension);
            let held = self.stale_since.filter(|_| changes.is_moving);
            let after = throttled.max(held);
            after.map_or(now, |at| (at + changes.batching_delay(period)).max(now))
        };
        let open = self.backoff.opens_at(now);
        open.map_or(due, |open| due.max(open))
    }

    /// Marks all changes so far as about to be written.
    pub(super) fn begin(&mut self) {
        self.is_stale = false;
        self.stale_since = None;
    }

    /// Records a write in flight. A write that begins a run carries no progress, so the next may follow at once.
    pub(super) fn sent(&mut self, status: JobStatus, begins_run: bool, now: Monotonic) {
        self.writing = Some(status);
        self.written_at = (!begins_run).then_some(now);
    }

    /// Handles a successful write. Returns the stored status.
    pub(super) fn written(&mut self, now: Monotonic) -> Option<JobStatus> {
        self.backoff.succeed(now);
        self.writing.take()
    }

    /// Handles a failed write or an unknown result. The next write carries everything again.
    pub(super) fn not_written(&mut self, now: Monotonic) {
        self.backoff.fail(now);
        self.is_stale = true;
        self.writing = None;
    }
}

impl StatusChanges {
    /// Returns the minimum interval between writes that only report progress.
    ///
    /// In a big Job on a slow server one period brings little progress, but each write carries all indexes. Many Jobs
    /// at once each make little progress in a period, and their statuses would displace the writes to their Pods. So a
    /// status may wait as long as the Job's Pod writes do. The end of a Job does not wait longer than one period:
    /// clients wait for it.
    fn batching_delay(&self, period: Duration) -> Duration {
        // In a big Job, progress by more than the square root of its Pods is worth a write: it then writes few statuses
        // for its size, however long it runs. Many small Jobs may share a server: their statuses wait for their Pods.
        let is_much = self.scale >= LARGE_SCALE && self.progress > self.scale.isqrt();
        if is_much || self.ends {
            return period;
        }
        let periods = (self.scale / LARGE_SCALE).max(1);
        (period * periods)
            .max(self.latency)
            .min(period * MOST_PERIODS)
    }
}

/// Returns the number of Pods that run or should run at once.
pub(super) fn scale(spec: &JobSpec, stored: &JobStatus, active: u32) -> u32 {
    let left = spec.completions.map_or(u32::MAX, |completions| {
        completions.saturating_sub(stored.succeeded)
    });
    let wanted = if spec.suspend {
        0
    } else {
        spec.parallelism.min(left)
    };
    active.max(wanted)
}

/// Adds the Suspended condition and the verdict's conditions to the next status. The verdict may become the Job's end.
#[doc(alias = "enactJobFinished")]
#[doc(alias = "delayTerminalCondition")]
pub(super) fn compose_conditions(
    next: &mut JobStatus,
    spec: &JobSpec,
    suspended: Option<bool>,
    verdict: Option<(&Verdict, bool)>,
    now: Time,
) {
    if let Some(suspended) = suspended {
        set_suspended(&mut next.conditions, suspended, now);
    }
    let Some((verdict, may_end)) = verdict else {
        return;
    };
    if next.true_condition(verdict.interim()).is_none() {
        next.conditions.push(Condition::new_true(
            verdict.interim(),
            &verdict.reason,
            &verdict.message,
            now,
        ));
        return;
    }
    let nothing_listed = next.uncounted.as_ref().is_none_or(Uncounted::is_empty);
    if !may_end || !nothing_listed {
        return;
    }
    let end = Condition::new_true(verdict.terminal(), &verdict.reason, &verdict.message, now);
    let mut conditions = next.conditions.iter_mut();
    match conditions.find(|found| found.is(verdict.terminal())) {
        Some(found) => *found = end,
        None => next.conditions.push(end),
    }
    // The API server rejects a finished Job without a start time, unless it is suspended and has zero completions.
    let never_ran = spec.suspend && spec.completions == Some(0);
    if next.start_time.is_none() && !never_ran {
        next.start_time = Some(now);
    }
    if verdict.success {
        // It rejects a completion before the start, which a clock set back in between would produce.
        next.completion_time = next.start_time.max(Some(now));
    }
}

/// Sets the Suspended condition, and keeps one that is already right. Each transition is at least a second after the
/// one before, whatever the clock shows, because the transition time identifies the run.
fn set_suspended(conditions: &mut Vec<Condition>, suspended: bool, now: Time) {
    let (reason, message) = if suspended {
        ("JobSuspended", "Job suspended")
    } else {
        ("JobResumed", "Job resumed")
    };
    let mut condition = Condition::new_true(ConditionKind::Suspended, reason, message, now);
    if !suspended {
        condition.status = "False".into();
    }
    match conditions
        .iter_mut()
        .find(|found| found.is(ConditionKind::Suspended))
    {
        Some(found) if found.status == condition.status => {}
        Some(found) => {
            let next = found
                .last_transition
                .map(|last| last + Duration::from_secs(1));
            condition.last_transition = condition.last_transition.max(next);
            *found = condition;
        }
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(1);

    fn batching_delay(changes: &StatusChanges) -> u64 {
        changes.batching_delay(PERIOD).as_secs()
    }

    #[test]
    fn the_longer_pod_writes_take_the_longer_a_little_progress_waits() {
        let mut changes = StatusChanges {
            scale: 100,
            ..StatusChanges::default()
        };
        let mut took = |seconds: u64| {
            changes.latency = Duration::from_secs(seconds);
            batching_delay(&changes)
        };
        assert_eq!([0, 1, 2, 8, 60].map(&mut took), [1, 1, 2, 8, 10]);
        changes.ends = true;
        assert_eq!(batching_delay(&changes), 1);
        changes.ends = false;
        assert_eq!(batching_delay(&changes), 10);
        changes.progress = 100;
        assert_eq!(batching_delay(&changes), 10, "its Pods go first");
    }

    #[test]
    fn the_more_pods_the_longer_a_little_progress_waits() {
        let seconds = |parallelism, completions, succeeded, suspend| {
            let spec = JobSpec {
                parallelism,
                completions: Some(completions),
                suspend,
                ..JobSpec::default()
            };
            let stored = JobStatus {
                succeeded,
                ..JobStatus::default()
            };
            batching_delay(&StatusChanges {
                scale: scale(&spec, &stored, 0),
                ..StatusChanges::default()
            })
        };
        assert_eq!(seconds(1, 1, 0, false), 1);
        assert_eq!(seconds(1_999, 100_000, 0, false), 1);
        assert_eq!(seconds(5_000, 20_000, 0, false), 5);
        assert_eq!(seconds(100_000, 100_000, 0, false), 10);
        // Few completions are left.
        assert_eq!(seconds(100_000, 100_000, 98_000, false), 2);
        assert_eq!(seconds(100_000, 100_000, 0, true), 1);
    }

    #[test]
    fn much_progress_does_not_wait() {
        let mut changes = StatusChanges {
            scale: 100_000,
            progress: 316,
            ..StatusChanges::default()
        };
        assert_eq!(batching_delay(&changes), 10);
        changes.progress = 317;
        assert_eq!(batching_delay(&changes), 1);
    }

    #[test]
    fn a_write_waits_for_pods_that_move_and_for_a_refusal() {
        let at = Monotonic::from_secs;
        let mut writer = StatusWriter::new(&Limits::default());
        let mut changes = StatusChanges::default();
        assert_eq!(writer.due_at(&changes, PERIOD, at(100)), at(100));
        writer.note_time(at(100));
        changes.is_moving = true;
        assert_eq!(writer.due_at(&changes, PERIOD, at(100)), at(101));
        writer.begin();
        assert!(writer.has_nothing_to_write());
        writer.sent(JobStatus::default(), false, at(101));
        writer.not_written(at(102));
        changes.is_urgent = true;
        assert_eq!(writer.due_at(&changes, PERIOD, at(102)), at(103));
        writer.try_at_once();
        assert_eq!(writer.due_at(&changes, PERIOD, at(102)), at(102));
    }
}
