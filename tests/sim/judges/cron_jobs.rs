//! Checks that each run of a CronJob starts once, and none beside another where that is forbidden. At the end runs must
//! go on, with at most as many ended Jobs as the limits allow.

use std::collections::BTreeMap;

use lakh::embedded::apiserver::{EventType, Stored};

use super::{
    Job, Judges, Written,
    views::{self, CronJobView, JobView},
};
use crate::{server::Change, world::By};

const JUDGE: &str = "cronjobs";

/// Schedules have a run every two minutes at least, and a run may be skipped because of the one before. In
/// milliseconds.
const LONGEST_PAUSE: u64 = 300_000;

/// The greatest delay until a CronJob is synced after one of its Jobs has ended, in milliseconds.
const SETTLED: u64 = 10_000;

/// The existing CronJobs, by UID.
#[derive(Clone, Debug, Default)]
pub(super) struct CronJobs(BTreeMap<String, CronJobView>);

impl CronJobs {
    pub(super) fn changed(&mut self, change: &Change) {
        let uid = change.new.uid.to_string();
        match change.what {
            EventType::Deleted => self.0.remove(&uid),
            _ => self.0.insert(uid, views::cron_job(&change.new)),
        };
    }
}

impl Judges {
    /// Judges the creation of a Job, perhaps for a run.
    pub(super) fn judge_run(&mut self, new: &Stored, view: &JobView, written: Written) {
        let is_ours = matches!(written.by, By::Controller(_)) && written.is_current;
        let Some(cron_job) = view.cron_job().filter(|_| is_ours && !written.is_unwanted) else {
            return;
        };
        if self.is_in_doubt(written.at) || self.is_shared || self.restored_at.is_some() {
            return;
        }
        let others: Vec<&Job> = self.runs_of(cron_job).collect();
        let mut wrong = Vec::new();
        if others.iter().any(|other| other.name == *new.name) {
            wrong.push(format!("{} starts a second time", new.name));
        }
        let cron_job = self.cron_jobs.0.get(cron_job);
        let minute = new.name.rsplit('-').next();
        let minute = minute.and_then(|text| text.parse().ok());
        if let (Some(cron_job), Some(minute)) = (cron_job, minute)
            && !cron_job.spec.may_run_at(minute)
        {
            wrong.push(format!("{} is no run of {:?}", new.name, cron_job.spec));
        }
        let is_alone = cron_job.is_some_and(|it| it.spec.concurrency_policy == "Forbid");
        let mut others = others.into_iter();
        let other = others.find(|other| is_under_way(other) && !other.is_deleting);
        if let Some(other) = other.filter(|_| is_alone) {
            wrong.push(format!("{} starts beside {}", new.name, other.name));
        }
        for text in wrong {
            self.find(JUDGE, text);
        }
    }

    fn runs_of<'a>(&'a self, cron_job: &'a str) -> impl Iterator<Item = &'a Job> {
        let jobs = self.jobs.values();
        jobs.filter(move |job| job.view.cron_job() == Some(cron_job))
    }

    /// Judges that runs go on while nothing goes wrong.
    pub(super) fn judge_pauses(&mut self, now: u64) {
        let mut wrong = Vec::new();
        for (uid, cron_job) in &self.cron_jobs.0 {
            let spec = &cron_job.spec;
            let last = cron_job.last_run();
            let waits = spec.concurrency_policy == "Forbid" && self.runs_of(uid).any(is_under_way);
            if !spec.suspend && !waits && last.is_none_or(|last| last + LONGEST_PAUSE < now) {
                wrong.push(format!("no run since {last:?}: {cron_job:?}"));
            }
        }
        for text in wrong {
            self.find(JUDGE, text);
        }
    }

    /// Judges CronJobs at the end.
    pub(super) fn judge_cron_jobs(&mut self, now: u64) {
        let mut wrong = Vec::new();
        for (uid, cron_job) in &self.cron_jobs.0 {
            let spec = &cron_job.spec;
            let jobs = || self.runs_of(uid).filter(|job| job.gone_at.is_none());
            let has_settled = |job: &Job| {
                let finished_at = job.view.status.finished_at();
                finished_at.is_some_and(|at| at + SETTLED < now)
            };
            if !jobs().all(has_settled) {
                continue;
            }
            let kinds = [
                ("Complete", spec.successful_jobs_history_limit),
                ("Failed", spec.failed_jobs_history_limit),
            ];
            for (kind, limit) in kinds {
                let kept = jobs().filter(|job| job.view.status.condition(kind).is_some());
                let kept = kept.count();
                // A run by a clock that was ahead is kept until its time has come.
                if limit.is_some_and(|limit| kept > limit) && !self.are_clocks_set {
                    wrong.push(format!("{kept} Jobs are kept that are {kind}: {spec:?}"));
                }
            }
        }
        for text in wrong {
            self.find(JUDGE, text);
        }
    }
}

fn is_under_way(job: &Job) -> bool {
    job.gone_at.is_none() && !job.view.status.is_finished()
}
