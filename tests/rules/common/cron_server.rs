//! Simulates the server in random histories of CronJobs, and checks the invariants of its state.
//!
//! Must not: know the controller's state.

use lakh::{
    cronjob::{CallAnswer, CronJobEffect, FoundJob, NotCreated},
    model::{CronJobStatus, Time, Uid},
};

use super::{
    cron_shell::Flight,
    cron_world::{CronWorld, Made},
    ground::Fate,
};

impl CronWorld {
    /// Carries out a request or not. The response may be lost.
    pub(super) fn call(&mut self, uid: Uid, effect: CronJobEffect) -> Flight {
        let no_answer = match effect {
            CronJobEffect::CreateJob(_) => {
                CallAnswer::NotCreated(NotCreated::Other("no".to_owned()))
            }
            _ => CallAnswer::Failed("no".to_owned()),
        };
        match self.ground.fate() {
            Fate::Refused => Flight::Answered(effect, no_answer, 0),
            Fate::Late => {
                self.late.push((uid, effect.clone()));
                Flight::Answered(effect, no_answer, 0)
            }
            Fate::AnswerLost => {
                self.serve(uid, &effect);
                Flight::Answered(effect, no_answer, 0)
            }
            Fate::Done => {
                let (answer, version) = self.serve(uid, &effect);
                Flight::Answered(effect, answer, version)
            }
        }
    }

    /// Carries out a request long after the controller has given up on it.
    pub(super) fn late_call(&mut self) {
        if !self.late.is_empty() {
            let at = self.ground.dice.below(self.late.len() as u64) as usize;
            let (uid, effect) = self.late.swap_remove(at);
            self.ground.say(format!("  late: {effect:?}"));
            if let CronJobEffect::CreateJob(job) = &effect
                && let Some(made) = self.made.get_mut(&(uid, job.scheduled))
            {
                // The controller cannot prevent a second start here.
                made.forgotten = true;
            }
            self.serve(uid, &effect);
        }
    }

    /// Carries out a request. Returns the response and the version of a written status.
    pub(super) fn serve(&mut self, by: Uid, effect: &CronJobEffect) -> (CallAnswer, u64) {
        let not_found = || CallAnswer::NotFound("not found".to_owned());
        let by_name = |world: &Self, name: &str| {
            let mut jobs = world.jobs.values();
            jobs.find(|job| job.name == name).cloned()
        };
        let answer = match effect {
            CronJobEffect::GetCronJob => match &self.cron {
                Some(cron) => CallAnswer::CronJob(Box::new(cron.clone())),
                None => not_found(),
            },
            CronJobEffect::GetJob(name) => match by_name(self, name) {
                Some(job) => CallAnswer::Job(FoundJob {
                    uid: job.uid,
                    resource_version: job.version,
                    controller: job.owner,
                }),
                None => not_found(),
            },
            CronJobEffect::DeleteJob(uid, name) => match by_name(self, name) {
                Some(job) if job.uid != *uid => CallAnswer::Failed("conflict".to_owned()),
                Some(job) => {
                    // A Job deleted to make room may belong to a run that no status covers.
                    let status = self.cron.as_ref().map(|cron| &cron.status);
                    let last = status.and_then(|status| status.last_schedule);
                    self.remove_job(job.uid, last < job.run);
                    CallAnswer::Deleted
                }
                None => not_found(),
            },
            CronJobEffect::CreateJob(job) => match by_name(self, &job.name) {
                Some(_) => CallAnswer::NotCreated(NotCreated::NameTaken),
                None => {
                    let uid = self.add_job(job.name.to_string(), Some(by), Some(job.scheduled));
                    self.started += 1;
                    self.check_started(by, job.scheduled, uid);
                    CallAnswer::Created {
                        uid,
                        resource_version: self.jobs[&uid].version,
                    }
                }
            },
            CronJobEffect::WriteStatus(status, version) => return self.write(by, status, *version),
            CronJobEffect::Report(_) | CronJobEffect::Over(_) => unreachable!("these are no calls"),
        };
        (answer, 0)
    }

    pub(super) fn write(
        &mut self,
        by: Uid,
        status: &CronJobStatus,
        version: u64,
    ) -> (CallAnswer, u64) {
        let known = self.cron.as_ref();
        let known = known.filter(|cron| cron.uid == by && cron.resource_version == version);
        let Some(known) = known else {
            return (CallAnswer::Failed("conflict".to_owned()), 0);
        };
        let before = &known.status;
        assert!(before.last_schedule <= status.last_schedule, "it goes back");
        assert!(
            before.last_successful <= status.last_successful,
            "it goes back"
        );
        self.change(|cron| cron.status = status.clone());
        (CallAnswer::StatusWritten, self.version)
    }

    /// Checks that no run starts twice, unless its Job was removed and no controller could know of it any more.
    pub(super) fn check_started(&mut self, cron: Uid, run: Time, job: Uid) {
        let forgotten = false;
        let before = self.made.insert((cron, run), Made { job, forgotten });
        assert!(
            before.is_none_or(|made| made.forgotten),
            "a run starts twice"
        );
    }
}
