//! Lists one Job's Pods when their watch lags behind a status that another controller has written.
//!
//! A Pod that such a status already counts may look uncounted until the cache has the Pods as of its version. In a
//! quiet cluster the watch reaches that version only with its next bookmark, up to a minute later. A consistent list of
//! the Job's Pods is as new as the status at once.
//!
//! Must not: count Pods.

use std::{sync::Arc, time::Duration};

use hashbrown::HashSet;

use lakh_model::{Exponential, JobId, Monotonic, Now, PodRecord, Uid};
use lakh_wire::{ApiError, Call, ExpectedAnswer, PodDecoder, decode_list_page, paths};

use crate::machine::CallResult;

use super::{
    Shard,
    actor::{Actor, Turn},
    outbox::{Caller, Named},
    store::ActorKey,
};

/// The most Pods of one page.
const PAGE_SIZE: usize = 500;

/// The time that the watch gets before the Pods are listed. Where anything happens it nearly always suffices.
const WATCH_MAY_TAKE: Duration = Duration::from_millis(100);

/// A wait for the Job's Pods as of a version, and the result of listing them.
#[derive(Debug, Default)]
pub(super) struct JobPods {
    /// When the Pods may be listed; none while no sync waits.
    due: Option<Monotonic>,
    list: Option<JobPodList>,
    /// Consecutive lists that failed or were too old.
    failures: u32,
    /// All Pods of the Job are cached as of this version.
    pub(super) known_at: u64,
}

/// A list in flight.
#[derive(Debug, Default)]
struct JobPodList {
    version: u64,
    found: HashSet<Uid>,
}

impl JobPods {
    /// Waits for the Pods. Returns whether to list them now, and when to check again.
    pub(super) fn wait(&mut self, now: Monotonic) -> (bool, Option<Monotonic>) {
        if self.list.is_some() {
            return (false, None);
        }
        let due = *self.due.get_or_insert(now + WATCH_MAY_TAKE);
        if now < due {
            return (false, Some(due));
        }
        self.list = Some(JobPodList::default());
        (true, None)
    }

    /// Ends the wait.
    pub(super) fn stop_waiting(&mut self) {
        (self.due, self.failures) = (None, 0);
    }

    /// Returns true if a sync waits for the Pods.
    pub(super) fn is_waiting(&self) -> bool {
        self.due.is_some()
    }

    fn fail(&mut self, retry: Exponential, now: Monotonic) {
        self.list = None;
        self.failures = self.failures.saturating_add(1);
        self.due = self.due.map(|_| now + retry.delay(self.failures));
    }
}

impl Actor {
    /// Returns true if another controller has written the Job's status and the cached Pods are older than that. A Pod
    /// that the status counts may then look uncounted, and one that it lists may not be cached.
    pub(super) fn is_ahead_of_pods(&self, pods_seen: u64) -> bool {
        // Pods of a Job that is gone are freed without being counted.
        let job = self.job.as_ref().filter(|_| !self.gone);
        let status = job.map(|job| &job.status);
        status.is_some_and(|status| status.uncounted.is_some()) && self.status_since > pods_seen
    }

    /// Waits until the Pods are cached as of the Job's status: from the watch, or from a list if the watch takes too
    /// long.
    pub(super) fn wait_for_pods(&mut self, now: Monotonic, turn: &mut Turn) {
        let (lists_pods, again) = self.job_pods_mut().wait(now);
        turn.lists_pods = lists_pods;
        turn.wake_at = again.map(Into::into);
    }

    fn job_pods_mut(&mut self) -> &mut JobPods {
        self.job_pods.get_or_insert_default()
    }

    /// Returns the version as of which a list of the Job's Pods has all of them; 0 without such a list.
    pub(super) fn pods_known_at(&self) -> u64 {
        self.job_pods.as_ref().map_or(0, |read| read.known_at)
    }

