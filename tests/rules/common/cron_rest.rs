//! How random histories of CronJobs end: nothing fails any more, and all must be as it should be.

use std::time::Duration;

use lakh::model::{ConcurrencyPolicy, ConditionKind, Time, Uid};

use super::{
    cron_judge::{Beat, TrueJob, due, job_name},
    cron_world::CronWorld,
    ground::BACKOFF,
};

/// How long after its time a run may still not have been looked for.
const JUST: Duration = Duration::from_millis(100);

impl CronWorld {
    /// Nothing fails and nobody meddles any more: what must be in the end.
    pub(crate) fn rest(&mut self) {
        self.ground.calm();
        while !self.late.is_empty() {
            self.late_call();
        }
        // Whatever failed is tried again within a minute, by a clock that may have gone back; then no run is
        // to be just due.
        self.settle();
        self.ground.now = self.ground.now + BACKOFF.max + Duration::from_secs(200);
        self.settle();
        if self.is_just_due() {
            self.ground.now = self.ground.now + JUST;
            self.settle();
        }
        self.check_rest(self.passes_over, self.surplus_left);
        // Any news of the CronJob is a look.
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

    /// A run is looked for a moment after its time, not before.
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
            // Whose the name of one that is gone is by now, is not asked.
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
        // Whoever had the CronJob's name before may have made the Job of that run, or the run before it in
        // the same minute.
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
