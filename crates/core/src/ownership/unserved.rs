//! Detects Jobs that name another controller in `spec.managedBy` while no controller takes them up. A misspelled name
//! would otherwise leave a Job idle for ever without a message.
//!
//! Every controller sets a start time or a condition as soon as it sees a Job. A Job that has neither for long has no
//! controller.
//!
//! Must not: guess which controller the name means.

use std::time::Duration;

use crate::model::{DEFAULT_MANAGER, Job, Monotonic, Report, format_go_duration};

/// The maximum time without a start time or condition: longer than a leader change, a rollout, or a short outage.
const PATIENCE: Duration = Duration::from_secs(300);

/// The detector for one Job: it reports at most once. Call [`Unserved::look`] for each event and at the time that it
/// returns.
#[derive(Clone, Debug, Default)]
pub struct Unserved {
    since: Option<Monotonic>,
    is_told: bool,
}

impl Unserved {
    /// Checks the Job. Returns the warning, at most once, and the time of the next check.
    pub fn look(&mut self, job: &Job, now: Monotonic) -> (Option<Report>, Option<Monotonic>) {
        let named = job.spec.managed_by.as_deref();
        let named = named.filter(|name| *name != DEFAULT_MANAGER);
        let Some(name) = named.filter(|_| is_untouched(job) && !self.is_told) else {
            return (None, None);
        };
        let due = *self.since.get_or_insert(now) + PATIENCE;
        if now < due {
            return (None, Some(due));
        }
        self.is_told = true;
        let patience = format_go_duration(PATIENCE);
        let message = format!(
            "No controller has started this Job for {patience}. Check that spec.managedBy, {name:?}, is spelled correctly and that this \
             controller runs"
        );
        (Some(Report::warning("UnservedManagedBy", &message)), None)
    }
}

/// Returns true if no controller has acted on the Job.
fn is_untouched(job: &Job) -> bool {
    !job.deleting && !job.status.has_begun()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobSpec, Time};

    fn job(managed_by: Option<&str>) -> Job {
        Job {
            spec: JobSpec {
                managed_by: managed_by.map(Into::into),
                ..JobSpec::default()
            },
            ..Job::default()
        }
    }

    fn at(secs: u64) -> Monotonic {
        Monotonic::from_secs(secs)
    }

    #[test]
    fn an_unserved_job_is_reported_once() {
        let (mut unserved, job) = (Unserved::default(), job(Some("lakh.dev/job-controler")));
        assert_eq!(unserved.look(&job, at(10)), (None, Some(at(310))));
        assert_eq!(unserved.look(&job, at(309)), (None, Some(at(310))));
        let (told, again) = unserved.look(&job, at(310));
        let told = told.expect("it is told");
        assert_eq!((told.reason.as_str(), again), ("UnservedManagedBy", None));
        assert!(told.message.contains("\"lakh.dev/job-controler\""));
        assert_eq!(unserved.look(&job, at(999)), (None, None));
    }

    #[test]
    fn started_jobs_and_those_of_the_built_in_controller_are_not_reported() {
        let mut started = job(Some("example.com/other"));
        started.status.start_time = Some(Time::from_secs(1));
        let mut going = job(Some("example.com/other"));
        going.deleting = true;
        let usual = [job(None), job(Some(DEFAULT_MANAGER)), started, going];
        for job in usual {
            let mut unserved = Unserved::default();
            assert_eq!(unserved.look(&job, at(0)), (None, None));
            assert_eq!(unserved.look(&job, at(9_999)), (None, None));
        }
    }
}
