//! Provides the PodGroup for a gang: a Job with Pods that the scheduler starts all at once or not at all.
//!
//! Source: docs/rules/jobs.md, 8. A gang gets a Workload and a PodGroup before its first Pod. While one of them is
//! being created or its backoff runs, the Job does nothing else. Objects of other creators are used only if they
//! clearly belong to the Job, and never changed. In doubt the Pods are scheduled one by one.

use std::{sync::Arc, time::Duration};

use compact_str::format_compact;

use crate::model::{
    ConditionKind, GangFacts, GangObject, Job, JobKey, JobStatus, Limits, Monotonic, NewPodGroup,
    NewWorkload, PodGroup, Uid, names,
};

use super::{CreateError, Report, backoff::Backoff, job::KnownJob};

/// The number of times that the object with the taken name is compared with the wanted one: upstream's default for
/// conflicts.
const ATTEMPTS: u32 = 5;

/// The pause before the next comparison.
const PAUSE: Duration = Duration::from_millis(10);

/// The reason why a gang's Pods are scheduled one by one after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fallback {
    /// The Job had begun before it could have a Workload.
    #[error("the Job has started without a Workload")]
    NotNew,
    /// More than one Workload refers to it.
    #[error("several Workloads refer to the Job")]
    SeveralWorkloads,
    /// The Workload is not controlled by the Job.
    #[error("the Workload is not controlled by the Job")]
    ForeignWorkload,
    /// The Workload has no template, or several.
    #[error("the Workload does not have exactly one template")]
    OddTemplates,
    /// More than one PodGroup refers to the Workload.
    #[error("several PodGroups refer to the Workload")]
    SeveralPodGroups,
    /// The PodGroup is not controlled by the Job.
    #[error("the PodGroup is not controlled by the Job")]
    ForeignPodGroup,
}

/// The state of a Job's gang: its Workload and PodGroup as known, the creation in flight, and the fallback.
#[derive(Clone, Debug, Default)]
pub(super) struct Gang {
    job: Uid,
    /// `None` until the first [`Gang::hear`]; stays `None` where gang scheduling is off.
    facts: Option<GangFacts>,
    group: Option<Arc<PodGroup>>,
    fallback: Option<Fallback>,
    /// A fallback that was not reported yet.
    unreported: Option<Fallback>,
    making: Option<GangObject>,
    /// The number of consecutive failures because the name was taken.
    taken: u32,
    look_again: Option<Monotonic>,
    backoff: Backoff,
    /// All other work of the Job waits.
    waits: bool,
}

impl Gang {
    pub(super) fn new(job: &Job, limits: &Limits) -> Self {
        Self {
            job: job.uid,
            backoff: Backoff::new(limits.retry_backoff),
            ..Self::default()
        }
    }

    /// Returns true if the Job waits for its Workload or PodGroup.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// Returns when to check again, if that time is not over.
    pub(super) fn due_at(&self, now: Monotonic) -> Option<Monotonic> {
        let again = self.look_again.filter(|at| *at > now);
        again.max(self.backoff.opens_at(now)).filter(|_| self.waits)
    }

    /// Applies the current Workloads and PodGroups.
    pub(super) fn hear(&mut self, facts: GangFacts) {
        self.facts = Some(facts);
    }

    /// Returns the PodGroup for new Pods.
    pub(super) fn group(&self) -> Option<&Arc<PodGroup>> {
        self.group.as_ref()
    }

    /// Returns why Pods are scheduled one by one, once per change of the reason.
    pub(super) fn take_news(&mut self) -> Option<Fallback> {
        self.unreported.take()
    }

    /// Handles a created Workload or PodGroup, which is among the facts by now.
    pub(super) fn made(&mut self, job: &str, now: Monotonic) -> Option<Report> {
        self.taken = 0;
        self.backoff.succeed(now);
        let Some(GangObject::Workload(made)) = self.making.take() else {
            return None;
        };
        let message = format!("Created Workload {} for Job {job}", made.name);
        Some(Report::normal("WorkloadCreated", &message))
    }

