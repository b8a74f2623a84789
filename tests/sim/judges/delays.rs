//! Checks that nothing happens before its time, nor long after it: the next Pod after failures, the end by a deadline,
//! the deletion of a finished Job.
//!
//! All of them depend on a controller's wall clock, so nothing is judged where the clock may be wrong.

use super::{
    Job, Judges, Written,
    book::Pod,
    views::{JobView, PodView},
};
use crate::{casting::HOSTILE, world::World};

const JUDGE: &str = "delays";

/// A Pod's status comes some time after its end, which is known to the second. In milliseconds.
const TOLERANCE: u64 = 2_000;

/// The greatest delay of a deadline or of a TTL where nothing goes wrong, in milliseconds.
const LATE: u64 = 10_000;

/// Returns the backoff after so many consecutive failures: ten seconds, doubled each time, ten minutes at most.
fn backoff(failures: usize) -> u64 {
    let doublings = failures.saturating_sub(1).min(6);
    (10_000 << doublings).min(600_000)
}

impl Judges {
    /// Returns the fault if a Pod was created too soon after failures that the controller knew of.
    pub(super) fn too_soon(&self, job: &str, pod: &PodView, written: Written) -> Option<String> {
        let (namespace, spec) = (&self.jobs[job].namespace, &self.jobs[job].view.spec);
        if self.are_clocks_set || spec.ignores_failures() || namespace == HOSTILE {
            return None;
        }
        let pods = self.pods.values().filter(|other| other.belongs_to(job));
        let (last, wait) = match spec.backoff_limit_per_index {
            // A new Pod of an index follows one that was known to have failed.
            Some(_) => {
                let same = pods.filter(|other| other.view.index == pod.index && !other.is_gone);
                (same.filter_map(|other| other.failed_at).max()?, backoff(1))
            }
            // A success resets the backoff. A controller cannot wait for a failure that it does not know of.
            None => {
                let pods: Vec<&Pod> = pods.collect();
                // The request may have been queued before the failure.
                let is_unsure = self.are_writes_lost || self.is_limited || written.waited;
                // A Pod that has lost its owner reference counts as well.
                let made_for = |pod: &&Pod| pod.job.as_deref() == Some(job);
                let made = self.pods.values().filter(made_for);
                let mut all = made.chain(pods.iter().copied());
                if is_unsure || all.any(|pod| pod.view.phase == "Succeeded") {
                    return None;
                }
                let is_named = |pod: &&&Pod| pod.named_at.is_some_and(|at| at <= written.sent);
                let named = pods.iter().filter(is_named);
                let failed: Vec<u64> = named.filter_map(|pod| pod.failed_at).collect();
                let last = failed.iter().copied().max()?;
                if self.unsettled_at >= *failed.iter().min()? {
                    return None;
                }
                (last, backoff(failed.len()))
            }
        };
        let earliest = last + wait;
        (written.sent + TOLERANCE < earliest).then(|| {
            format!(
                "a Pod was asked for at {}, and not to be before {earliest}",
                written.sent
            )
        })
    }

    /// Returns the fault if the times in a status are impossible.
    pub(super) fn wrong_time(&self, job: &Job, new: &JobView, written: Written) -> Option<String> {
        let status = &new.status;
        let started_at = status.started_at();
        let is_suspended = status.condition("Suspended").is_some() && !status.has_verdict();
        // As upstream, a Job that is being deleted no longer gets a status for its resumption.
        if is_suspended && started_at.is_some() && !job.is_deleting {
            return Some("suspended, and its clock runs".to_owned());
        }
        let failed = status.condition("FailureTarget");
        let is_new = job.view.status.condition("FailureTarget").is_none();
        failed.filter(|why| is_new && why.reason == "DeadlineExceeded")?;
        let due = new.deadline()?;
        let is_early = written.at < due && !job.was_overdue && !self.are_clocks_set;
        is_early.then(|| format!("its deadline was to pass at {due}"))
    }

    /// Judges a controller's deletion of a Job: a TTL must have expired.
    pub(super) fn judge_ttl(&mut self, namespace: &str, name: &str, at: u64) {
        let job = self.job_named(namespace, name);
        let job = job.and_then(|job| self.jobs.get(&job));
        let due = job.and_then(expires_at);
        if due.is_some_and(|due| at < due) && !self.are_clocks_set {
            let text = format!("{namespace}/{name} was deleted at {at}, and its time was {due:?}");
            self.find(JUDGE, text);
        }
    }

    /// Judges that everything due was done.
    pub(super) fn judge_lateness(&mut self, world: &World) {
        let mut wrong = Vec::new();
        for job in self.jobs.values().filter(|job| job.gone_at.is_none()) {
            if !job.is_deleting && expires_at(job).is_some_and(|due| due + LATE < world.at) {
                wrong.push(format!("{}/{} outlives its TTL", job.namespace, job.name));
            }
        }
        let scenario = &world.scenario;
        let goes_well = !scenario.deeds.iter().any(|(_, deed)| deed.concerns_all());
        if goes_well && scenario.qps == 0 {
            wrong.extend(self.jobs.values().filter_map(missed_deadline));
        }
        for text in wrong {
            self.find(JUDGE, text);
        }
    }
}

/// Returns the time when the TTL of a finished Job expires, if it has one.
fn expires_at(job: &Job) -> Option<u64> {
    let ttl = job.view.spec.ttl_seconds_after_finished? * 1_000;
    Some(job.view.status.finished_at()? + ttl)
}

/// Returns the fault if a Job continues after its deadline.
fn missed_deadline(job: &Job) -> Option<String> {
    let spec = &job.view.spec;
    let due = job.view.deadline()?.max(job.edited_at) + LATE;
    let is_asleep = spec.suspend || job.is_meddled_with || job.is_deleting;
    let is_asleep = is_asleep || job.namespace == HOSTILE;
    let is_late = job.verdict_at.is_none_or(|at| at > due) && !is_asleep && job.gone_at.is_none();
    is_late.then(|| {
        let (namespace, name, at) = (&job.namespace, &job.name, job.verdict_at);
        format!("{namespace}/{name}: its deadline passed before {due}, its verdict came at {at:?}")
    })
}
