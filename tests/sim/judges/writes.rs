//! Checks calls: no hot loop, no status that the server refuses, no foreign namespace or UID, no write without the
//! lead.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Called, Job, Judges, Pod, views::PodView};
use crate::{
    wider::MANAGER,
    world::{By, Who},
};

const JUDGE: &str = "writes";

/// The name of the built-in controller.
const BUILT_IN: &str = "kubernetes.io/job-controller";

/// The identity of the target object in a call's body.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    preconditions: Identity,
    metadata: Identity,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Identity {
    uid: Option<String>,
    resource_version: Option<String>,
    owner_references: Vec<Owner>,
}

/// The UID of a Job in a response.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Read {
    metadata: Identity,
}

#[derive(Deserialize)]
struct Owner {
    uid: Option<String>,
}

/// The budget of calls about a Job.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// Calls that may still be made.
    credit: i64,
    /// Last time up to which elapsed time was credited.
    at: u64,
}

/// A Job's initial budget.
const START: i64 = 60;

/// Calls allowed for each change of the Job or its Pods by another client: to list, to remove the finalizer, to count,
/// to delete, to create the next Pod, and some retries of each.
const PER_CHANGE: i64 = 8;

/// An idle Job may be synced this often; upstream's queue goes down to once in 1,000 s.
const MILLIS_PER_CALL: u64 = 1_000;

/// Call budgets of Jobs and Leases. Each call costs one; elapsed time and changes add to the budget.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes {
    /// Keyed by the Job's UID, or by the candidate for a Lease.
    accounts: BTreeMap<String, Account>,
    /// Number of all calls.
    pub(super) count: u64,
}

impl Writes {
    /// Credits a change of a Job or its Pods. Changes by other clients are a reason for several calls.
    pub(super) fn something_happened(&mut self, job: &str, by: By) {
        let more = match by {
            By::Controller(_) => 1,
            _ => PER_CHANGE,
        };
        if let Some(account) = self.accounts.get_mut(job) {
            account.credit += more;
        }
    }

    /// Charges a call about a Job. Returns true if there are too many.
    fn spend(&mut self, job: &str, at: u64) -> bool {
        self.count += 1;
        let account = self
            .accounts
            .entry(job.to_owned())
            .or_insert(Account { credit: START, at });
        let earned = (at - account.at) / MILLIS_PER_CALL;
        account.at += earned * MILLIS_PER_CALL;
        let earned = i64::try_from(earned).unwrap_or(i64::MAX);
        account.credit = (account.credit + earned - 1).min(account.credit.max(START));
        account.credit < -START
    }
}

impl Judges {
    pub(super) fn judge_call(&mut self, called: &Called<'_>) {
        let Called {
            method, path, code, ..
        } = *called;
        if method == "GET" {
            self.note_look(called);
            return;
        }
        let parts: Vec<&str> = path.split('/').collect();
        let at = parts.iter().position(|part| *part == "namespaces");
        let Some(at) = at else {
            return;
        };
        let part = |number: usize| parts.get(at + number).copied().unwrap_or_default();
        let (namespace, resource, name) = (part(1), part(2), part(3));
        let is_status = part(4) == "status";
        let says = || String::from_utf8_lossy(called.answer).into_owned();
        // The UID in the body makes the server refuse a status for a Job of another UID.
        let body: Body = serde_json::from_slice(called.body).unwrap_or_default();
        let uid = match method {
            "DELETE" => &body.preconditions.uid,
            _ => &body.metadata.uid,
        };
        if matches!(resource, "pods" | "jobs") && method != "POST" && uid.is_none() {
            self.find(
                JUDGE,
                format!("{method} {path} does not say which object it means"),
            );
        }
        if is_status && body.metadata.resource_version.is_none() {
            self.find(
                JUDGE,
                format!("{method} {path} does not say on which version"),
            );
        }
        let is_versioned = body.metadata.resource_version.is_some();
        if resource == "pods" && method == "PATCH" && code == 409 && is_versioned {
            let is_it =
                |pod: &&mut Pod| pod.namespace == namespace && pod.name == name && !pod.is_gone;
            let pod = self.pods.values_mut().find(is_it);
            if let Some(pod) = pod.filter(|pod| !pod.view.has_ended()) {
                pod.refused_at = Some(called.at);
            }
        }
        if resource == "pods" && method == "DELETE" && code < 300 {
            self.judge_stop(namespace, name, called.at);
        }
        let is_refused = matches!(code, 400 | 422) && is_status && !called.by_trouble;
        let job = self.job_named(namespace, name).filter(|_| is_refused);
        let is_dead_end = job.is_some_and(|uid| self.jobs[&uid].may_be_beyond_telling())
            && says().contains("cannot decrease the succeeded counter");
        let is_denied = says().contains("denied the request");
        if is_refused && !is_dead_end && !is_denied && !says().contains("metadata.uid") {
            let body = String::from_utf8_lossy(called.body);
            let text = format!("the server refuses a status: {body} -> {}", says());
            self.find(JUDGE, text);
        }
        if resource == "jobs" && method == "DELETE" && code < 300 {
            self.judge_ttl(namespace, name, called.at);
        }
        let job = match resource {
            "jobs" => self.job_named(namespace, name),
            "pods" if method == "POST" => {
                let owner = body.metadata.owner_references.into_iter().next();
                owner.and_then(|owner| owner.uid)
            }
            "pods" => {
                let mut pods = self.pods.values();
                let pod =
                    pods.find(|pod| pod.namespace == namespace && pod.name == name && !pod.is_gone);
                let pod = pod.map(|pod| (pod.view.job.clone(), pod.job.clone()));
                if let Some((Some((job, _)), _)) = &pod
                    && !self.is_job_of(job, namespace)
                    // A Pod without a Job in its namespace only loses its finalizer, as upstream.
                    && method == "DELETE"
                    && code < 300
                {
                    let text = format!("{method} {path}, which belongs to nobody in its namespace");
                    self.find(JUDGE, text);
                }
                pod.and_then(|(_, job)| job)
            }
            _ => None,
        };
        let Some(job) = job else {
            return;
        };
        // The TTL controller deletes finished Jobs of every manager, as upstream.
        let is_ttl = resource == "jobs" && method == "DELETE";
        if self.jobs.get(&job).is_some_and(|job| self.is_external(job)) && !is_ttl {
            let text = format!("{method} {path} for a Job that another controller manages");
            self.find(JUDGE, text);
        }
        if self.writes.spend(&job, called.at) {
            let job = self.jobs.get(&job).map(|job| job.name.clone());
            self.find(
                JUDGE,
                format!("too many calls about {job:?}, the last {method} {path} -> {code}"),
            );
        }
    }

