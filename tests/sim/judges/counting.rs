//! Checks that each Pod and each index is counted once, and that no Pod loses its finalizer before a status has named
//! it.
//!
//! Source: the protocol of `uncountedTerminatedPods` (KEP-2307): a Pod that has ended is listed, then loses its
//! finalizer, then leaves the list while a counter grows by one. Completed indexes take the place of the list for Pods
//! of an indexed Job that succeeded.

use super::{
    Job, Judges, Pod, Written,
    views::{JobView, PodView, indexes},
};
use crate::{casting::HOSTILE, world::By};

const JUDGE: &str = "counting";

impl Judges {
    /// Judges a change of a Job: its new status must follow from the old one.
    pub(super) fn judge_status(
        &mut self,
        uid: &str,
        old: &JobView,
        new: &JobView,
        written: Written,
    ) {
        let Some(job) = self.jobs.get(uid) else {
            return;
        };
        let is_ours = matches!(written.by, By::Controller(_));
        if !is_ours || job.is_meddled_with {
            return;
        }
        let name = format!("{}/{}", job.namespace, job.name);
        let mut wrong = Vec::new();
        let (was, is) = (&old.status, &new.status);
        if is.failed < was.failed {
            wrong.push(format!("failed fell from {} to {}", was.failed, is.failed));
        }
        let (was_done, is_done) = (
            indexes(&was.completed_indexes),
            indexes(&is.completed_indexes),
        );
        if new.spec.is_indexed() {
            if is_done.len() as u64 != is.succeeded {
                wrong.push(format!(
                    "{} succeeded, but indexes {is_done:?}",
                    is.succeeded
                ));
            }
            let completions = new.spec.completions.unwrap_or(0);
            let lost = was_done.iter().filter(|index| **index < completions);
            if !lost.clone().all(|index| is_done.contains(index)) {
                wrong.push(format!("completed {was_done:?} became {is_done:?}"));
            }
        } else if is.succeeded < was.succeeded {
            wrong.push(format!(
                "succeeded fell from {} to {}",
                was.succeeded, is.succeeded
            ));
        }
        let (listed, list) = (was.uncounted(), is.uncounted());
        let length = list.failed.len() + list.succeeded.len();
        if length > self.max_uncounted {
            let most = self.max_uncounted;
            wrong.push(format!("{length} Pods are listed, and {most} may be"));
        }
        let counted = |was: &std::collections::BTreeSet<String>, is| {
            was.difference(is).cloned().collect::<Vec<String>>()
        };
        let failed = counted(&listed.failed, &list.failed);
        if is.failed.saturating_sub(was.failed) != failed.len() as u64 {
            wrong.push(format!(
                "failed went from {} to {}, but the list lost {failed:?}",
                was.failed, is.failed
            ));
        }
        let succeeded = counted(&listed.succeeded, &list.succeeded);
        if !new.spec.is_indexed()
            && is.succeeded.saturating_sub(was.succeeded) != succeeded.len() as u64
        {
            wrong.push(format!(
                "succeeded went from {} to {}, but the list lost {succeeded:?}",
                was.succeeded, is.succeeded
            ));
        }
        for uid in failed.iter().chain(&succeeded) {
            // Pods are not adopted while they or their Job are being deleted. A Pod orphaned then no longer belongs to
            // the Job.
            let is_held = self.pods.get(uid).is_some_and(|pod| {
                let goes = job.is_deleting || pod.view.is_deleting;
                let is_orphaned = goes && pod.view.job.is_none();
                !pod.is_gone && pod.view.is_held && !is_orphaned
            });
            if is_held {
                wrong.push(format!("{uid} was counted while it has its finalizer"));
            }
        }
        let counted = &job.counted;
        let mut named = Vec::new();
        for uid in list.failed.iter().chain(&list.succeeded) {
            if counted.contains(uid) {
                wrong.push(format!("{uid} is listed again after it was counted"));
            }
            if !listed.failed.contains(uid) && !listed.succeeded.contains(uid) {
                wrong.extend(self.wrongly_listed(uid, job, list.failed.contains(uid)));
                let fails = list.failed.contains(uid) && !is.has_verdict();
                wrong.extend(
                    self.counted_after_all(uid, job, written.at)
                        .filter(|_| fails),
                );
                named.push(uid.clone());
            }
        }
        for index in is_done.difference(&was_done) {
            if !self.has_succeeded(uid, *index) {
                wrong.push(format!("no Pod of index {index} has succeeded"));
            }
        }
        if was.is_finished() && !is.is_finished() {
            wrong.push("a finished Job is not finished any more".to_owned());
        }
        let lasting = ["FailureTarget", "SuccessCriteriaMet"];
        for kind in lasting {
            if was.condition(kind).is_some() && is.condition(kind).is_none() {
                wrong.push(format!("{kind} is not true any more"));
            }
        }
        if is.condition("Complete").is_some() && is.condition("Failed").is_some() {
            wrong.push("Complete and Failed".to_owned());
        }
        if is.is_finished() && is.uncounted_terminated_pods.is_some() {
            let list = is.uncounted();
            if !list.failed.is_empty() || !list.succeeded.is_empty() {
                wrong.push("finished with Pods that are not counted".to_owned());
            }
        }
        if !is.has_verdict() {
            wrong.extend(self.silent_verdict(new));
            wrong.extend(self.silent_index(new));
            wrong.extend(silent_success(new).filter(|_| !job.is_deleting));
        }
        if was.condition("SuccessCriteriaMet").is_none() {
            wrong.extend(self.early_success(uid, job, new));
        }
        wrong.extend(self.wrong_time(job, new, written));
        let mut pods = self.pods.values();
        let works = |pod: &&Pod| pod.belongs_to(uid) && !pod.is_gone && !pod.view.has_ended();
        if !was.is_finished()
            && is.is_finished()
            && !job.is_haunted
            && !self.is_shared
            // While its watch is silent, a controller may not know of a Pod that a webhook has changed.
            && job.namespace != HOSTILE
            && let Some(pod) = pods.find(works)
        {
            wrong.push(format!("finished while {} has not ended", pod.name));
        }
        for uid in named {
            if let Some(pod) = self.pods.get_mut(&uid) {
                pod.named_at = Some(written.at);
            }
        }
        if let Some(job) = self.jobs.get_mut(uid) {
            job.counted.extend(failed.into_iter().chain(succeeded));
        }
        if self.is_in_doubt(written.at) && !wrong.is_empty() {
            self.meddled_with_job(uid);
            return;
        }
        for text in wrong {
            self.find(JUDGE, format!("{name}: {text}"));
        }
    }

