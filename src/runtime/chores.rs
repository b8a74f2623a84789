//! Does what is to be done to Pods outside of any Job's turn: frees, adopts, releases them.
//!
//! One after another, in the order in which they came up: a Pod that lost its owner is freed
//! before it is adopted, and so has its finalizer in the end. What fails is tried again later, if
//! it is still to be done then.
//!
//! Different from Kubernetes' controller: the Job is asked for before each adoption, not once for
//! all of a sync; and an adoption or release that fails does not hold the Job up.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};

use crate::{
    cluster::Patch,
    model::Exponential,
    wire::{self, ApiError, ErrorKind, decode_job, paths},
};

use super::{
    ownership::{Chore, Claim, Ownership},
    writer::Writer,
};

/// How long to wait before the next try.
const RETRY: Exponential = Exponential {
    base: Duration::from_secs(1),
    max: Duration::from_secs(60),
};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Chores {
    pub(super) writer: Writer,
    pub(super) ownership: Arc<Ownership>,
}

impl Chores {
    /// Does chores for ever, once the caches are filled.
    pub(super) async fn run(
        self,
        mut chores: mpsc::UnboundedReceiver<Chore>,
        mut ready: watch::Receiver<bool>,
    ) {
        if ready.wait_for(|ready| *ready).await.is_err() {
            return;
        }
        let mut later = FuturesUnordered::new();
        loop {
            let (chore, failures) = tokio::select! {
                Some(chore) = chores.recv() => (chore, 0),
                Some(again) = later.next() => again,
                else => return,
            };
            if !self.ownership.wants(&chore) {
                self.give_up(&chore);
                continue;
            }
            if let Err(error) = self.perform(&chore).await {
                tracing::warn!(?chore, %error, "to be tried again");
                self.give_up(&chore);
                later.push(async move {
                    sleep(RETRY.delay(failures + 1)).await;
                    (chore, failures + 1)
                });
            }
        }
    }

    /// No Job waits for an adoption that failed: it goes on with the Pods that it has.
    fn give_up(&self, chore: &Chore) {
        if let Chore::Adopt(claim) = chore {
            self.ownership.give_up(claim);
        }
    }

    async fn perform(&self, chore: &Chore) -> Result<(), ApiError> {
        match chore {
            Chore::Free(orphan) => {
                self.writer
                    .release_orphan(&orphan.namespace, &orphan.name)
                    .await
            }
            Chore::Adopt(claim) => self.adopt(claim).await,
            Chore::Release(claim) => self.release(claim).await,
        }
    }

    /// Adopts a Pod, if the Job is there and stays: the server is asked, for what is known here may
    /// be late.
    async fn adopt(&self, claim: &Claim) -> Result<(), ApiError> {
        if !self.job_stays(claim).await? {
            self.ownership.give_up(claim);
            return Ok(());
        }
        let finalizer = self.writer.finalizer;
        let body = wire::adoption_patch(claim.pod, claim.job, &claim.key, finalizer);
        let answer = match self.patch(claim, body).await {
            Err(error) if error.kind == ErrorKind::NotFound => {
                self.ownership.give_up(claim);
                return Ok(());
            }
            other => other?,
        };
        if let Some((_, version, _)) = wire::ack_of_write(&answer) {
            self.ownership.adopted(claim, version);
        }
        Ok(())
    }

    async fn job_stays(&self, claim: &Claim) -> Result<bool, ApiError> {
        let path = paths::job(&claim.key.namespace, &claim.key.name);
        let client = &self.writer.client;
        let answer = self.writer.call("get", "jobs", || client.get(&path)).await;
        let answer = match answer {
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        let job = std::str::from_utf8(&answer).ok();
        let job = job.and_then(|json| decode_job(json).ok());
        Ok(job.is_some_and(|found| found.job.uid == claim.job && !found.job.deleting))
    }

    async fn release(&self, claim: &Claim) -> Result<(), ApiError> {
        let body = wire::release_patch(claim.pod, claim.job, self.writer.finalizer);
        match self.patch(claim, body).await {
            // It is gone, or another Pod by now.
            Err(error) if error.kind == ErrorKind::NotFound || error.code == 422 => Ok(()),
            other => other.map(drop),
        }
    }

    async fn patch(
        &self,
        claim: &Claim,
        body: Vec<u8>,
    ) -> Result<crate::cluster::Answer, ApiError> {
        let path = paths::pod(&claim.key.namespace, &claim.name);
        let client = &self.writer.client;
        self.writer
            .call("patch", "pods", || {
                client.patch(&path, Patch::Strategic, body.clone())
            })
            .await
    }
}
