//! Reads one Job's Pods from the API server when their watch lags behind a status that another controller has written.
//!
//! A Pod that such a status counts may still seem to wait for that, until the Pods are known as of its version. In a
//! quiet cluster the watch only comes that far with its next bookmark, up to a minute later. A consistent list of the
//! Job's Pods is as new as the status at once.
//!
//! Must not: count Pods.

use std::{sync::Arc, time::Duration};

use hashbrown::HashSet;

use crate::{
    machine::CallResult,
    model::{Exponential, JobId, Monotonic, Now, PodRecord, Uid},
    wire::{ApiError, Call, ExpectedAnswer, PodDecoder, decode_list_page, paths},
};

use super::{
    Shard,
    actor::{Actor, Turn},
    outbox::{Caller, Named},
    store::ActorKey,
};

/// The most Pods of one answer.
const PAGE_SIZE: usize = 500;

/// The server is asked when the watch takes longer than this. It is nearly always quicker where anything happens.
const WATCH_MAY_TAKE: Duration = Duration::from_millis(100);

/// A wait for the Job's Pods as of a version, and what was read of them.
#[derive(Debug, Default)]
pub(super) struct JobPods {
    /// When the server may be asked; none while nothing waits.
    due: Option<Monotonic>,
    list: Option<JobPodList>,
    /// Lists in a row that were of no use.
    failures: u32,
    /// All Pods of the Job are known as of this version.
    pub(super) known_at: u64,
}

/// A list under way.
#[derive(Debug, Default)]
struct JobPodList {
    version: u64,
    found: HashSet<Uid>,
}

impl JobPods {
    /// Waits for the Pods; returns whether the server is to be asked now, and when to look again.
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

    /// Takes in that nothing waits any more.
    pub(super) fn stop_waiting(&mut self) {
        (self.due, self.failures) = (None, 0);
    }

    /// Returns true if a turn waits for the Pods.
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
    /// Returns true if a Job's status was written by another controller, and Pods are not known as of then: one that it has
    /// counted may still seem to wait for that, and one that it lists may not be known yet.
    pub(super) fn is_ahead_of_pods(&self, pods_seen: u64) -> bool {
        // Those of a Job that is gone are let go, and not counted.
        let job = self.job.as_ref().filter(|_| !self.gone);
        let status = job.map(|job| &job.status);
        status.is_some_and(|status| status.uncounted.is_some()) && self.status_since > pods_seen
    }

    /// Waits until Pods are known as of the Job's status: by the watch, or by a list if that takes too long.
    pub(super) fn wait_for_pods(&mut self, now: Monotonic, turn: &mut Turn) {
        let (lists_pods, again) = self.job_pods_mut().wait(now);
        turn.lists_pods = lists_pods;
        turn.wake_at = again.map(Into::into);
    }

    fn job_pods_mut(&mut self) -> &mut JobPods {
        self.job_pods.get_or_insert_default()
    }

    /// As of which version all Pods of the Job are known, as far as they were listed for it alone.
    pub(super) fn pods_known_at(&self) -> u64 {
        self.job_pods.as_ref().map_or(0, |read| read.known_at)
    }

    /// Returns true if it waits for Pods as new as the Job's status.
    pub(super) fn waits_for_pods(&self) -> bool {
        self.job_pods.as_ref().is_some_and(|read| read.is_waiting())
    }

    /// Forgets what was read of the Job's Pods.
    pub(super) fn forget_pods(&mut self) {
        self.job_pods = None;
    }
}

impl Shard {
    /// Asks the server for a page of a Job's Pods; the first, if the token is empty.
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

    /// Takes in a page of a Job's Pods.
    pub(super) fn job_pods_listed(&mut self, key: ActorKey, result: CallResult, now: Now) {
        match self.take_page(key, result) {
            Ok(Some(token)) => self.list_job_pods(key, &token),
            Ok(None) => self.mark(key),
            Err(error) => {
                let retry = self.settings.limits.retry_backoff;
                if let Some(actor) = self.store.get_mut(key) {
                    tracing::debug!(job = %actor.id.key, %error, "Pods of a Job not listed");
                    actor.job_pods_mut().fail(retry, now.monotonic);
                    self.mark(key);
                }
            }
        }
    }

    /// Takes in a page; the token of the next, if there is one.
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
            // One that cannot be read is gone, as for the watch.
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

    /// Forgets a Pod that a list of its Job's Pods does not have.
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
