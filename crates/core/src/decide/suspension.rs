//! Tracks the Suspended condition and the start time that the active deadline counts from.
//!
//! Source: docs/rules/jobs.md, 2.6. Suspending clears the start time; resuming sets a new one.
//!
//! Must not: know of Pods.

use crate::model::{ConditionKind, JobSpec, JobStatus, Report, Time};

/// The Suspended condition and start time that the next status will carry. They may be ahead of the stored status until
/// that is written.
#[derive(Clone, Debug)]
pub(super) struct Suspension {
    start_time: Option<Time>,
    /// The wanted status of the Suspended condition, if there is to be one.
    suspended: Option<bool>,
}

impl Suspension {
    pub(super) fn new(stored: &JobStatus) -> Self {
        Self {
            start_time: stored.start_time,
            suspended: stored_in(stored),
        }
    }

    /// Applies a stored status that another client has changed. A flip that is not stored yet still stands.
    pub(super) fn take_in(&mut self, before: &JobStatus, stored: &JobStatus) {
        if self.flips(before) {
            // Another controller has stored the same resumption. Its start time can no longer be changed.
            let is_stored = !self.flips(stored) && self.suspended == Some(false);
            if let Some(start_time) = stored.start_time.filter(|_| is_stored) {
                self.start_time = Some(start_time);
            }
            return;
        }
        self.suspended = stored_in(stored);
        if stored.start_time != before.start_time {
            self.start_time = stored.start_time;
        }
    }

    /// Returns true if the new run of a resumed Job is not stored yet. Names of Pods depend on the run.
    pub(super) fn begins_run(&self, stored: &JobStatus) -> bool {
        self.suspended == Some(false) && self.flips(stored)
    }

    /// Returns the start time, if the Job has one.
    pub(super) fn start_time(&self) -> Option<Time> {
        self.start_time
    }

    /// Returns the wanted status of the Suspended condition.
    pub(super) fn condition(&self) -> Option<bool> {
        self.suspended
    }

    /// Returns true if a flip is not stored yet.
    pub(super) fn flips(&self, stored: &JobStatus) -> bool {
        self.suspended != stored_in(stored)
    }

    /// Returns the Job's active deadline, if it runs.
    pub(super) fn deadline(&self, spec: &JobSpec) -> Option<Time> {
        if spec.suspend {
            return None;
        }
        Some(self.start_time? + spec.active_deadline?)
    }

    /// Sets the start time of a running Job that has none. Takes back a flip that was never stored if the spec has
    /// flipped back: the API server refuses to change the start time of a Job that is not stored as suspended.
    pub(super) fn begin_turn(
        &mut self,
        spec: &JobSpec,
        stored: &JobStatus,
        now: Time,
    ) -> Option<Report> {
        let takes_back = self.flips(stored) && (stored_in(stored) == Some(true)) == spec.suspend;
        if takes_back {
            self.suspended = stored_in(stored);
            self.start_time = stored.start_time;
        }
        if !spec.suspend {
            self.start_time.get_or_insert(now.whole_secs());
        }
        takes_back.then(|| report(spec.suspend))
    }

    /// Returns true if the spec has flipped and the flip was not applied.
    fn is_to_flip(&self, spec: &JobSpec) -> bool {
        spec.suspend != (self.suspended == Some(true))
    }

    /// Applies a flip of the spec.
    #[doc(alias = "ensureJobConditionStatus")]
    pub(super) fn flip(&mut self, spec: &JobSpec, now: Time) -> Option<Report> {
        if !self.is_to_flip(spec) {
            return None;
        }
        self.suspended = Some(spec.suspend);
        self.start_time = (!spec.suspend).then(|| now.whole_secs());
        Some(report(spec.suspend))
    }
}

/// Returns the status of the stored Suspended condition, if there is one.
fn stored_in(status: &JobStatus) -> Option<bool> {
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|condition| condition.is(ConditionKind::Suspended))?;
    Some(found.is_true())
}

fn report(suspended: bool) -> Report {
    match suspended {
        true => Report::normal("Suspended", "Job suspended"),
        false => Report::normal("Resumed", "Job resumed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Condition;

    #[test]
    fn a_suspension_flip_without_status_is_undone_with_its_start_time() {
        let (at, mut spec) = (Time::from_secs, JobSpec::default());
        let stored = JobStatus {
            start_time: Some(at(10)),
            ..JobStatus::default()
        };
        let mut suspension = Suspension::new(&stored);
        assert_eq!(suspension.begin_turn(&spec, &stored, at(20)), None);
        assert_eq!(suspension.flip(&spec, at(20)), None);
        spec.suspend = true;
        assert!(suspension.flip(&spec, at(30)).is_some());
        assert_eq!(suspension.start_time(), None);
        assert!(suspension.flips(&stored));
        spec.suspend = false;
        assert!(suspension.begin_turn(&spec, &stored, at(40)).is_some());
        assert_eq!(suspension.start_time(), Some(at(10)));
        assert!(!suspension.flips(&stored));
    }

    #[test]
    fn a_start_time_that_another_client_clears_stays_cleared_until_the_job_is_resumed() {
        let (at, mut spec) = (Time::from_secs, JobSpec::default());
        let running = JobStatus {
            start_time: Some(at(10)),
            ..JobStatus::default()
        };
        let mut suspension = Suspension::new(&running);
        spec.suspend = true;
        let cleared = JobStatus::default();
        // Before this machine has seen that the Job is suspended.
        suspension.take_in(&running, &cleared);
        assert_eq!(suspension.start_time(), None);
        suspension.begin_turn(&spec, &cleared, at(20));
        assert!(suspension.flip(&spec, at(20)).is_some());
        // And after: the flip still stands.
        suspension.take_in(&running, &cleared);
        assert!(suspension.flips(&cleared) && suspension.start_time().is_none());
        spec.suspend = false;
        suspension.begin_turn(&spec, &cleared, at(30));
        assert_eq!(suspension.start_time(), Some(at(30)));
    }

    #[test]
    fn a_resumption_that_another_controller_has_stored_has_its_start_time() {
        let (at, mut spec) = (Time::from_secs, JobSpec::default());
        let with = |suspended: bool, start_time| {
            let mut condition = Condition::new_true(ConditionKind::Suspended, "", "", at(1));
            condition.status = if suspended { "True" } else { "False" }.into();
            JobStatus {
                start_time,
                conditions: vec![condition],
                ..JobStatus::default()
            }
        };
        let before = with(true, None);
        let mut suspension = Suspension::new(&before);
        spec.suspend = false;
        assert!(suspension.flip(&spec, at(33)).is_some());
        let stored = with(false, Some(at(28)));
        suspension.take_in(&before, &stored);
        assert!(!suspension.flips(&stored));
        assert_eq!(suspension.start_time(), Some(at(28)));
    }

    #[test]
    fn a_resumed_job_has_its_whole_deadline_again() {
        let (at, mut spec) = (Time::from_secs, JobSpec::default());
        spec.active_deadline = Some(std::time::Duration::from_secs(60));
        let mut suspension = Suspension::new(&JobStatus::default());
        assert_eq!(suspension.deadline(&spec), None);
        suspension.begin_turn(&spec, &JobStatus::default(), at(10));
        assert_eq!(suspension.deadline(&spec), Some(at(70)));
        spec.suspend = true;
        suspension.flip(&spec, at(20));
        assert_eq!(suspension.deadline(&spec), None);
        spec.suspend = false;
        suspension.flip(&spec, at(100));
        assert_eq!(suspension.deadline(&spec), Some(at(160)));
    }
}
