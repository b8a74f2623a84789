//! Adopts, releases and frees Pods outside of their Jobs' syncs.
//!
//! A Job's round is one read of the Job from the server, if there is a Pod to adopt, then the patches. Rounds of
//! different Jobs run concurrently: a refused patch delays no other Job.
//!
//! Must not: decide which Pods to patch, or when to retry, that is [`Claims`]; or wait, or read a clock.

use hashbrown::HashMap;

use lakh_core::ownership::{Claimed, Claims, Orphan, PatchAnswer, Round};
use lakh_model::{JobId, Limits, Monotonic, Now, Timeout, Uid};
use lakh_wire::{self, ApiError, Call, ErrorKind, ExpectedAnswer, Patch, decode_job, paths};

use crate::machine::CallResult;

use super::outbox::{Caller, Named, Outbox};

/// The purpose of a request. Rounds have numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chore {
    /// Reads the round's Job from the server.
    Look(u64),
    /// Adopts a Pod for the round's Job, or releases it.
    Patch(u64, Uid, Errand),
    /// Removes our finalizer from a Pod without an owner.
    Free(Uid),
}

/// The rounds in flight, and the claims that start them.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// The claims. After each event for them [`Rounds::work`] must be called.
    pub(super) claims: Claims,
    finalizer: &'static str,
    /// The maximum number of patches in flight, per round and for freed Pods.
    max_patches: usize,
    under_way: HashMap<u64, PatchUnderWay>,
    frees: HashMap<Uid, Orphan>,
    /// The number of the latest round.
    last: u64,
    /// When the claims have a retry due, as of the last poll.
    due: Option<Monotonic>,
}

/// A round in flight.
#[derive(Debug)]
struct PatchUnderWay {
    round: Round,
    /// The number of Pods still to adopt, at the front of the list.
    to_adopt: usize,
    /// The same for Pods to release.
    to_release: usize,
    /// Pods with a patch in flight.
    patching: Vec<Claimed>,
    answers: Vec<(Uid, PatchAnswer)>,
}

/// The kind of a round's patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// The server has confirmed that the Job exists and is not being deleted.
    Adopt,
    Release,
}

impl Rounds {
    /// Creates it with empty claims.
    pub(super) fn new(limits: &Limits, finalizer: &'static str) -> Self {
        Self {
            claims: Claims::new(limits.retry_backoff),
            finalizer,
            max_patches: limits.max_pod_writes as usize,
            ..Self::default()
        }
    }

    /// Starts due rounds and patches. Returns false if there were none. `resumed` gets the Jobs that are no longer on
    /// hold. Requires that all kinds are synced.
    pub(super) fn work(&mut self, outbox: &mut Outbox, now: Now, resumed: &mut Vec<JobId>) -> bool {
        self.claims.handle_timeout(now.monotonic);
        let mut has_begun = false;
        while let Some(round) = self.claims.poll_round() {
            self.begin(round, outbox, now.monotonic);
            has_begun = true;
        }
        while self.frees.len() < self.max_patches
            && let Some(orphan) = self.claims.poll_free()
        {
            self.free(orphan, outbox);
            has_begun = true;
        }
        while let Some(job) = self.claims.poll_resumed() {
            resumed.push(job);
            has_begun = true;
        }
        self.due = self.claims.poll_timeout();
        has_begun
    }

    fn begin(&mut self, round: Round, outbox: &mut Outbox, now: Monotonic) {
        self.last += 1;
        let number = self.last;
        let job = round.job.clone();
        let under_way = PatchUnderWay {
            to_adopt: round.adopt.len(),
            to_release: round.release.len(),
            round,
            patching: Vec::new(),
            answers: Vec::new(),
        };
        if under_way.to_adopt == 0 {
            return self.go_on(number, under_way, outbox, now);
        }
        self.under_way.insert(number, under_way);
        let (look, caller) = (Named::get_job(&job.key), Caller::Chore(Chore::Look(number)));
        outbox.ask((&job.key.namespace, job.uid), look, caller);
    }

    fn free(&mut self, orphan: Orphan, outbox: &mut Outbox) {
        let path = paths::pod(&orphan.namespace, &orphan.name);
        let body = lakh_wire::freeing_patch(orphan.uid, self.finalizer);
        let patch = Call::patch(path, Patch::Strategic, body);
        let patch = Named::new("patch", "pods", patch, ExpectedAnswer::OfUid(orphan.uid));
        let caller = Caller::Chore(Chore::Free(orphan.uid));
        outbox.ask((&orphan.namespace, orphan.uid), patch, caller);
        self.frees.insert(orphan.uid, orphan);
    }

    /// Handles a response. The caller must call [`Rounds::work`] afterwards.
    pub(super) fn answer(
        &mut self,
        chore: &Chore,
        result: CallResult,
        outbox: &mut Outbox,
        now: Now,
    ) {
        let now = now.monotonic;
        let number = match chore {
            Chore::Look(number) | Chore::Patch(number, ..) => *number,
            Chore::Free(pod) => return self.freed(*pod, result, now),
        };
        let Some(mut under_way) = self.under_way.remove(&number) else {
            return;
        };
        match chore {
            Chore::Look(_) => {
                if !job_stays(&under_way.round.job, result) {
                    under_way.adopt_none();
                }
            }
            Chore::Patch(_, pod, errand) => under_way.patched(*pod, *errand, result),
            Chore::Free(_) => {}
        }
        self.go_on(number, under_way, outbox, now);
    }