    /// Returns the fault if the verdict `CompletionsReached` came too early. The caller excuses it after a restore: a
    /// controller that cannot list Pods goes by those of the lost history.
    fn early_success(&self, uid: &str, job: &Job, new: &JobView) -> Option<String> {
        let verdict = new.status.condition("SuccessCriteriaMet")?;
        let completions = job.least_size()?;
        if verdict.reason != "CompletionsReached" {
            return None;
        }
        let succeeded = self.ended(uid, "Succeeded").count() as u64;
        let is_early = succeeded < completions;
        is_early.then(|| format!("the verdict came after {succeeded} of {completions} Pods"))
    }

    /// Returns the fault if a status lists or counts Pods that fail the Job, and has no verdict. Once the Pod's
    /// finalizer is off, the cause is lost.
    fn silent_verdict(&self, job: &JobView) -> Option<String> {
        let (spec, status) = (&job.spec, &job.status);
        let listed = status.uncounted().failed;
        let failures = status.failed + listed.len() as u64;
        let limit = spec.backoff_limit.unwrap_or(6);
        // Restarts of containers count as well where there are any.
        let is_plain = spec.backoff_limit_per_index.is_none();
        if is_plain && failures > limit {
            return Some(format!("{failures} failures of {limit}, and no verdict"));
        }
        let failed_indexes = status.failed_indexes.as_deref().unwrap_or_default();
        let failed_indexes = indexes(failed_indexes).len() as u64;
        if spec
            .max_failed_indexes
            .is_some_and(|max| failed_indexes > max)
        {
            return Some(format!("{failed_indexes} indexes failed, and no verdict"));
        }
        let pod_of = |uid: &&String| self.pods.get(*uid);
        let fails_job = |uid: &&String| pod_of(uid).is_some_and(|pod| spec.fails_job(&pod.view));
        let culprit = listed.iter().find(fails_job)?;
        Some(format!("{culprit} fails the Job, and no verdict"))
    }

    /// Returns the fault if a status lists a failed Pod that fails its index, and the index is not marked as failed.
    fn silent_index(&self, job: &JobView) -> Option<String> {
        let (spec, status) = (&job.spec, &job.status);
        let listed = status.uncounted().failed;
        let over = [
            &*status.completed_indexes,
            status.failed_indexes.as_deref().unwrap_or_default(),
        ];
        let over: Vec<_> = over.into_iter().map(indexes).collect();
        let mut pods = listed.iter().filter_map(|uid| self.pods.get(uid));
        let culprit = pods.find(|pod| {
            let index = pod
                .view
                .index
                .filter(|index| Some(*index) < spec.completions);
            // A Pod that was stopped counts as failed whatever its containers report later.
            spec.fails_index(&pod.view)
                && !pod.was_stopped
                && index.is_some_and(|index| !over.iter().any(|over| over.contains(&index)))
        })?;
        Some(format!(
            "{} fails its index, and that has not failed",
            culprit.name
        ))
    }

    /// Returns the fault if a Pod is listed as failed that should not count. Its Job wants no Pods, and the server
    /// refused to remove its finalizer only because the Pod was being deleted.
    fn counted_after_all(&self, uid: &str, job: &Job, at: u64) -> Option<String> {
        let pod = self.pods.get(uid)?;
        let refused_at = pod.refused_at.filter(|_| self.is_way_short)?;
        let spec = &job.view.spec;
        let is_stopped = spec.suspend || spec.parallelism == Some(0);
        let is_same = job.edited_at < refused_at && self.unsettled_at < refused_at;
        let had_time = pod.ended_at.is_none_or(|ended| ended > refused_at + 100);
        let is_wrong = is_stopped && is_same && had_time && !pod.is_meddled_with;
        is_wrong.then(|| {
            format!(
                "{} was to go uncounted at {refused_at}, and counts at {at}",
                pod.name
            )
        })
    }

