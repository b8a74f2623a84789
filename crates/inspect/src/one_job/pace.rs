//! Computes a Job's completion rate and the estimated time left.
//!
//! Must not: read a clock.

use std::{collections::VecDeque, time::Duration};

use lakh_model::{ConditionKind, Time};

use super::job::JobDetails;

/// Window of a rate: older samples say little about the future.
const WINDOW: Duration = Duration::from_secs(60);

/// A rate over less time is chance.
const SHORTEST: Duration = Duration::from_secs(1);

/// Completion rate of a Job, and the time left at that rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct JobPace {
    /// Successes per second; none if unknown.
    pub(crate) rate: Option<f64>,
    /// Time until completion at this rate.
    pub(crate) left: Option<Duration>,
}

/// Samples of `succeeded` with their times, over the last [`WINDOW`].
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenSuccesses {
    seen: VecDeque<(Time, u32)>,
}

impl SeenSuccesses {
    /// Adds a sample.
    pub(crate) fn see(&mut self, job: &JobDetails, now: Time) {
        self.seen.push_back((now, job.status().succeeded));
        // The newest sample outside of the window stays, as its start.
        while self
            .seen
            .get(1)
            .is_some_and(|(at, _)| now.since(*at) >= WINDOW)
        {
            self.seen.pop_front();
        }
    }

    /// Returns the pace over the samples; if they are too few, the pace since the Job's start.
    pub(crate) fn pace(&self, job: &JobDetails, now: Time) -> JobPace {
        let whole = JobPace::of(job, now);
        let Some((first, before)) = self.seen.front() else {
            return whole;
        };
        let watched = now.since(*first);
        let more = job.status().succeeded.saturating_sub(*before);
        // A Job with long-running Pods shows no success for a long time.
        if watched < SHORTEST * 5 || more == 0 || job.end().is_some() {
            return whole;
        }
        JobPace::at(f64::from(more) / watched.as_secs_f64(), job)
    }
}

impl JobPace {
    /// Returns the pace since the Job's start; unknown for a Job that was suspended, as resuming resets its start time.
    pub(crate) fn of(job: &JobDetails, now: Time) -> Self {
        let status = job.status();
        let suspension = status.conditions.iter();
        let was_suspended = suspension
            .filter(|it| it.is(ConditionKind::Suspended))
            .count()
            > 0;
        let Some(start) = status.start_time.filter(|_| !was_suspended) else {
            return Self::default();
        };
        let end = job.end().and_then(|end| end.last_transition);
        let took = end.unwrap_or(now).since(start);
        if took < SHORTEST || status.succeeded == 0 {
            return Self::default();
        }
        Self::at(f64::from(status.succeeded) / took.as_secs_f64(), job)
    }

    fn at(rate: f64, job: &JobDetails) -> Self {
        let is_going = job.end().is_none() && job.status().active > 0;
        let left = job.left().filter(|left| is_going && *left > 0);
        let seconds = left.map(|left| f64::from(left) / rate);
        Self {
            rate: Some(rate),
            left: seconds.and_then(|it| Duration::try_from_secs_f64(it).ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(more: &str) -> JobDetails {
        let json = format!(
            r#"{{"metadata":{{"name":"j","uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
            "resourceVersion":"7"}},"spec":{{"completions":100,"template":{{}}}},
            "status":{{"startTime":"1970-01-01T00:01:40Z","active":1{more}}}}}"#
        );
        JobDetails::read(&json).expect("a good Job")
    }

    fn at(seconds: i64) -> Time {
        Time::from_secs(seconds)
    }

    #[test]
    fn the_rate_is_of_the_last_minute_once_that_was_watched() {
        let mut seen = SeenSuccesses::default();
        let early = job(r#","succeeded":10"#);
        seen.see(&early, at(120));
        let whole = JobPace {
            rate: Some(0.5),
            left: Some(Duration::from_secs(180)),
        };
        assert_eq!(seen.pace(&early, at(120)), whole);
        let later = job(r#","succeeded":30"#);
        seen.see(&later, at(130));
        let watched = seen.pace(&later, at(130));
        assert_eq!(
            (watched.rate, watched.left),
            (Some(2.0), Some(Duration::from_secs(35)))
        );
        let last = job(r#","succeeded":40"#);
        seen.see(&last, at(200));
        // From 130 on.
        assert_eq!(seen.pace(&last, at(200)).rate, Some(10.0 / 70.0));
    }

    #[test]
    fn no_rate_is_made_up() {
        assert_eq!(JobPace::of(&job(""), at(150)), JobPace::default());
        assert_eq!(
            JobPace::of(&job(r#","succeeded":9"#), at(100)),
            JobPace::default()
        );
        let resumed = r#","succeeded":9,"conditions":[{"type":"Suspended","status":"False"}]"#;
        assert_eq!(JobPace::of(&job(resumed), at(150)), JobPace::default());
        let over = r#","succeeded":50,"conditions":[{"type":"Failed","status":"True",
            "lastTransitionTime":"1970-01-01T00:02:30Z"}]"#;
        let pace = JobPace::of(&job(over), at(9_999));
        assert_eq!((pace.rate, pace.left), (Some(1.0), None));
    }
}