    /// Handles the response to the freeing of a Pod. A deleted Pod counts as freed.
    fn freed(&mut self, pod: Uid, result: CallResult, now: Monotonic) {
        let Some(orphan) = self.frees.remove(&pod) else {
            return;
        };
        let error = result.err().filter(|error| !error.is_of_no_such_object());
        if let Some(error) = &error {
            tracing::debug!(?orphan, %error, "could not remove the finalizer of an orphaned Pod; will retry");
        }
        self.claims.handle_freed(pod, error.is_none(), now);
    }

    /// Sends as many patches as allowed, and ends the round when all have a response.
    fn go_on(
        &mut self,
        number: u64,
        mut under_way: PatchUnderWay,
        outbox: &mut Outbox,
        now: Monotonic,
    ) {
        while under_way.patching.len() < self.max_patches
            && let Some((pod, errand)) = under_way.next()
        {
            let job = &under_way.round.job;
            let body = match errand {
                Errand::Adopt => lakh_wire::adoption_patch(pod.pod, job, self.finalizer),
                Errand::Release => lakh_wire::release_patch(pod.pod, job.uid, self.finalizer),
            };
            let chore = Chore::Patch(number, pod.pod, errand);
            let path = paths::pod(&job.key.namespace, &pod.name);
            let patch = Call::patch(path, Patch::Strategic, body);
            let patch = Named::new("patch", "pods", patch, ExpectedAnswer::OfUid(pod.pod));
            outbox.ask((&job.key.namespace, job.uid), patch, Caller::Chore(chore));
            under_way.patching.push(pod);
        }
        if under_way.patching.is_empty() {
            let PatchUnderWay { round, answers, .. } = &under_way;
            self.claims.handle_round(round, answers, now);
        } else {
            self.under_way.insert(number, under_way);
        }
    }

    /// Returns when to call [`Rounds::work`] without any event, as of the last call.
    pub(super) fn poll_timeout(&self) -> Timeout {
        self.due.into()
    }
}

impl PatchUnderWay {
    /// Returns the next Pod to patch.
    fn next(&mut self) -> Option<(Claimed, Errand)> {
        let (left, pods, errand) = match self.to_release {
            0 => (&mut self.to_adopt, &self.round.adopt, Errand::Adopt),
            _ => (&mut self.to_release, &self.round.release, Errand::Release),
        };
        *left = left.checked_sub(1)?;
        Some((pods[*left].clone(), errand))
    }

    /// Fails all adoptions, because the Job is being deleted, or its state is unknown.
    fn adopt_none(&mut self) {
        self.to_adopt = 0;
        let pods = self.round.adopt.iter();
        let failed = pods.map(|pod| (pod.pod, PatchAnswer::Failed));
        self.answers.extend(failed);
    }

    /// Handles the response to a patch.
    fn patched(&mut self, pod: Uid, errand: Errand, result: CallResult) {
        let mut patching = self.patching.iter();
        let Some(at) = patching.position(|patching| patching.pod == pod) else {
            return;
        };
        let pod = self.patching.swap_remove(at);
        let answer = match result.map(|answer| lakh_wire::ack_of_write(&answer)) {
            Ok(Some((_, version, _))) => PatchAnswer::Done(version),
            Ok(None) => PatchAnswer::Unknown,
            Err(error) if errand.is_void(&error) => PatchAnswer::Ignored,
            Err(error) => {
                let job = &self.round.job.key;
                tracing::debug!(%job, pod = %pod.name, %error, "could not adopt or release a Pod; will retry");
                match error.kind {
                    ErrorKind::Failed | ErrorKind::GivenUp => PatchAnswer::Unknown,
                    _ => PatchAnswer::Failed,
                }
            }
        };
        self.answers.push((pod.pod, answer));
    }
}

impl Errand {
    /// Returns true if the error means that there is nothing to do: the Pod is gone or another one has its name, or it
    /// cannot be released as it is.
    fn is_void(self, error: &ApiError) -> bool {
        error.is_of_no_such_object() || (self == Self::Release && error.code == 422)
    }
}

/// Returns true if the Job exists and is not being deleted, according to the server: the cache may be stale.
fn job_stays(job: &JobId, result: CallResult) -> bool {
    let answer = match result {
        Ok(answer) => answer,
        Err(error) => {
            tracing::warn!(job = %job.key, %error, "could not re-read the Job before adopting Pods; will retry");
            return false;
        }
    };
    let found = std::str::from_utf8(&answer).ok();
    let found = found.and_then(|json| decode_job(json).ok());
    found.is_some_and(|found| found.job.uid == job.uid && !found.job.deleting)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request that the API server will never accept is not repeated.
    #[test]
    fn a_release_that_is_invalid_is_given_up() {
        let invalid = ApiError::from_response(422, b"{}", None);
        assert!(Errand::Release.is_void(&invalid));
        assert!(!Errand::Adopt.is_void(&invalid));
        let forbidden = ApiError::from_response(403, b"{}", None);
        assert!(!Errand::Release.is_void(&forbidden));
    }
}
