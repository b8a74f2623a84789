//! Checks that there are never too many Pods, no index runs twice at once or again, and no Pod follows a verdict.

use lakh::embedded::apiserver::Stored;

use super::{
    Judges, Written,
    book::Pod,
    views::{PodView, indexes},
};

const JUDGE: &str = "pods";

impl Judges {
    /// Judges a controller's creation of a Pod.
    pub(super) fn judge_creation(
        &mut self,
        pod: &Stored,
        view: &PodView,
        job: Option<&str>,
        written: Written,
    ) {
        let name = format!("{}/{}", pod.namespace, pod.name);
        let Some(uid) = job else {
            if !self.is_in_doubt(written.at) {
                self.find(JUDGE, format!("{name} was made for no Job"));
            }
            return;
        };
        let job = &self.jobs[uid];
        if job.namespace != *pod.namespace {
            let text = format!("{name} was made for a Job of {}", job.namespace);
            self.find(JUDGE, text);
            return;
        }
        // A request of a dead controller may arrive late, and its successor cannot know of it. The same holds for a
        // request that was given up long ago, if the Pod of its retry has gone since.
        let mut pods = self.pods.values();
        let is_repeated = pods.any(|other| {
            other.is_gone && other.name == *pod.name && other.namespace == *pod.namespace
        });
        let is_ghost = !written.is_current || (written.is_unwanted && is_repeated);
        let is_haunted = job.is_haunted || is_ghost;
        let is_shared = self.is_shared;
        let mut wrong = Vec::new();
        let mut twin = None;
        let others = self.pods.values();
        let others: Vec<_> = others
            .filter(|other| other.belongs_to(uid) && !other.is_meddled_with)
            .collect();
        if let Some(index) = view.index.filter(|_| job.view.spec.is_indexed()) {
            let same = others
                .iter()
                .filter(|other| other.view.index == Some(index));
            // A stopped Pod may be replaced at once, before its end is known.
            let is_replaced_at_once = job.view.spec.pod_replacement_policy != "Failed";
            let rival = same.clone().find(|other| {
                let waits = other.view.phase == "Succeeded" && other.view.is_held;
                let waits = waits && !(other.was_stopped && is_replaced_at_once);
                other.is_active() || (waits && !other.is_gone)
            });
            if let Some(rival) = rival {
                let text = format!(
                    "{name} was made beside {} of the same index ({}), which is {}",
                    rival.name, index, rival.view.phase
                );
                // Two controllers may go on with different attempts, as they go by the names of gone Pods, including
                // those of other owners.
                let names = format!("{}-{index}-", job.name);
                let of_index = |other: &&Pod| {
                    let is_its = other.job.as_deref() == Some(uid);
                    let has_name =
                        other.namespace == job.namespace && other.name.starts_with(&names);
                    has_name || (is_its && other.view.index == Some(index))
                };
                let has_lost_one = self.pods.values().filter(of_index).any(|pod| pod.is_gone);
                twin = (!has_lost_one).then(|| text.clone());
                wrong.push(text);
            }
            if indexes(&job.view.status.completed_indexes).contains(&index) {
                wrong.push(format!("{name} was made, and its index is done"));
            }
            let failed = job.view.status.failed_indexes.as_deref();
            if indexes(failed.unwrap_or_default()).contains(&index) {
                wrong.push(format!("{name} was made, and its index has failed"));
            }
        }
        wrong.extend(self.one_try_too_many(uid, view));
        wrong.extend(self.too_soon(uid, view, written));
        wrong.extend(self.repeated_name(uid, &pod.name, written));
        if let Some(group) = &view.pod_group {
            let key = (pod.namespace.to_string(), group.clone());
            // The PodGroup of a deleted Job goes with it. A controller with a silent watch cannot know of that.
            if !self.pod_groups.contains(&key) && !job.is_deleting {
                wrong.push(format!(
                    "{name} was made for PodGroup {group}, which is not there"
                ));
            }
        }
        let waits = job.view.spec.pod_replacement_policy == "Failed";
        let busy = others.iter().filter(|other| {
            let is_going = !other.is_gone && other.view.is_deleting && !other.view.has_ended();
            other.is_active() || (waits && is_going)
        });
        let (busy, most) = (busy.count() as u64 + 1, job.parallelism(written.at));
        if busy > most {
            wrong.push(format!("{name} is one of {busy}, and only {most} may be"));
        }
        if let Some(verdict_at) = job.verdict_at
            && written.sent > verdict_at
        {
            wrong.push(format!("{name} was made after the Job's verdict"));
        }
        let is_in_doubt = self.is_in_doubt(written.at);
        if is_haunted || is_shared || is_in_doubt || job.is_meddled_with {
            wrong.clear();
        }
        // The API server refuses a second Pod of an attempt, also to another controller, as long as it has the first.
        if is_shared && !is_haunted && !is_in_doubt && !job.is_meddled_with {
            wrong.extend(twin);
        }
        if let Some(job) = self.jobs.get_mut(uid)
            && (is_ghost || is_in_doubt)
        {
            job.is_haunted = true;
        }
        for text in wrong {
            self.find(JUDGE, text);
        }
    }

    /// Returns the fault if the Pod's index has already failed too often.
    fn one_try_too_many(&self, job: &str, pod: &PodView) -> Option<String> {
        let spec = &self.jobs[job].view.spec;
        let limit = spec
            .backoff_limit_per_index
            .filter(|_| !spec.ignores_failures())?;
        let pods = self.pods.values();
        let same = || {
            let all = pods.clone();
            all.filter(|other| other.job.as_deref() == Some(job) && other.view.index == pod.index)
        };
        // As upstream, the failure count of an index is lost with a Pod that was stopped or was to be stopped. It is
        // also lost with a Pod that has lost its owner and is deleted before its adoption.
        let is_lost = |other: &Pod| other.is_gone && other.view.job.is_none();
        if same().any(|other| other.was_stopped || other.was_given_up || is_lost(other)) {
            return None;
        }
        let counts = |other: &&Pod| other.failed_at.is_some() && other.belongs_to(job);
        let failures = same().filter(counts).count() as u64;
        let index = pod.index?;
        (failures > limit).then(|| format!("index {index} has failed {failures} times of {limit}"))
    }
}