    /// Returns true if the Job waits for Pods as new as its status.
    pub(super) fn waits_for_pods(&self) -> bool {
        self.job_pods.as_ref().is_some_and(|read| read.is_waiting())
    }

    /// Forgets the listed Pods' version, and a list in flight.
    pub(super) fn forget_pods(&mut self) {
        self.job_pods = None;
    }
}

impl Shard {
    /// Requests a page of a Job's Pods; an empty token is the first page.
    pub(super) fn list_job_pods(&mut self, key: ActorKey, token: &str) {
        let Some(actor) = self.store.get(key) else {
            return;
        };
        let JobId { uid, key: job } = &*actor.id;
        let selector = actor.selector.as_deref();
        let path = paths::pods_of_job_page(&job.namespace, *uid, selector, (PAGE_SIZE, token));
        let list = Named::new("list", "pods", Call::get(path), ExpectedAnswer::List);
        (self.outbox).ask((&job.namespace, *uid), list, Caller::JobPods(key));
    }

    /// Handles a page of a Job's Pods.
    pub(super) fn job_pods_listed(&mut self, key: ActorKey, result: CallResult, now: Now) {
        match self.take_page(key, result) {
            Ok(Some(token)) => self.list_job_pods(key, &token),
            Ok(None) => self.mark(key),
            Err(error) => {
                let retry = self.settings.limits.retry_backoff;
                if let Some(actor) = self.store.get_mut(key) {
                    tracing::debug!(job = %actor.id.key, %error, "could not list the Job's Pods");
                    actor.job_pods_mut().fail(retry, now.monotonic);
                    self.mark(key);
                }
            }
        }
    }

    /// Applies a page. Returns the token of the next, if there is one.
    fn take_page(&mut self, key: ActorKey, result: CallResult) -> Result<Option<String>, ApiError> {
        let odd = |error: &dyn std::fmt::Display| ApiError::no_answer(format!("odd list: {error}"));
        let answer = result?;
        let page = decode_list_page(&answer).map_err(|error| odd(&error))?;
        let version = page.resource_version.parse();
        let version: u64 = version.map_err(|error| odd(&error))?;
        let decoder = PodDecoder {
            finalizer: self.settings.mode.finalizer(),
        };
        for object in page.items {
            // A Pod that cannot be decoded is treated as deleted, as in the watch.
            let Ok(pod) = decoder.decode(object) else {
                continue;
            };
            let Some(list) = self.job_pod_list(key) else {
                return Ok(None);
            };
            list.found.insert(pod.record.uid);
            self.apply_pod(pod);
        }
        let Some(list) = self.job_pod_list(key) else {
            return Ok(None);
        };
        list.version = version;
        if !page.continue_token.is_empty() {
            return Ok(Some(page.continue_token));
        }
        let found = std::mem::take(&mut list.found);
        let Some(actor) = self.store.get_mut(key) else {
            return Ok(None);
        };
        let is_gone =
            |pod: &&PodRecord| !found.contains(&pod.uid) && pod.resource_version <= version;
        let pods = actor.pods.iter().map(|(_, pod)| pod);
        let gone: Vec<Uid> = pods.filter(is_gone).map(|pod| pod.uid).collect();
        let job_pods = actor.job_pods_mut();
        job_pods.list = None;
        job_pods.known_at = job_pods.known_at.max(version);
        for pod in gone {
            self.forget_pod(key, pod);
        }
        Ok(None)
    }

    fn job_pod_list(&mut self, key: ActorKey) -> Option<&mut JobPodList> {
        self.store.get_mut(key)?.job_pods_mut().list.as_mut()
    }

    /// Removes a Pod that a list of its Job's Pods does not have.
    fn forget_pod(&mut self, key: ActorKey, pod: Uid) {
        let Some(actor) = self.store.get(key) else {
            return;
        };
        let id = Arc::clone(&actor.id);
        let told = (self.rounds.claims).handle_pod_gone(pod, &id.key.namespace);
        self.store.delete_pod(pod, None);
        self.rounds.claims.settle(told);
    }
}
