//! Detects status writes that a restored API server has lost.
//!
//! Finalizers are removed once a status records their Pods. A server restored from a backup without that status must
//! record the Pod once more. Without the finalizer nothing would keep the Pod until then. A status that a list or watch
//! has shown is safe, because informers detect such a restore. A status known only from a response is in doubt once a
//! connection breaks: the Job is read again before its finalizers are removed.
//!
//! Must not: decide the consequences of an ended history.

use std::sync::Arc;

use lakh_model::JobId;

use crate::{informer::Kind, machine::CallResult};

use super::{
    Shard,
    actor::Actor,
    outbox::{Caller, Named},
    store::ActorKey,
    unconfirmed::Unconfirmed,
};

/// Returns true if the cached status of an actor's Job may not be in the server's current data.
pub(super) fn is_doubted(unconfirmed: &Unconfirmed, actor: &Actor) -> bool {
    !actor.gone && unconfirmed.has(Kind::Job, actor.id.uid)
}

impl Shard {
    /// Handles a broken connection: versions known only from responses are in doubt from now on.
    pub(super) fn doubt(&mut self) {
        let mut scopes: Vec<_> = self.namespaces.iter().cloned().map(Some).collect();
        if scopes.is_empty() {
            scopes.push(None);
        }
        for scope in scopes {
            let newer = self.store.unseen_jobs(scope.as_deref());
            (self.unconfirmed).told(Kind::Job, scope, newer.into_iter());
        }
    }

    /// Records a status write that produced this version, before any watch has shown it.
    pub(super) fn status_told(&mut self, job: &JobId, version: u64) {
        if self.is_heard {
            // The write succeeded on top of the cached version, so that one is confirmed.
            self.unconfirmed.shown(Kind::Job, job.uid, version);
            return;
        }
        let namespace = self.scope_of(&job.key.namespace);
        let told = [(job.uid, version)].into_iter();
        self.unconfirmed.told(Kind::Job, namespace, told);
    }

    /// Reads the Jobs of these actors from the server, unless a read is in flight.
    pub(super) fn ask_for(&mut self, actors: Vec<ActorKey>) {
        for key in actors {
            let Some(actor) = self.store.get(key) else {
                continue;
            };
            let JobId { uid, key: name } = &*actor.id;
            if let Some(version) = self.unconfirmed.ask(Kind::Job, *uid) {
                let caller = Caller::Comparison(key, version);
                (self.outbox).ask((&name.namespace, *uid), Named::get_job(name), caller);
            }
        }
    }

    /// Handles the read of a Job. Its `version` is in doubt.
    pub(super) fn asked_for(&mut self, actor: ActorKey, version: u64, result: CallResult) {
        let Some(job) = self.store.get(actor).map(|actor| Arc::clone(&actor.id)) else {
            return;
        };
        self.unconfirmed.answered(Kind::Job, job.uid);
        self.compare_job(actor, &job, version, result);
    }

    /// Compares the server's Job with a version from an earlier response, to detect a restore. Returns the server's
    /// version if it is the same Job.
    pub(super) fn compare_job(
        &mut self,
        actor: ActorKey,
        job: &JobId,
        version: u64,
        result: CallResult,
    ) -> Option<u64> {
        let found = result
            .ok()
            .and_then(|answer| lakh_wire::ack_of_write(&answer));
        let (uid, found, _) = found?;
        if uid != job.uid {
            // Another Job has the name, so this one is gone, even if the watch has not shown it.
            self.store.delete_job(job);
            return None;
        }
        if found >= version {
            self.unconfirmed.shown(Kind::Job, uid, found);
        } else if self.store.get(actor).is_some() {
            tracing::warn!(job = %job.key, found, version, "the API server returned an older object than before, as after a restored backup; relisting everything");
            self.end_history();
        }
        Some(found)
    }
}