    /// Returns the fault if a Pod must not be in a list of uncounted Pods.
    fn wrongly_listed(&self, uid: &str, job: &Job, as_failed: bool) -> Option<String> {
        let Some(pod) = self.pods.get(uid) else {
            return Some(format!("{uid} is listed, but there was no such Pod"));
        };
        if pod.namespace != job.namespace || pod.job.is_none() {
            return Some(format!(
                "{}/{} is listed, and is not the Job's",
                pod.namespace, pod.name
            ));
        }
        if pod.is_meddled_with {
            return None;
        }
        let is_right = match as_failed {
            // A Pod that is deleted before its end counts as failed.
            true => pod.view.phase == "Failed" || pod.view.is_deleting || pod.is_gone,
            false => pod.view.phase == "Succeeded",
        };
        let list = if as_failed { "failed" } else { "succeeded" };
        (!is_right).then(|| format!("{} is {}, but listed as {list}", pod.name, pod.view.phase))
    }

    fn has_succeeded(&self, job: &str, index: u64) -> bool {
        let mut pods = self.pods.values();
        pods.any(|pod| {
            let is_its = pod.job.as_deref() == Some(job) && pod.view.index == Some(index);
            is_its && pod.view.phase == "Succeeded"
        })
    }

    /// Judges a change of a Pod: its finalizer goes only after a status has named the Pod.
    pub(super) fn judge_pod_change(
        &mut self,
        uid: &str,
        before: &PodView,
        now: &PodView,
        is_gone: bool,
        written: Written,
    ) {
        if !matches!(written.by, By::Controller(_)) || is_gone && !before.is_held {
            return;
        }
        self.judge_adoption(before, now, written.at);
        // A Pod that no longer belongs to the Job is not counted.
        let is_its = before.job.is_some() && (is_gone || now.job == before.job);
        let is_freed = before.is_held && !now.is_held && is_its;
        let pod = &self.pods[uid];
        let Some(job) = pod.job.as_ref().and_then(|job| self.jobs.get(job)) else {
            return;
        };
        let is_over = job.gone_at.is_some() || job.is_deleting;
        if !is_freed || is_over || pod.is_meddled_with || job.is_meddled_with {
            return;
        }
        let status = &job.view.status;
        if before.has_ended() && !status.is_finished() {
            let list = status.uncounted();
            let is_listed = list.failed.contains(uid) || list.succeeded.contains(uid);
            // A Pod is not counted if the policy ignores it or it ends after the Job's success. The same holds beyond
            // the Job's size as one of two controllers may still know it.
            let least = job.least_size();
            let is_beyond = self.is_shared && least.is_some() && before.index >= least;
            let is_spared = match before.phase.as_str() {
                "Failed" => job.view.spec.ignores_failures() || is_beyond,
                _ => false,
            };
            let is_over = status.condition("SuccessCriteriaMet").is_some();
            let is_named =
                is_listed || is_spared || is_over || is_counted_by_index(job, pod, before);
            if !is_named && self.is_in_doubt(written.at) {
                // A status of the lost history named it. It is never counted.
                let job = pod.job.clone().unwrap_or_default();
                self.meddled_with_job(&job);
            } else if !is_named {
                let text = format!(
                    "{}/{} ({}) lost its finalizer, and no status has named it: {status:?}",
                    pod.namespace, pod.name, before.phase
                );
                self.find(JUDGE, text);
            }
        }
    }
}

/// Returns true if the status names an ended Pod by its index, or if its index is invalid and needs no name. An index
/// is invalid if it was beyond any size of the Job in the Pod's time: the controller may learn of a size late, as
/// upstream's.
fn is_counted_by_index(job: &Job, pod: &Pod, before: &PodView) -> bool {
    if !job.view.spec.is_indexed() {
        return false;
    }
    let is_valid = |index: &u64| !job.was_beyond(*index, pod.made_at);
    let Some(index) = before.index.filter(is_valid) else {
        return true;
    };
    let done = indexes(&job.view.status.completed_indexes);
    before.phase == "Succeeded" && done.contains(&index)
}

/// Returns the fault if a status has enough successes for the Job's end, and no verdict.
fn silent_success(job: &JobView) -> Option<String> {
    let (spec, status) = (&job.spec, &job.status);
    if spec
        .completions
        .is_some_and(|most| status.succeeded >= most)
    {
        return Some(format!("{} succeeded, and no verdict", status.succeeded));
    }
    let done = indexes(&status.completed_indexes);
    let policy = spec.success_policy.as_ref()?;
    let is_met = policy.is_met(&done) && !done.is_empty();
    is_met.then(|| format!("indexes {done:?} meet {policy:?}, and no verdict"))
}