    /// Handles a failed creation of a Workload or PodGroup, or an unknown result.
    pub(super) fn not_made(&mut self, error: CreateError, now: Monotonic) {
        self.making = None;
        self.taken += 1;
        if error == CreateError::NameTaken && self.taken < ATTEMPTS {
            self.look_again = Some(now + PAUSE);
        } else {
            self.taken = 0;
            self.backoff.fail(now);
        }
    }

    /// Ensures that new Pods have their PodGroup. Returns an error while all other work must wait, with the object to
    /// create, if any.
    pub(super) fn settle(
        &mut self,
        job: &KnownJob,
        no_pods: bool,
        now: Monotonic,
    ) -> Result<(), Option<GangObject>> {
        self.waits = false;
        let wanted = job.spec.is_gang() && !job.deleting;
        let Some(facts) = self.facts.as_ref().filter(|_| wanted) else {
            self.group = None;
            return Ok(());
        };
        self.waits = true;
        if self.making.is_some() || self.due_at(now).is_some() {
            return Err(None);
        }
        let is_new = no_pods && has_not_begun(&job.status);
        match next(&job.key, self.job, job.spec.parallelism, is_new, facts) {
            Ok(GangStep::Join(group)) => {
                self.fallback = None;
                self.group = Some(group);
            }
            Ok(GangStep::Make(object)) => {
                self.making = Some(object.clone());
                return Err(Some(object));
            }
            Err(why) => self.fall_back(why),
        }
        self.waits = false;
        self.taken = 0;
        self.backoff.succeed(now);
        Ok(())
    }

    fn fall_back(&mut self, why: Fallback) {
        self.group = None;
        if self.fallback.replace(why) != Some(why) {
            self.unreported = Some(why);
        }
    }
}

/// The next step for a gang.
#[derive(Debug, PartialEq, Eq)]
enum GangStep {
    /// Put new Pods into this PodGroup.
    Join(Arc<PodGroup>),
    /// Create this object.
    Make(GangObject),
}

/// Returns the next step for the existing objects, or why the Pods are scheduled one by one.
fn next(
    job: &JobKey,
    uid: Uid,
    parallelism: u32,
    is_new: bool,
    facts: &GangFacts,
) -> Result<GangStep, Fallback> {
    let workload = match facts.workloads.as_slice() {
        [] if is_new => {
            return Ok(GangStep::Make(GangObject::Workload(NewWorkload {
                name: names::workload_name(&job.name, uid),
                template: format_compact!("{}-pgt-0", job.name),
                min_count: parallelism,
            })));
        }
        [] => return Err(Fallback::NotNew),
        [workload] if workload.controller == Some(uid) => workload,
        [_] => return Err(Fallback::ForeignWorkload),
        _ => return Err(Fallback::SeveralWorkloads),
    };
    let [template] = workload.templates.as_slice() else {
        return Err(Fallback::OddTemplates);
    };
    match facts.groups.as_slice() {
        [] => Ok(GangStep::Make(GangObject::PodGroup(NewPodGroup {
            name: names::pod_group_name(&workload.name, &template.name),
            workload: workload.name.clone(),
            workload_uid: workload.uid,
            template: template.clone(),
        }))),
        [group] if group.controller == Some(uid) => Ok(GangStep::Join(Arc::clone(group))),
        [_] => Err(Fallback::ForeignPodGroup),
        _ => Err(Fallback::SeveralPodGroups),
    }
}

/// Returns true if the status shows no progress yet. A Job that was suspended early shows only its condition.
fn has_not_begun(status: &JobStatus) -> bool {
    let mut conditions = status.conditions.iter();
    status.start_time.is_none()
        && status.succeeded == 0
        && status.failed == 0
        && !conditions.any(|condition| condition.is(ConditionKind::Suspended))
}

#[cfg(test)]
mod tests;
