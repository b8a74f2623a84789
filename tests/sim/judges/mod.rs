//! Judges the controllers' behaviour in a simulation. Judges see the API server's data and share no code with the
//! controller's decisions.
//!
//! - [`counting`]: each Pod and index is counted once, and no Pod loses its finalizer before a status names it.
//! - [`pods`]: never too many Pods, no duplicate index, nothing after a verdict.
//! - [`writes`]: no hot loop, no status that the server refuses, no write to foreign objects.
//! - [`delays`]: nothing happens before its time, nor long after it.
//! - [`cron_jobs`]: each run starts once, and no run beside another where that is forbidden.
//! - [`events`]: Events are true.
//! - [`records`]: index records agree with their Pods.
//! - [`third_parties`]: a Job follows its spec at once, whatever third parties write; no name of a Pod comes back in a
//!   later run.
//! - `memory`: templates stay within their memory limit.
//! - [`ending`]: conditions that must hold at the end, after the last fault.
//!
//! Must not: query the controller. The world supplies its index records and its memory use.

mod book;
mod counting;
mod cron_jobs;
mod delays;
mod ending;
mod events;
mod pods;
mod records;
mod third_parties;
mod views;
mod writes;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lakh::embedded::apiserver::{EventType, Kind, Stored};

use super::{
    casting::{Profile, Scenario},
    server::Change,
    world::{By, Finding, World},
};

use book::{Job, Pod};

/// Time after which all controllers know of a restore: the longest silence of a watch, and the time for which lists are
/// not trusted. In milliseconds.
const DOUBT: u64 = 100_000;

/// Returns true if only one controller writes statuses, and the server is never restored.
fn is_alone(scenario: &Scenario) -> bool {
    let others = [Profile::Two, Profile::Hostile, Profile::Backup];
    !scenario.is_elected && !others.iter().any(|it| scenario.profiles.contains(it))
}

/// Returns true for faults that neither delay nor lose a call, response or event.
fn is_local(profile: &Profile) -> bool {
    matches!(profile, Profile::People | Profile::Pods)
}

/// A call by a controller.
#[derive(Debug)]
pub(crate) struct Called<'a> {
    pub(crate) at: u64,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) code: u16,
    pub(crate) answer: &'a [u8],
    /// The server refused it because of a fault of the scenario.
    pub(crate) by_trouble: bool,
}

/// Origin and time of a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) by: By,
    /// The controller that wrote it still lives.
    pub(crate) is_current: bool,
    /// No caller waited for it any more.
    pub(crate) is_unwanted: bool,
    /// It may have waited for a permit before it was sent.
    pub(crate) waited: bool,
    pub(crate) sent: u64,
    pub(crate) at: u64,
}

/// All judges and their record of the history. The world reports each call and change. The first finding ends the
/// simulation, unless two histories cannot be distinguished.
#[derive(Clone, Debug)]
pub(crate) struct Judges {
    jobs: BTreeMap<String, Job>,
    pods: BTreeMap<String, Pod>,
    /// Namespace and name of each PodGroup.
    pod_groups: BTreeSet<(String, String)>,
    cron_jobs: cron_jobs::CronJobs,
    writes: writes::Writes,
    events: events::Events,
    /// Last time when a controller was started, was killed or gained the lead, or the server was restored.
    unsettled_at: u64,
    /// Last restore. Until controllers notice it, they act on a lost history.
    restored_at: Option<u64>,
    /// Versions and UIDs of the Jobs and Pods of this history, and of lost ones.
    versions: BTreeSet<(u64, Arc<str>)>,
    lost_versions: BTreeSet<(u64, Arc<str>)>,
    /// An object had the same version in two histories, so they cannot be distinguished.
    is_undecidable: bool,
    /// Two controllers may work at once.
    is_shared: bool,
    /// A controller's wall clock may be wrong.
    are_clocks_set: bool,
    /// A write may have taken effect though its controller believes that it has not.
    are_writes_lost: bool,
    /// Writes may wait for long.
    is_limited: bool,
    /// The controllers run beside the built-in one, by `managedBy`.
    is_beside: bool,
    /// Only one controller writes statuses.
    is_alone: bool,
    /// Only ordinary latency delays calls, responses and events.
    is_way_short: bool,
    /// UIDs of Jobs that controllers have read one by one.
    looks: BTreeSet<String>,
    /// Most Pods that a status may list as uncounted.
    max_uncounted: usize,
    findings: Vec<Finding>,
}

