//! When a status is worth a write, and what it says of how the Job stands.
//!
//! Source: docs/rules/jobs.md, 2.7, 2.8 and 3.4. At most one write is under way; it carries all
//! that came meanwhile. A verdict is announced by the first write that is sent after it, so that
//! no status has what led to it without it, and once every Pod is counted and gone becomes the Job's
//! end by another.
//!
//! Must not: count Pods.

use std::time::Duration;

use crate::model::{
    Condition, ConditionKind, JobSpec, JobStatus, Limits, Monotonic, Time, Uncounted,
};

use super::{backoff::Backoff, ending::Verdict};

/// For each so many Pods that run or are to run at once, a little progress may wait one more period: a status
/// of so many tells of a few kilobytes of indexes. docs/flow.md.
const CROWD: u32 = 1000;

/// How many periods it waits at most: ten seconds by default, which is as long as people look at a Job before
/// they take it for stuck. docs/flow.md.
const MOST_PERIODS: u32 = 10;

/// The one write of the Job's status that may be under way, and when the next is due.
#[derive(Clone, Debug, Default)]
#[doc(alias = "updateJobStatus")]
pub(super) struct StatusWriter {
    writing: Option<JobStatus>,
    /// When the last status write was sent.
    written_at: Option<Monotonic>,
    is_stale: bool,
    /// When that was first noticed.
    stale_since: Option<Monotonic>,
    backoff: Backoff,
}

/// What the next status would tell, as far as it matters when it is written.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
    /// The Job's next step waits for it.
    pub(super) is_urgent: bool,
    pub(super) flips_suspension: bool,
    /// Pods are about to come or go by this machine's own writes. A status write waits for
    /// them, no longer than one period, and has them all.
    pub(super) is_moving: bool,
    /// The Job ends.
    pub(super) ends: bool,
    /// How many Pods run or are to run at once.
    pub(super) crowd: u32,
    /// How many Pods came or ended that the server's status does not tell of.
    pub(super) progress: u32,
    /// How long the Job's writes to Pods take.
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

    /// Takes over from the machine before what the server does not tell: the wait after a refusal.
    pub(super) fn succeed_to(&mut self, before: &Self) {
        self.backoff = before.backoff.clone();
    }

    /// What was wrong may have been learned.
    pub(super) fn try_at_once(&mut self) {
        self.backoff.open();
    }

    /// The server's status does not tell all.
    pub(super) fn set_stale(&mut self) {
        self.is_stale = true;
    }

    /// Notes since when that is so.
    pub(super) fn note_time(&mut self, now: Monotonic) {
        if self.is_stale {
            self.stale_since.get_or_insert(now);
        }
    }

    pub(super) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Whether no write can be due.
    pub(super) fn has_nothing_to_write(&self) -> bool {
        self.is_writing() || !self.is_stale
    }

    /// When the next write is due, now at the earliest.
    pub(super) fn due_at(&self, news: &News, period: Duration, now: Monotonic) -> Monotonic {
        let due = if news.is_urgent {
            now
        } else {
            let throttled = self.written_at.filter(|_| !news.flips_suspension);
            let held = self.stale_since.filter(|_| news.is_moving);
            let after = throttled.max(held);
            after.map_or(now, |at| (at + news.patience(period)).max(now))
        };
        let open = self.backoff.opens_at(now);
        open.map_or(due, |open| due.max(open))
    }

    /// All that is known by now is about to be written.
    pub(super) fn begin(&mut self) {
        self.is_stale = false;
        self.stale_since = None;
    }

    /// Notes a write in flight. One that begins a run carries no progress, so the next may follow at once.
    pub(super) fn sent(&mut self, status: JobStatus, begins_run: bool, now: Monotonic) {
        self.writing = Some(status);
        self.written_at = (!begins_run).then_some(now);
    }

    /// The server has the status; which.
    pub(super) fn written(&mut self, now: Monotonic) -> Option<JobStatus> {
        self.backoff.succeed(now);
        self.writing.take()
    }

    /// Nobody knows whether the server has the status; the next write says it all again.
    pub(super) fn not_written(&mut self, now: Monotonic) {
        self.backoff.fail(now);
        self.is_stale = true;
        self.writing = None;
    }
}

