//! Simulates users and Jobs in random histories of CronJobs.
//!
//! Must not: know the controller's state.

use std::time::Duration;

use lakh::model::{
    ConcurrencyPolicy, ConditionKind, CronJob, CronJobSpec, CronJobStatus, Time, Uid,
};

use super::{
    cron_judge::{BEATS, Beat, TrueJob, job_name},
    cron_shell::{News, key},
    cron_world::CronWorld,
    world::Dice,
};

impl CronWorld {
    pub(super) fn make_cron_job(&mut self) {
        self.uids += 1;
        let beat = &BEATS[self.ground.dice.below(BEATS.len() as u64) as usize];
        let limit = |dice: &mut Dice| Some(dice.below(4) as u32).filter(|limit| *limit < 3);
        let cron = CronJob {
            key: key(),
            uid: Uid::from_u128(self.uids),
            resource_version: self.version(),
            deleting: false,
            created: self.ground.now.whole_secs(),
            spec: CronJobSpec {
                schedule: beat.text.to_owned(),
                time_zone: beat.zone.map(str::to_owned),
                starting_deadline: self.deadline(),
                concurrency: self.policy(),
                suspend: self.ground.dice.percent(10),
                successful_jobs: limit(&mut self.ground.dice),
                failed_jobs: limit(&mut self.ground.dice),
                managed_by: None,
            },
            status: CronJobStatus::default(),
        };
        self.ground.say(format!("{cron:?}"));
        self.news[0].push_back(News::CronJob(Some(cron.clone())));
        self.cron = Some(cron);
    }

    pub(super) fn deadline(&mut self) -> Option<Duration> {
        let secs = [0, 5, 90, 1000, 5000, 100_000][self.ground.dice.below(6) as usize];
        self.ground
            .dice
            .percent(40)
            .then(|| Duration::from_secs(secs))
    }

    pub(super) fn policy(&mut self) -> ConcurrencyPolicy {
        use ConcurrencyPolicy::{Allow, Forbid, Replace};
        [Allow, Forbid, Replace][self.ground.dice.below(3) as usize]
    }

    pub(super) fn people(&mut self) {
        let Some(cron) = self.cron.clone() else {
            self.make_cron_job();
            return;
        };
        match self.ground.dice.below(16) {
            0 => self.delete_cron_job(),
            1..3 => self.make_job(&cron),
            3..6 => {
                let jobs: Vec<Uid> = self.jobs.keys().copied().collect();
                if let Some(uid) = self.ground.dice.pick(&jobs).copied() {
                    self.remove_job(uid, true);
                }
            }
            _ => self.edit(cron.spec),
        }
    }

    pub(super) fn delete_cron_job(&mut self) {
        let Some(cron) = &mut self.cron else { return };
        if !cron.deleting && self.ground.dice.percent(30) {
            self.version += 1;
            cron.deleting = true;
            cron.resource_version = self.version;
            self.news[0].push_back(News::CronJob(Some(cron.clone())));
            self.ground.say("the CronJob is to go".to_owned());
        } else {
            self.cron = None;
            self.news[0].push_back(News::CronJob(None));
            self.ground.say("the CronJob is gone".to_owned());
        }
    }

    /// Creates a Job by hand: one of the CronJob, or one without owner under the name of the next run.
    pub(super) fn make_job(&mut self, cron: &CronJob) {
        self.uids += 1;
        let (name, owner) = match self.ground.dice.percent(60) {
            true => (format!("by-hand-{}", self.uids), Some(cron.uid)),
            false => {
                let base = cron.status.last_schedule.unwrap_or(cron.created);
                let run = Beat::of(cron).next(base, self.ground.now);
                (job_name(run), None)
            }
        };
        if self.jobs.values().all(|job| job.name != name) {
            self.add_job(name, owner, None);
        }
    }

    pub(super) fn add_job(&mut self, name: String, owner: Option<Uid>, run: Option<Time>) -> Uid {
        self.uids += 1;
        let job = TrueJob {
            uid: Uid::from_u128(self.uids),
            name,
            owner,
            run,
            start: None,
            end: None,
            deleting: false,
            version: self.version(),
        };
        self.ground
            .say(format!("made: {} {}", job.name, job.uid.as_u128()));
        let uid = job.uid;
        self.tell_job(uid, Some(job));
        uid
    }

    pub(super) fn tell_job(&mut self, uid: Uid, job: Option<TrueJob>) {
        match &job {
            Some(job) => drop(self.jobs.insert(uid, job.clone())),
            None => drop(self.jobs.remove(&uid)),
        }
        self.news[1].push_back(News::Job(uid, job));
    }

    /// Deletes a Job. It goes at once, or a finalizer keeps it for a while.
    pub(super) fn remove_job(&mut self, uid: Uid, forgotten: bool) {
        let Some(mut job) = self.jobs.get(&uid).cloned() else {
            return;
        };
        for made in self.made.values_mut().filter(|made| made.job == uid) {
            made.forgotten |= forgotten;
        }
        if !job.deleting && self.ground.dice.percent(25) {
            self.ground.say(format!("to go: {}", job.name));
            job.deleting = true;
            job.version = self.version();
            self.tell_job(uid, Some(job));
        } else {
            self.ground.say(format!("gone: {}", job.name));
            self.tell_job(uid, None);
        }
    }

    pub(super) fn edit(&mut self, mut spec: CronJobSpec) {
        match self.ground.dice.below(8) {
            0..3 => spec.suspend = !spec.suspend,
            3 => spec.concurrency = self.policy(),
            4 => spec.starting_deadline = self.deadline(),
            5 => spec.successful_jobs = Some(self.ground.dice.below(3) as u32),
            6 => spec.failed_jobs = Some(self.ground.dice.below(3) as u32),
            _ => {
                let beat = &BEATS[self.ground.dice.below(BEATS.len() as u64) as usize];
                spec.schedule = beat.text.to_owned();
                spec.time_zone = beat.zone.map(str::to_owned);
                self.passes_over = true;
            }
        }
        self.change(|cron| cron.spec = spec);
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut CronJob)) {
        let version = self.version();
        let Some(cron) = &mut self.cron else { return };
        change(cron);
        cron.resource_version = version;
        let news = News::CronJob(Some(cron.clone()));
        self.news[0].push_back(news);
        self.ground.say(format!(
            "now {:?}",
            self.cron.as_ref().map(|cron| &cron.spec)
        ));
    }

    /// Starts or ends a Job, or finally removes it. Jobs of a CronJob that is gone are removed, too.
    pub(super) fn job_goes_on(&mut self) {
        let jobs: Vec<Uid> = self.jobs.keys().copied().collect();
        let Some(uid) = self.ground.dice.pick(&jobs).copied() else {
            return;
        };
        let mut job = self.jobs[&uid].clone();
        let owner = self.cron.as_ref().map(|cron| cron.uid);
        if job.deleting || job.owner.is_some() && job.owner != owner && self.ground.dice.percent(50)
        {
            self.remove_job(uid, true);
            return;
        }
        if job.end.is_some() {
            return;
        }
        job.version = self.version();
        if job.start.is_none() {
            job.start = Some(self.ground.now.whole_secs());
        } else {
            let kind = match self.ground.dice.percent(60) {
                true => ConditionKind::Complete,
                false => ConditionKind::Failed,
            };
            job.end = Some((kind, self.ground.now.whole_secs()));
            self.ground.say(format!("ended: {} {kind:?}", job.name));
        }
        self.tell_job(uid, Some(job));
    }
}