impl Judges {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            jobs: BTreeMap::new(),
            pods: BTreeMap::new(),
            pod_groups: BTreeSet::new(),
            cron_jobs: cron_jobs::CronJobs::default(),
            writes: writes::Writes::default(),
            events: events::Events::default(),
            unsettled_at: 0,
            restored_at: None,
            versions: BTreeSet::new(),
            lost_versions: BTreeSet::new(),
            is_undecidable: false,
            is_shared: scenario.profiles.contains(&Profile::Two),
            are_clocks_set: scenario.profiles.contains(&Profile::Clocks),
            are_writes_lost: scenario.profiles.contains(&Profile::Writes),
            is_limited: scenario.qps > 0,
            is_beside: scenario.is_beside,
            is_alone: is_alone(scenario),
            is_way_short: scenario.qps == 0 && scenario.profiles.iter().all(is_local),
            looks: BTreeSet::new(),
            max_uncounted: scenario.max_uncounted as usize,
            findings: Vec::new(),
        }
    }

    /// Returns the first finding as an error.
    pub(crate) fn found(&mut self) -> Result<(), Finding> {
        match self.findings.is_empty() || self.is_undecidable {
            true => Ok(()),
            false => Err(self.findings.swap_remove(0)),
        }
    }

    fn find(&mut self, judge: &'static str, text: String) {
        self.findings.push(Finding { judge, text });
    }

    /// Compares the bytes of templates that a controller keeps with its limit.
    pub(crate) fn judge_memory(&mut self, held: usize, most: usize) {
        if held > most {
            self.find(
                "memory",
                format!("templates have {held} bytes, and {most} are allowed"),
            );
        }
    }

    pub(crate) fn started(&mut self, at: u64) {
        self.unsettled_at = at;
    }

    pub(crate) fn killed(&mut self, at: u64) {
        self.unsettled_at = at;
    }

    /// Restores the judges' record from the time of the backup. It keeps the counts of calls and the facts that Events
    /// may mention.
    pub(crate) fn restored(&mut self, kept: Self, at: u64) {
        let (events, writes) = (self.events.clone(), self.writes.clone());
        let mut lost_versions = std::mem::take(&mut self.lost_versions);
        lost_versions.extend(self.versions.difference(&kept.versions).cloned());
        *self = kept;
        self.lost_versions = lost_versions;
        self.events.remember(&events);
        self.writes = writes;
        self.unsettled_at = at;
        self.restored_at = Some(at);
    }

    /// Returns true if controllers may still act on a lost history.
    fn is_in_doubt(&self, at: u64) -> bool {
        let restored = self.restored_at;
        restored.is_some_and(|restored| restored + DOUBT > at)
    }

    /// Marks a Pod that a user has tampered with: no controller is to blame for the outcome.
    pub(crate) fn meddled(&mut self, pod: &Stored) {
        if let Some(pod) = self.pods.get_mut(&*pod.uid) {
            pod.is_meddled_with = true;
            if let Some(job) = pod.job.clone() {
                self.meddled_with_job(&job);
            }
        }
    }

    /// Marks a Job in the same way: its counters may be wrong.
    pub(crate) fn meddled_with_job(&mut self, uid: &str) {
        if let Some(job) = self.jobs.get_mut(uid) {
            job.is_meddled_with = true;
        }
    }

    /// Handles a call by a controller.
    pub(crate) fn called(&mut self, called: &Called<'_>) {
        self.judge_call(called);
    }

    /// Handles a change on the server.
    pub(crate) fn changed(&mut self, change: &Change, written: Written) {
        if matches!(change.new.kind, Kind::Job | Kind::Pod) {
            let version = (change.new.version, Arc::clone(&change.new.uid));
            self.is_undecidable |= self.lost_versions.contains(&version);
            self.versions.insert(version);
        }
        match change.new.kind {
            Kind::Job => self.job_changed(change, written),
            Kind::Pod => self.pod_changed(change, written),
            Kind::CronJob => self.cron_jobs.changed(change),
            Kind::PodGroup => {
                let group = &change.new;
                let key = (group.namespace.to_string(), group.name.to_string());
                match change.what {
                    EventType::Deleted => self.pod_groups.remove(&key),
                    _ => self.pod_groups.insert(key),
                };
            }
            Kind::Event if change.what != EventType::Deleted => {
                self.judge_event(&change.new);
            }
            _ => {}
        }
    }

    fn job_changed(&mut self, change: &Change, written: Written) {
        let new = &change.new;
        let uid = new.uid.to_string();
        self.writes.something_happened(&uid, written.by);
        if change.what == EventType::Deleted {
            if let Some(job) = self.jobs.get_mut(&uid) {
                job.gone_at = Some(written.at);
            }
            return;
        }
        let view = views::job(new);
        let Some(job) = self.jobs.get(&uid) else {
            self.judge_run(new, &view, written);
            self.jobs.insert(uid, Job::new(new, view, written.at));
            return;
        };
        let before = job.view.clone();
        self.judge_status(&uid, &before, &view, written);
        if let Some(job) = self.jobs.get_mut(&uid) {
            job.changed(new, view, written.by, written.at);
        }
    }

    fn pod_changed(&mut self, change: &Change, written: Written) {
        let new = &change.new;
        let uid = new.uid.to_string();
        let before = self.pods.get(&uid).map(|pod| pod.view.clone());
        let view = match &before {
            Some(before) => before.after(new),
            None => views::PodView::read(new),
        };
        if let Some((job, _)) = &view.job {
            self.writes.something_happened(job, written.by);
        }
        self.events.pod_seen(new);
        // An owner reference to a Job of another namespace, or with another name, is invalid: the Pod belongs to no
        // Job.
        let is_its = |(uid, name): &&(String, String)| {
            let job = self.jobs.get(uid);
            job.is_some_and(|job| job.namespace == *new.namespace && job.name == *name)
        };
        let job = view.job.as_ref().filter(is_its).map(|(uid, _)| uid.clone());
        if before.is_none() {
            if matches!(written.by, By::Controller(_)) {
                self.judge_creation(new, &view, job.as_deref(), written);
            }
            if let Some(job) = job.as_ref().and_then(|job| self.jobs.get_mut(job)) {
                job.busy_at = written.at;
            }
            let run = job.as_ref().and_then(|job| self.jobs.get(job));
            let run = run.map_or(0, |job| job.run);
            let pod = Pod::new(new, view.clone(), (job, run), written.at);
            self.pods.insert(uid.clone(), pod);
        } else if let Some(pod) = self.pods.get_mut(&uid).filter(|pod| pod.job.is_none()) {
            // It was adopted.
            pod.job = job;
        }
        let is_gone = change.what == EventType::Deleted;
        if let Some(before) = &before {
            self.judge_pod_change(&uid, before, &view, is_gone, written);
        }
        if let Some(pod) = self.pods.get_mut(&uid) {
            pod.changed(view, is_gone, written.by, written.at);
        }
    }

    /// Judges after CronJobs had time for runs without faults.
    pub(crate) fn judge_runs(world: &mut World) -> Result<(), Finding> {
        world.judges.judge_pauses(world.at);
        world.judges.found()
    }

    /// Judges after everything had time to end without faults.
    pub(crate) fn judge_the_end(world: &mut World) -> Result<(), Finding> {
        let mut judges = std::mem::replace(&mut world.judges, Self::new(&world.scenario));
        judges.judge_ending(world);
        let found = judges.found();
        world.judges = judges;
        found
    }
}
