//! Models the shell around the CronJob machine in random histories, as in `shard/cron_jobs.rs`: the cache, the queue,
//! and the sync in progress.
//!
//! Must not: know the server's state.

use std::collections::BTreeMap;

use lakh::{
    cronjob::{CallAnswer, CronJobEffect, CronJobSync, look_after_change},
    flow::WorkQueue,
    model::{ChildJob, ConditionKind, CronJob, JobKey, Time, Uid},
};

use super::{
    cron_judge::{Look, NAME, TrueJob, next_look},
    ground::BACKOFF,
};

/// An event that the watch has not delivered yet.
#[derive(Clone, Debug)]
pub(super) enum News {
    CronJob(Option<CronJob>),
    Job(Uid, Option<TrueJob>),
}

/// A request in flight, or its response.
#[derive(Clone, Debug)]
pub(super) enum Flight {
    Asked(CronJobEffect),
    Answered(CronJobEffect, CallAnswer, u64),
}

/// A sync in progress.
pub(super) struct Turn {
    pub(super) sync: CronJobSync,
    pub(super) uid: Uid,
    pub(super) look: Look,
    pub(super) flight: Option<Flight>,
}

/// The controller's memory.
pub(super) struct Shell {
    pub(super) cron: Option<CronJob>,
    pub(super) children: BTreeMap<Uid, TrueJob>,
    pub(super) turns: WorkQueue<JobKey>,
    pub(super) turn: Option<Turn>,
}

pub(super) fn key() -> JobKey {
    JobKey {
        namespace: "default".into(),
        name: NAME.into(),
    }
}

pub(super) fn child(job: &TrueJob) -> ChildJob {
    let complete = job.has_ended(ConditionKind::Complete);
    let at = job.end.map(|(_, at)| at);
    ChildJob {
        name: job.name.as_str().into(),
        uid: job.uid,
        scheduled: job.run,
        end: job.end.map(|(kind, _)| kind),
        complete,
        start: job.start,
        completion: at.filter(|_| complete),
    }
}

impl Shell {
    pub(super) fn new(cron: Option<CronJob>, jobs: &BTreeMap<Uid, TrueJob>) -> Self {
        let owned = jobs.iter().filter(|(_, job)| job.owner.is_some());
        let mut turns = WorkQueue::new(BACKOFF);
        turns.add(key());
        Self {
            cron,
            children: owned.map(|(uid, job)| (*uid, job.clone())).collect(),
            turns,
            turn: None,
        }
    }

    pub(super) fn has(&self, owner: Option<Uid>) -> bool {
        owner.is_some() && owner == self.cron.as_ref().map(|cron| cron.uid)
    }

    /// Applies an event, as the informers do.
    pub(super) fn hear(&mut self, news: News, now: Time) {
        match news {
            News::CronJob(None) => self.cron = None,
            News::CronJob(Some(new)) => {
                let same = self.cron.as_ref().filter(|cron| cron.uid == new.uid);
                if same.is_some_and(|cron| cron.resource_version >= new.resource_version) {
                    return;
                }
                let moved = same.is_some_and(|cron| {
                    let (old, new) = (&cron.spec, &new.spec);
                    old.schedule != new.schedule || old.time_zone != new.time_zone
                });
                match moved.then(|| look_after_change(&new, now)) {
                    Some(Ok(due)) => {
                        assert_eq!(due, next_look(&new, new.status.last_schedule, now));
                        self.turns.add_at(key(), due.into());
                    }
                    Some(Err(report)) => panic!("{report:?}"),
                    None => _ = self.turns.add(key()),
                }
                self.cron = Some(new);
            }
            News::Job(uid, job) => {
                let before = self.children.remove(&uid);
                let owner = job.as_ref().or(before.as_ref()).and_then(|job| job.owner);
                if let Some(job) = job.filter(|job| job.owner.is_some()) {
                    self.children.insert(uid, job);
                }
                if self.has(owner) {
                    self.turns.add(key());
                }
            }
        }
    }
}
