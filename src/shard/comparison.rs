//! Whether the server still has a Job as its answers told.
//!
//! A status that names a Pod makes its finalizer go. If the server has been set back since to a backup in which that
//! status never was, it has to name the Pod once more, and without the finalizer nothing would hold the Pod until then. A
//! status of which a list or watch has told is proof against that, as informers compare what they told. One that only an
//! answer has told is doubted once a connection broke: the server is asked for the Job before a finalizer goes.
//!
//! Must not: decide what becomes of a history that has ended.

use std::sync::Arc;

use crate::{informer::Kind, machine::CallResult, model::JobId, wire};

use super::{
    Shard,
    actor::Actor,
    outbox::{Caller, Named},
    store::ActorKey,
    unconfirmed::Unconfirmed,
};

/// Whether the status of an actor's Job may be that of another history than the server tells by now.
pub(super) fn is_doubted(unconfirmed: &Unconfirmed, actor: &Actor) -> bool {
    !actor.gone && unconfirmed.has(Kind::Job, actor.id.uid)
}

impl Shard {
    /// A connection broke: what only answers have told is doubted from now on.
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

    /// A status was written, and its Job has this version since; no watch has shown it before.
    pub(super) fn status_told(&mut self, job: &JobId, version: u64) {
        if self.is_heard {
            // It was on top of what was known.
            self.unconfirmed.shown(Kind::Job, job.uid, version);
            return;
        }
        let namespace = self.scope_of(&job.key.namespace);
        let told = [(job.uid, version)].into_iter();
        self.unconfirmed.told(Kind::Job, namespace, told);
    }

    /// Asks the server for the Jobs of these actors, if it is not being asked already.
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

    /// Takes in the Job that the server has, where it told this version.
    pub(super) fn asked_for(&mut self, actor: ActorKey, version: u64, result: CallResult) {
        let Some(job) = self.store.get(actor).map(|actor| Arc::clone(&actor.id)) else {
            return;
        };
        self.unconfirmed.answered(Kind::Job, job.uid);
        self.compare_job(actor, &job, version, result);
    }

    /// Compares the Job that the server has with the version that it told: its data may be those of a backup.
    /// Returns the version that the server has, if it is this Job.
    pub(super) fn compare_job(
        &mut self,
        actor: ActorKey,
        job: &JobId,
        version: u64,
        result: CallResult,
    ) -> Option<u64> {
        let found = result.ok().and_then(|answer| wire::ack_of_write(&answer));
        let (uid, found, _) = found?;
        if uid != job.uid {
            // Another Job has its name, so it is gone, whatever the watch tells.
            self.store.delete_job(job);
            return None;
        }
        if found >= version {
            self.unconfirmed.shown(Kind::Job, uid, found);
        } else if self.store.get(actor).is_some() {
            tracing::warn!(job = %job.key, found, version, "the API server has older data; starting anew");
            self.end_history();
        }
        Some(found)
    }
}
