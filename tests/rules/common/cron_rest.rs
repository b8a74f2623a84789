//! Ends random histories of CronJobs: without faults, they must come to the expected state.

use std::time::Duration;

use lakh::model::{ConcurrencyPolicy, ConditionKind, Time, Uid};

use super::{
    cron_judge::{Beat, TrueJob, due, job_name},
    cron_world::CronWorld,
    ground::BACKOFF,
};

/// The delay from the time of a run to the sync that starts it.
const JUST: Duration = Duration::from_millis(100);

impl CronWorld {
    /// Ends the faults and user actions, runs everything to its end, and checks the result.
    pub(crate) fn rest(&mut self) {
        self.ground.calm();
        while !self.late.is_empty() {
            self.late_call();
        }
        // Failures are retried within a minute, by a clock that may have been set back. Then no run may be just due.
        self.settle();
        self.ground.now = self.ground.now + BACKOFF.max + Duration::from_secs(200);
        self.settle();
        if self.is_just_due() {
            self.ground.now = self.ground.now + JUST;
            self.settle();
        }
        self.check_rest(self.passes_over, self.surplus_left);
        // Any event of the CronJob causes a sync.
        self.change(|_| ());
        self.settle();
        self.check_rest(false, false);
        let (version, started) = (self.version, self.started);
        self.change(|_| ());
        self.settle();
        assert_eq!(
            (self.version, self.started),
            (version + 1, started),
            "no end"
        );
    }

    /// Returns true if a run is due but its sync is not: that follows after `JUST`.
    fn is_just_due(&self) -> bool {
        let now = self.ground.there().wall;
        let before =
            Time::from_millis(now.as_millis() - i64::try_from(JUST.as_millis()).expect("small"));
        self.cron.as_ref().is_some_and(|cron| {
            let base = cron.status.last_schedule.unwrap_or(cron.created);
            let run = Beat::of(cron).latest(base, now);
            run.is_some_and(|run| run > before)
        })
    }

    fn settle(&mut self) {
        for _ in 0..100_000 {
            if !(self.watch(0) || self.watch(1) || self.controller()) {
                return;
            }
        }
        panic!("no rest");
    }

    fn check_rest(&self, passes_over: bool, surplus_left: bool) {
        let Some(cron) = &self.cron else { return };
        let (spec, status) = (&cron.spec, &cron.status);
        let active: Vec<Uid> = status.active.iter().map(|job| job.uid).collect();
        for job in self.jobs.values().filter(|job| job.runs_for(cron.uid)) {
            assert!(active.contains(&job.uid), "runs and is not active: {job:?}");
        }
        for active in &status.active {
            let job = self.jobs.get(&active.uid);
            let runs = job.is_some_and(|job| job.end.is_none());
            // The controller does not check which Job has the name of one that is gone.
            let named = self.jobs.values().any(|job| job.name == active.name);
            let taken = job.is_none() && named;
            assert!(runs || taken, "active and does not run: {active:?}");
        }
        let own = || self.jobs.values().filter(|job| job.owner == Some(cron.uid));
        for (kind, limit) in [
            (ConditionKind::Complete, spec.successful_jobs),
            (ConditionKind::Failed, spec.failed_jobs),
        ] {
            let over = |job: &&TrueJob| job.run.is_none_or(|run| run <= self.ground.there().wall);
            let kept = own().filter(|job| job.has_ended(kind) && !job.deleting);
            let kept = kept.filter(over);
            let kept = kept.count();
            let many = limit.is_some_and(|limit| kept > limit as usize);
            assert!(!many || surplus_left, "{kept} {kind:?} are kept");
        }
        let complete = own().filter(|job| job.has_ended(ConditionKind::Complete));
        let ended = complete.filter_map(|job| job.end.map(|(_, at)| at)).max();
        assert!(status.last_successful >= ended, "lastSuccessfulTime");
        // The Job of that run may come from an earlier CronJob with the same name, or from an earlier run in the same
        // minute.
        let mut made = self.made.keys().map(|(_, run)| job_name(*run));
        let last = status.last_schedule.map(job_name);
        let is_run = last.is_none_or(|last| made.any(|name| name == last));
        assert!(is_run, "lastScheduleTime of no run");
        let Some(run) = due(cron, status.last_schedule, self.ground.there().wall) else {
            return;
        };
        let forbidden = spec.concurrency == ConcurrencyPolicy::Forbid && !active.is_empty();
        let taken = self.jobs.values().any(|job| job.name == job_name(run));
        let waits = spec.suspend || cron.deleting || forbidden || taken || passes_over;
        assert!(waits, "{run:?} was not started");
    }
}
