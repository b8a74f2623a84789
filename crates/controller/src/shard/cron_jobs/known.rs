//! Caches CronJobs, without their templates, and the Jobs of each.
//!
//! Must not: decide when a CronJob is synced.

use std::{collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;

use lakh_model::{ChildJob, CronJob, JobKey, Uid};

use crate::shard::correlate::Correlator;

/// The cached CronJobs and their Jobs.
#[derive(Debug, Default)]
pub(super) struct KnownCronJob {
    pub(super) cron_jobs: BTreeMap<JobKey, Cell>,
    /// Jobs with a CronJob as controller, by its name. The CronJob with that name may be another one by now.
    pub(super) children: BTreeMap<JobKey, BTreeMap<Uid, ChildJob>>,
    /// The CronJob of each of these Jobs.
    pub(super) parents: HashMap<Uid, Parent>,
}

/// A cached CronJob.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) cron_job: Arc<CronJob>,
    pub(super) told: Correlator,
    /// The Job created in the last sync, if its status was refused. The watch may not have shown it yet. If the clock
    /// was set back, the next run would have another name.
    pub(super) forgotten: Option<ChildJob>,
}

/// The controller reference of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) key: JobKey,
    pub(super) uid: Uid,
}

impl KnownCronJob {
    /// Returns the CronJob with this UID.
    pub(super) fn cell_mut(&mut self, key: &JobKey, uid: Uid) -> Option<&mut Cell> {
        let cell = self.cron_jobs.get_mut(key)?;
        (cell.cron_job.uid == uid).then_some(cell)
    }

    /// Returns the CronJob with this UID.
    pub(super) fn get(&self, key: &JobKey, uid: Uid) -> Option<&CronJob> {
        let cron_job = &*self.cron_jobs.get(key)?.cron_job;
        (cron_job.uid == uid).then_some(cron_job)
    }

    /// Returns true if a Job's CronJob exists, and is still the same one.
    pub(super) fn has(&self, parent: &Parent) -> bool {
        self.get(&parent.key, parent.uid).is_some()
    }

    /// The Job of a CronJob that was scheduled last.
    pub(super) fn last_job(&self, cron_job: &CronJob) -> Option<&ChildJob> {
        let children = self.children.get(&cron_job.key)?;
        let of_it = children.values().filter(|child| {
            let parent = self.parents.get(&child.uid);
            parent.is_some_and(|parent| parent.uid == cron_job.uid)
        });
        of_it.max_by_key(|child| (child.scheduled.or(child.start), child.uid))
    }

    pub(super) fn remove_job(&mut self, job: Uid) -> Option<Parent> {
        let parent = self.parents.remove(&job)?;
        if let Some(children) = self.children.get_mut(&parent.key) {
            children.remove(&job);
            if children.is_empty() {
                self.children.remove(&parent.key);
            }
        }
        Some(parent)
    }
}