    /// Charges a write of the Lease: a candidate writes it when it is due, with a few retries.
    pub(crate) fn judge_lease(&mut self, who: Who, at: u64) {
        if self.writes.spend(&format!("the Lease of {who:?}"), at) {
            self.find(JUDGE, format!("{who:?} writes the Lease too often"));
        }
    }

    /// Judges a write under leader election: only the leader may send one.
    pub(crate) fn judge_lead(&mut self, who: Who, holder: &str, method: &str, path: &str) {
        if who.1.to_string() != holder {
            let text = format!("{who:?} sends {method} {path} while {holder:?} leads");
            self.find(JUDGE, text);
        }
    }

    /// Notes that a controller has read a Job.
    fn note_look(&mut self, called: &Called<'_>) {
        if called.code >= 300 || !called.path.contains("/jobs/") {
            return;
        }
        let job: Read = serde_json::from_slice(called.answer).unwrap_or_default();
        if let Some(uid) = job.metadata.uid {
            self.looks.insert(uid);
        }
    }

    /// Judges an adoption: the controller must have read the Job from the server and seen its UID before.
    pub(super) fn judge_adoption(&mut self, before: &PodView, now: &PodView, at: u64) {
        let Some((job, name)) = now.job.as_ref().filter(|_| before.job.is_none()) else {
            return;
        };
        if !self.looks.contains(job) && !self.is_in_doubt(at) {
            let text = format!("a Pod was adopted for {name}, which was not looked at as {job}");
            self.find(JUDGE, text);
        }
    }

    /// Returns true for a Job of another controller.
    pub(super) fn is_external(&self, job: &Job) -> bool {
        let named = job.view.spec.managed_by.as_deref();
        match self.is_beside {
            true => named != Some(MANAGER),
            false => named.is_some_and(|name| name != BUILT_IN),
        }
    }

    /// Judges a controller's deletion of a Pod. A running Pod with its finalizer will count as failed, so it may only
    /// be deleted if the Job fails.
    fn judge_stop(&mut self, namespace: &str, name: &str, at: u64) {
        let is_it = |pod: &&Pod| pod.namespace == namespace && pod.name == name && !pod.is_gone;
        let pod = self.pods.values().find(is_it);
        let held = pod.filter(|pod| pod.view.is_held && !pod.view.has_ended());
        let job = held.and_then(|pod| pod.job.as_ref());
        let Some(job) = job.and_then(|job| self.jobs.get(job)) else {
            return;
        };
        let status = &job.view.status;
        let fails = status
            .condition("FailureTarget")
            .or(status.condition("Failed"));
        if fails.is_none() && !job.is_meddled_with && !self.is_in_doubt(at) && !self.is_shared {
            let text = format!("{namespace}/{name} is stopped before it is let go, and will count");
            self.find(JUDGE, text);
        }
    }

    pub(super) fn job_named(&self, namespace: &str, name: &str) -> Option<String> {
        let mut jobs = self.jobs.iter();
        let job = jobs.find(|(_, job)| {
            job.namespace == namespace && job.name == name && job.gone_at.is_none()
        });
        job.map(|(uid, _)| uid.clone())
    }

    /// Returns true if a Job is, or was, in this namespace, or is unknown. Pods of an unknown Job lose their
    /// finalizers, too.
    fn is_job_of(&self, uid: &str, namespace: &str) -> bool {
        self.jobs
            .get(uid)
            .is_none_or(|job| job.namespace == namespace)
    }
}