impl News {
    /// How far apart writes are that only tell progress. In a big Job on a slow server one period
    /// brings little news, and each write is long: without patience every write for a few Pods would
    /// tell the indexes of all. Of many Jobs at once each makes little progress in a period: without
    /// patience their statuses would take the place of their Pods. So a status may wait for as long as
    /// the Job's writes to Pods do. The end of a Job is waited for.
    fn patience(&self, period: Duration) -> Duration {
        // In a big Job more than the root of them is worth a write: so it writes few statuses for its size,
        // however long it takes. Many small ones may share a server: their statuses wait for their Pods.
        let is_much = self.crowd >= CROWD && self.progress > self.crowd.isqrt();
        if is_much || self.ends {
            return period;
        }
        let crowds = (self.crowd / CROWD).max(1);
        (period * crowds)
            .max(self.latency)
            .min(period * MOST_PERIODS)
    }
}

/// How many Pods run or are to run at once.
pub(super) fn crowd(spec: &JobSpec, stored: &JobStatus, active: u32) -> u32 {
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

/// Adds what the next status says of suspension and of the verdict, which may be the Job's end by now.
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
    // The server wants to know when a Job started that has ended, even if it never ran.
    let never_ran = spec.suspend && spec.completions == Some(0);
    if next.start_time.is_none() && !never_ran {
        next.start_time = Some(now);
    }
    if verdict.success {
        // It refuses an end before the start, as where the clock was set back in between.
        next.completion_time = next.start_time.max(Some(now));
    }
}

/// Makes the Suspended condition so, and leaves it alone if it is. Each change is at least a second later than the one
/// before, whatever the clock shows: runs are known by it.
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

    fn patience(news: &News) -> u64 {
        news.patience(PERIOD).as_secs()
    }

    #[test]
    fn the_longer_pod_writes_take_the_longer_a_little_progress_waits() {
        let mut news = News {
            crowd: 100,
            ..News::default()
        };
        let mut took = |seconds: u64| {
            news.latency = Duration::from_secs(seconds);
            patience(&news)
        };
        assert_eq!([0, 1, 2, 8, 60].map(&mut took), [1, 1, 2, 8, 10]);
        news.ends = true;
        assert_eq!(patience(&news), 1);
        news.ends = false;
        assert_eq!(patience(&news), 10);
        news.progress = 100;
        assert_eq!(patience(&news), 10, "its Pods go first");
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
            patience(&News {
                crowd: crowd(&spec, &stored, 0),
                ..News::default()
            })
        };
        assert_eq!(seconds(1, 1, 0, false), 1);
        assert_eq!(seconds(1_999, 100_000, 0, false), 1);
        assert_eq!(seconds(5_000, 20_000, 0, false), 5);
        assert_eq!(seconds(100_000, 100_000, 0, false), 10);
        // What is left is few.
        assert_eq!(seconds(100_000, 100_000, 98_000, false), 2);
        assert_eq!(seconds(100_000, 100_000, 0, true), 1);
    }

    #[test]
    fn much_progress_does_not_wait() {
        let mut news = News {
            crowd: 100_000,
            progress: 316,
            ..News::default()
        };
        assert_eq!(patience(&news), 10);
        news.progress = 317;
        assert_eq!(patience(&news), 1);
    }

    #[test]
    fn a_write_waits_for_pods_that_move_and_for_a_refusal() {
        let at = Monotonic::from_secs;
        let mut writer = StatusWriter::new(&Limits::default());
        let mut news = News::default();
        assert_eq!(writer.due_at(&news, PERIOD, at(100)), at(100));
        writer.note_time(at(100));
        news.is_moving = true;
        assert_eq!(writer.due_at(&news, PERIOD, at(100)), at(101));
        writer.begin();
        assert!(writer.has_nothing_to_write());
        writer.sent(JobStatus::default(), false, at(101));
        writer.not_written(at(102));
        news.is_urgent = true;
        assert_eq!(writer.due_at(&news, PERIOD, at(102)), at(103));
        writer.try_at_once();
        assert_eq!(writer.due_at(&news, PERIOD, at(102)), at(102));
    }
}
