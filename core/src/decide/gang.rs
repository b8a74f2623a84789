//! Which PodGroup a Job's Pods are put into, if the scheduler is to start all of them or none.
//!
//! Source: docs/rules/jobs.md, 8. A Job that is a gang gets a Workload and a PodGroup before its
//! first Pod; while one of them is being made, or was refused, nothing else is done for the Job.
//! What somebody else made is used only where it is clear that it is meant, and never changed: in
//! doubt the Pods are scheduled one by one, as ever.

use std::{sync::Arc, time::Duration};

use compact_str::format_compact;

use crate::model::{
    ConditionKind, GangFacts, GangObject, Job, JobKey, JobStatus, Limits, Monotonic, NewPodGroup,
    NewWorkload, PodGroup, Uid, names,
};

use super::{CreateError, Report, backoff::Backoff, job::KnownJob};

/// How often it is looked whether the object whose name is taken is the one that is wanted:
/// upstream's default for conflicts.
const ATTEMPTS: u32 = 5;

/// How long to wait before looking again.
const PAUSE: Duration = Duration::from_millis(10);

/// Why a gang's Pods are scheduled one by one after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fallback {
    /// The Job had begun before it could have a Workload.
    #[error("the Job has begun without a Workload")]
    NotNew,
    /// More than one Workload refers to it.
    #[error("several Workloads refer to the Job")]
    SeveralWorkloads,
    /// The Workload is not controlled by the Job.
    #[error("the Workload is not controlled by the Job")]
    ForeignWorkload,
    /// The Workload has no template, or several.
    #[error("the Workload has not exactly one template")]
    OddTemplates,
    /// More than one PodGroup refers to the Workload.
    #[error("several PodGroups refer to the Workload")]
    SeveralPodGroups,
    /// The PodGroup is not controlled by the Job.
    #[error("the PodGroup is not controlled by the Job")]
    ForeignPodGroup,
}

/// How far a Job's gang has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Gang {
    job: Uid,
    /// None until it is told: where gangs are not asked for, it never is.
    facts: Option<GangFacts>,
    group: Option<Arc<PodGroup>>,
    fallback: Option<Fallback>,
    /// The fallback, if nobody has heard of it.
    news: Option<Fallback>,
    making: Option<GangObject>,
    /// How often in a row a name was taken.
    taken: u32,
    look_again: Option<Monotonic>,
    backoff: Backoff,
    /// Everything else waits.
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

    /// Whether the Job waits for its Workload or PodGroup.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// When to look again, if it is not yet time.
    pub(super) fn due_at(&self, now: Monotonic) -> Option<Monotonic> {
        let again = self.look_again.filter(|at| *at > now);
        again.max(self.backoff.opens_at(now)).filter(|_| self.waits)
    }

    /// Takes in which Workloads and PodGroups there are.
    pub(super) fn hear(&mut self, facts: GangFacts) {
        self.facts = Some(facts);
    }

    /// The PodGroup that new Pods are put into.
    pub(super) fn group(&self) -> Option<&Arc<PodGroup>> {
        self.group.as_ref()
    }

    /// Why Pods are scheduled one by one, once each time that it is news.
    pub(super) fn take_news(&mut self) -> Option<Fallback> {
        self.news.take()
    }

    /// Takes in that a Workload or PodGroup was made; it is among the facts by now.
    pub(super) fn made(&mut self, job: &str, now: Monotonic) -> Option<Report> {
        self.taken = 0;
        self.backoff.succeed(now);
        let Some(GangObject::Workload(made)) = self.making.take() else {
            return None;
        };
        let message = format!("Created Workload {} for Job {job}", made.name);
        Some(Report::normal("WorkloadCreated", &message))
    }

    /// Takes in that a Workload or PodGroup was not made, or that nobody knows.
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

    /// Sees to it that new Pods have their PodGroup. While everything else has to wait it is an error, with
    /// what is to be made for it, if anything is.
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
            self.news = Some(why);
        }
    }
}

/// What is to be done for a gang.
#[derive(Debug, PartialEq, Eq)]
enum GangStep {
    /// This is its PodGroup.
    Join(Arc<PodGroup>),
    /// This is missing.
    Make(GangObject),
}

/// What is to be done for a gang by what there is, or why it is scheduled as any other Job.
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

/// Whether a status tells of nothing done yet. One that was suspended early has no other trace.
fn has_not_begun(status: &JobStatus) -> bool {
    let mut conditions = status.conditions.iter();
    status.start_time.is_none()
        && status.succeeded == 0
        && status.failed == 0
        && !conditions.any(|condition| condition.is(ConditionKind::Suspended))
}

#[cfg(test)]
mod tests;
