//! Checks that Events are true, and that there are not too many.

use std::collections::BTreeSet;

use lakh::embedded::apiserver::Stored;
use serde::Deserialize;

use super::{Judges, views};

const JUDGE: &str = "events";

/// Event objects that a Job may have in so short a life. client-go's aggregation makes one of ten.
const MOST: usize = 60;

/// The facts that Events may mention, from each history of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    /// Namespace and name of each Pod.
    pods: BTreeSet<(String, String)>,
    /// UIDs of Jobs, with the kinds and reasons of their conditions.
    conditions: BTreeSet<(String, String, String)>,
}

impl Events {
    pub(super) fn pod_seen(&mut self, pod: &Stored) {
        let (namespace, name) = (pod.namespace.to_string(), pod.name.to_string());
        self.pods.insert((namespace, name));
    }

    /// Adds the facts of a lost history.
    pub(super) fn remember(&mut self, other: &Self) {
        self.pods.extend(other.pods.iter().cloned());
        self.conditions.extend(other.conditions.iter().cloned());
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EventView {
    reason: String,
    message: String,
    involved_object: Involved,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Involved {
    kind: String,
    uid: String,
    namespace: String,
}

impl Judges {
    pub(super) fn judge_event(&mut self, event: &Stored) {
        let view: EventView = views::read(event);
        if view.involved_object.kind != "Job" {
            return;
        }
        let (reason, message) = (view.reason.as_str(), view.message.as_str());
        let Some(job) = self.jobs.get(&view.involved_object.uid) else {
            return;
        };
        let has = |kind: &str, reason: &str| {
            let condition = job.view.status.condition(kind);
            condition.is_some_and(|condition| reason.is_empty() || condition.reason == reason)
        };
        let named = message.rsplit(": ").next().unwrap_or_default().to_owned();
        let pod = (view.involved_object.namespace.clone(), named);
        let is_true = match reason {
            "SuccessfulCreate" | "SuccessfulDelete" if !message.contains("combined") => {
                self.events.pods.contains(&pod)
            }
            "AnotherController" => !self.is_alone,
            "Completed" => has("Complete", ""),
            "BackoffLimitExceeded"
            | "DeadlineExceeded"
            | "PodFailurePolicy"
            | "MaxFailedIndexesExceeded"
            | "FailedIndexes" => has("Failed", reason),
            "FailureSummary" => {
                let told = message
                    .split(' ')
                    .next()
                    .and_then(|count| count.parse().ok());
                let pods = self.pods.values();
                let failed = pods.filter(|pod| {
                    let is_its = pod.job.as_ref() == Some(&view.involved_object.uid);
                    is_its && pod.view.phase == "Failed"
                });
                told.is_some_and(|told: usize| told > 0 && told <= failed.count())
            }
            _ => true,
        };
        // It may have been true in the lost history.
        let was_restored = self.unsettled_at > job.created_at;
        if !is_true && !was_restored && !job.is_meddled_with {
            let text = format!("{}: {reason}: {message}", job.name);
            self.find(JUDGE, text);
        }
    }

    /// Judges the number of a Job's Events.
    pub(super) fn judge_event_count(&mut self, job: &str, count: usize) {
        let pods = self
            .pods
            .values()
            .filter(|pod| pod.job.as_deref() == Some(job));
        let most = MOST + 3 * pods.count();
        if count > most {
            let name = &self.jobs[job].name;
            let text = format!("{name}: {count} Events, and {most} are plenty");
            self.find(JUDGE, text);
        }
    }
}
