//! Does what is to be done to Pods outside of any Job's turn: frees, adopts, releases them.
//!
//! A Job's round is one live look at the Job, if there is a Pod to adopt, then the patches. Rounds
//! of different Jobs do not wait for each other: what the server refuses to one holds up no other.
//!
//! Must not: decide what is to be done, or when it is tried again: see
//! [`Claims`](crate::ownership::Claims).

use std::sync::Arc;

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::sync::watch;

use crate::{
    clock::Clock,
    cluster::Patch,
    model::Uid,
    ownership::{Answer, Claimed, Orphan, Round},
    wire::{self, ApiError, decode_job, paths},
};

use super::{ownership::Ownership, writer::Writer};

/// How many patches of one round, and how many of Pods that are freed, may be under way at once.
const PATCHES_AT_ONCE: usize = 16;

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Chores {
    pub(super) writer: Writer,
    pub(super) ownership: Arc<Ownership>,
    pub(super) clock: Clock,
}

/// A chore that was tried.
enum Tried {
    Round(Round, Vec<(Uid, Answer)>),
    Free(Uid, bool),
}

/// What a round does to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errand {
    /// `stays`: the Job was seen to be there and to stay.
    Adopt {
        stays: bool,
    },
    Release,
}

impl Chores {
    /// Does chores for ever, once the caches are filled.
    pub(super) async fn run(self, mut ready: watch::Receiver<bool>) {
        if ready.wait_for(|ready| *ready).await.is_err() {
            return;
        }
        let mut rounds = FuturesUnordered::new();
        let mut frees = FuturesUnordered::new();
        loop {
            let due = self.ownership.take(|claims| {
                claims.handle_timeout(self.clock.now().monotonic);
                while let Some(round) = claims.poll_round() {
                    rounds.push(self.go_round(round));
                }
                while frees.len() < PATCHES_AT_ONCE
                    && let Some(orphan) = claims.poll_free()
                {
                    frees.push(self.free(orphan));
                }
                while let Some(job) = claims.poll_resumed() {
                    self.writer.schedule.add(Arc::new(job));
                }
                claims.poll_timeout()
            });
            let tried = tokio::select! {
                Some(tried) = rounds.next() => Some(tried),
                Some(tried) = frees.next() => Some(tried),
                () = self.ownership.changed() => None,
                () = self.clock.sleep_until(due) => None,
            };
            self.take_in(tried);
        }
    }

    fn take_in(&self, tried: Option<Tried>) {
        let now = self.clock.now().monotonic;
        self.ownership.take(|claims| match tried {
            Some(Tried::Round(round, answers)) => claims.handle_round(&round, &answers, now),
            Some(Tried::Free(pod, freed)) => claims.handle_freed(pod, freed, now),
            None => claims.handle_timeout(now),
        });
    }

    async fn free(&self, orphan: Orphan) -> Tried {
        let freed = self.writer.release_orphan(&orphan).await;
        if let Err(error) = &freed {
            tracing::warn!(?orphan, %error, "not freed; to be tried again");
        }
        Tried::Free(orphan.uid, freed.is_ok())
    }

    async fn go_round(&self, round: Round) -> Tried {
        let answers = self.answers(&round).await;
        Tried::Round(round, answers)
    }

    async fn answers(&self, round: &Round) -> Vec<(Uid, Answer)> {
        let stays = round.adopt.is_empty() || self.job_stays(round).await;
        let mut waiting = Vec::new();
        waiting.extend(round.adopt.iter().map(|pod| (pod, Errand::Adopt { stays })));
        waiting.extend(round.release.iter().map(|pod| (pod, Errand::Release)));
        let mut under_way = FuturesUnordered::new();
        let mut answers = Vec::with_capacity(waiting.len());
        loop {
            while under_way.len() < PATCHES_AT_ONCE
                && let Some((pod, errand)) = waiting.pop()
            {
                under_way.push(self.patch(round, pod, errand));
            }
            match under_way.next().await {
                Some(answer) => answers.push(answer),
                None => return answers,
            }
        }
    }

    /// Whether the Job is there and stays: the server is asked, for what is known here may be late.
    async fn job_stays(&self, round: &Round) -> bool {
        let path = paths::job(&round.job.key.namespace, &round.job.key.name);
        let client = &self.writer.client;
        let whose = (round.job.key.namespace.as_str(), round.job.uid);
        let look = || client.get(&path);
        let answer = self.writer.call(whose, "get", "jobs", look).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(job = %round.job.key, %error, "no live look; nothing is adopted");
                return false;
            }
        };
        let job = std::str::from_utf8(&answer).ok();
        let job = job.and_then(|json| decode_job(json).ok());
        job.is_some_and(|found| found.job.uid == round.job.uid && !found.job.deleting)
    }

    async fn patch(&self, round: &Round, pod: &Claimed, errand: Errand) -> (Uid, Answer) {
        let finalizer = self.writer.finalizer;
        let body = match errand {
            Errand::Adopt { stays: false } => return (pod.pod, Answer::Failed),
            Errand::Adopt { stays: true } => wire::adoption_patch(pod.pod, &round.job, finalizer),
            Errand::Release => wire::release_patch(pod.pod, round.job.uid, finalizer),
        };
        let path = paths::pod(&round.job.key.namespace, &pod.name);
        let client = &self.writer.client;
        let patch = || client.patch(&path, Patch::Strategic, body.clone());
        let whose = (round.job.key.namespace.as_str(), round.job.uid);
        let answer = match self.writer.call(whose, "patch", "pods", patch).await {
            // Without a version any news of the Pod will do.
            Ok(answer) => Answer::Done(wire::ack_of_write(&answer).map_or(0, |(_, at, _)| at)),
            Err(error) if errand.is_void(&error) => Answer::Ignored,
            Err(error) => {
                tracing::warn!(job = %round.job.key, pod = %pod.name, %error, "to be tried again");
                Answer::Failed
            }
        };
        (pod.pod, answer)
    }
}

impl Errand {
    /// Whether an error says that there is nothing to be done: the Pod is gone, or another has its name
    /// by now; or it cannot be released as it is.
    fn is_void(self, error: &ApiError) -> bool {
        error.is_of_no_such_object() || (self == Self::Release && error.code == 422)
    }
}
