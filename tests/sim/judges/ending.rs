//! Checks the final state, after everything had time to end without faults.

use std::collections::BTreeMap;

use lakh::embedded::apiserver::Kind;

use super::{
    Job, Judges,
    book::Pod,
    views::{self, indexes},
};
use crate::{casting, deeds::Deed, world::World};

const JUDGE: &str = "ending";

/// Time that a Job of three Pods may take beside any other activity, in milliseconds.
const BYSTANDER: u64 = 30_000;

/// The longest time between two Pods of a Job that goes on: upstream's longest backoff, and a Pod's life. In
/// milliseconds.
const LONGEST_BACKOFF: u64 = 620_000;

impl Judges {
    /// Judges all Jobs and Pods that exist.
    pub(super) fn judge_ending(&mut self, world: &World) {
        let events = told(world);
        let uids: Vec<String> = self.jobs.keys().cloned().collect();
        for uid in &uids {
            let (events, warnings) = events.get(uid).copied().unwrap_or_default();
            self.judge_event_count(uid, events);
            let is_told = warnings > 0 && world.scenario.obstacles_stay;
            let is_excused = is_told && self.jobs[uid].namespace == casting::HOSTILE;
            let is_excused = is_excused || (warnings > 0 && self.jobs[uid].may_be_beyond_telling());
            self.judge_job(uid, is_excused, world.at);
        }
        self.judge_pods(world);
        self.judge_lateness(world);
        self.judge_cron_jobs(world.at);
        self.judge_bystander(world);
        self.judge_records(world);
    }

    /// Judges that a Job is done, unless it is `excused`: an obstacle remains, and a Warning reports it.
    fn judge_job(&mut self, uid: &str, excused: bool, now: u64) {
        let job = &self.jobs[uid];
        let name = format!("{}/{}", job.namespace, job.name);
        if job.gone_at.is_some() || self.is_external(job) {
            return;
        }
        let mut wrong = Vec::new();
        let status = &job.view.status;
        let is_asleep = job.view.spec.suspend || job.view.spec.parallelism == Some(0);
        // Ignored failures go on without end.
        let is_asleep = is_asleep || job.busy_at + LONGEST_BACKOFF > now;
        if job.is_deleting && !excused {
            wrong.push("is still being deleted".to_owned());
        } else if !status.is_finished() && !is_asleep && !job.is_meddled_with && !excused {
            wrong.push(format!("stands still: {status:?}"));
        }
        if status.is_finished() && !job.is_meddled_with {
            wrong.extend(self.wrongly_finished(uid, job));
        }
        let of_job = |pod: &&Pod| pod.belongs_to(uid) && pod.is_active();
        let active = self.pods_of(uid).filter(of_job).count();
        // As upstream, a controller leaves a Pod alone that another one has created for a finished Job.
        let is_latecomers = status.is_finished() && (self.is_shared || job.is_haunted);
        let is_over = status.is_finished() || job.view.spec.suspend;
        if active > 0 && is_over && !is_latecomers && !job.is_meddled_with && !excused {
            wrong.push(format!("{active} Pods are still active"));
        }
        for text in wrong {
            self.find(JUDGE, format!("{name}: {text}"));
        }
    }

    fn pods_of<'a>(&'a self, job: &'a str) -> impl Iterator<Item = &'a Pod> {
        let pods = self.pods.values();
        pods.filter(move |pod| pod.job.as_deref() == Some(job))
    }

    /// Returns a Job's Pods that ended in this phase.
    pub(super) fn ended<'a>(
        &'a self,
        job: &'a str,
        phase: &'static str,
    ) -> impl Iterator<Item = &'a Pod> {
        let pods = self.pods_of(job);
        pods.filter(move |pod| pod.ended_as.as_deref() == Some(phase))
    }

    /// Compares a Job's end with a simple model. Returns the faults.
    fn wrongly_finished(&self, uid: &str, job: &Job) -> Vec<String> {
        let mut wrong = Vec::new();
        let (spec, status) = (&job.view.spec, &job.view.status);
        let succeeded = self.ended(uid, "Succeeded").count() as u64;
        let failed = self.ended(uid, "Failed").count() as u64;
        // A Pod that is stopped counts as failed, however it ends.
        let is_stopped = |pod: &&Pod| {
            let may_fail = pod.was_stopped || pod.failed_after_all;
            pod.ended_as.is_none() || (may_fail && pod.ended_as.as_deref() != Some("Failed"))
        };
        let others = self.pods_of(uid).filter(is_stopped).count() as u64;
        if status.failed > failed + others {
            wrong.push(format!(
                "{} failed, but only {failed} and {others} could",
                status.failed
            ));
        }
        if !spec.is_indexed() && status.succeeded > succeeded {
            wrong.push(format!(
                "{} succeeded, but {succeeded} Pods",
                status.succeeded
            ));
        }
        if let Some(complete) = status.condition("Complete") {
            let done = indexes(&status.completed_indexes);
            let policy = spec.success_policy.as_ref();
            let by_policy = complete.reason == "SuccessPolicy"
                && policy.is_some_and(|policy| policy.is_met(&done));
            // Pods that have lost their labels may have been released before they were counted.
            let ended = self.ended(uid, "Succeeded");
            let released = ended.filter(|pod| pod.view.job.is_none());
            let most_done = status.succeeded + released.count() as u64;
            // An elastic Job may have had another size when it ended.
            let is_enough = match job.least_size() {
                Some(completions) => most_done >= completions || by_policy,
                None => status.succeeded >= 1,
            };
            if !is_enough {
                wrong.push(format!("complete after {}: {spec:?}", status.succeeded));
            }
            // Two controllers that know different Pods may each create the last one of a Job without indexes.
            let is_sure = !job.is_haunted && (spec.is_indexed() || !self.is_shared);
            let most = job.sizes.last_key_value().filter(|_| is_sure);
            if most.is_some_and(|(completions, _)| status.succeeded > *completions) {
                wrong.push(format!("{} succeeded of {spec:?}", status.succeeded));
            }
        }
        let Some(why) = status.condition("Failed") else {
            return wrong;
        };
        let limit = spec.backoff_limit.unwrap_or(6);
        let is_ignored = |pod: &&Pod| spec.ignores(&pod.view);
        let ignored = self.ended(uid, "Failed").filter(is_ignored).count() as u64;
        let failed_indexes = status.failed_indexes.as_deref().unwrap_or_default();
        let failed_indexes = indexes(failed_indexes).len() as u64;
        let is_right = match why.reason.as_str() {
            // Restarts of containers count as well, and their number is not known here.
            "BackoffLimitExceeded" if spec.template.spec.restart_policy == "OnFailure" => true,
            "BackoffLimitExceeded" => failed + others > limit + ignored,
            "DeadlineExceeded" => spec.active_deadline_seconds.is_some(),
            // An elastic Job may have lost indexes since, including failed ones.
            "MaxFailedIndexesExceeded" => spec
                .max_failed_indexes
                .is_some_and(|most| failed_indexes > most || job.sizes.len() > 1),
            "FailedIndexes" => {
                let has_some = failed_indexes > 0 || job.sizes.len() > 1;
                has_some && spec.backoff_limit_per_index.is_some()
            }
            // As upstream, the policy considers Pods that were stopped and are not counted.
            "PodFailurePolicy" => {
                let mut pods = self.pods_of(uid);
                // The lost history may have had another one.
                let was_restored = self.restored_at.is_some();
                pods.any(|pod| {
                    pod.view.phase == "Failed" && (was_restored || spec.fails_job(&pod.view))
                })
            }
            _ => false,
        };
        if !is_right {
            let reason = &why.reason;
            wrong.push(format!(
                "failed by {reason} after {failed} and {others}: {spec:?}"
            ));
        }
        wrong
    }

    /// Judges that no Pod of a Job that has ended or is gone still has its finalizer.
    fn judge_pods(&mut self, world: &World) {
        let is_denied = world.server.denial.is_some();
        let mut wrong = Vec::new();
        for pod in self
            .pods
            .values()
            .filter(|pod| !pod.is_gone && pod.view.is_held)
        {
            let Some(job) = pod.job.as_ref().and_then(|job| self.jobs.get(job)) else {
                continue;
            };
            let is_over = job.gone_at.is_some() || job.view.status.is_finished();
            let is_its = pod.namespace == job.namespace;
            if is_denied && pod.namespace == casting::HOSTILE {
                continue;
            }
            if (is_over || pod.view.job.is_none()) && is_its && !pod.is_meddled_with {
                wrong.push(format!("{}/{} is still held", pod.namespace, pod.name));
            }
        }
        for text in wrong {
            self.find(JUDGE, text);
        }
    }

    /// Judges that the Job in the quiet namespace ends soon, whatever happens elsewhere.
    fn judge_bystander(&mut self, world: &World) {
        let scenario = &world.scenario;
        let first = scenario.deeds.iter().find(|(_, deed)| deed.concerns_all());
        let first = first.map_or(u64::MAX, |(at, _)| *at);
        let mut deeds = scenario.deeds.iter();
        let created = deeds.find(|(_, deed)| matches!(deed, Deed::CreateJob(casting::QUIET, ..)));
        let Some((created, _)) = created else {
            return;
        };
        // All runs of its containers succeed.
        let is_limited = scenario.qps > 0;
        if first < created + BYSTANDER || is_limited {
            return;
        }
        let mut jobs = self.jobs.values();
        let job = jobs.find(|job| job.namespace == casting::QUIET);
        let ended_at = job.and_then(|job| job.verdict_at);
        if ended_at.is_none_or(|at| at > created + BYSTANDER) {
            let text = format!("made at {created}, ended at {ended_at:?}");
            self.find("tenants", text);
        }
    }
}

/// Counts the Events about each Job, and their Warnings.
fn told(world: &World) -> BTreeMap<String, (usize, usize)> {
    let mut told: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for event in world.server.api.objects(Kind::Event) {
        let view: serde_json::Value = views::read(event);
        let about = view["involvedObject"]["uid"].as_str().unwrap_or_default();
        let (events, warnings) = told.entry(about.to_owned()).or_default();
        *events += 1;
        // Failed Pods are no obstacle.
        let is_obstacle = view["type"] == "Warning" && view["reason"] != "FailureSummary";
        *warnings += usize::from(is_obstacle);
    }
    told
}
