//! Holds Pod creations without their Job's template in memory: one of them reads the Job, and the others wait for it.
//!
//! The creation that reads keeps its permit, so templates in flight have the same bound as writes. Waiting creations
//! hold no permit.
//!
//! Must not: decide which templates are kept.

use std::sync::Arc;

use hashbrown::HashMap;

use lakh_core::decide::{CreateError, NewPod, Outcome};
use lakh_model::PodGroup;
use lakh_wire::decode_job;

use crate::machine::CallResult;

use super::{
    Shard,
    outbox::{Made, Named, Place},
    store::ActorKey,
    templates::{Template, rendered},
    writes::{AnsweredWrite, Next, Write, WriteStep},
};

/// The waiting creations, with their terms, by the actor for which one reads.
#[derive(Debug, Default)]
pub(super) struct TemplateWaits(HashMap<ActorKey, Vec<(Write, u64)>>);

impl TemplateWaits {
    /// Makes a creation read its Job, or wait if another creation of the Job does.
    pub(super) fn read(&mut self, write: &mut Write) -> Made {
        let is_reading = matches!(write.step, WriteStep::Reading);
        if !is_reading && self.0.contains_key(&write.actor) {
            return Made::Wait;
        }
        self.0.entry(write.actor).or_default();
        write.step = WriteStep::Reading;
        Made::Call(Named::get_job(&write.job.key))
    }

    /// Adds a waiting creation.
    pub(super) fn wait(&mut self, write: Write, term: u64) {
        self.0.entry(write.actor).or_default().push((write, term));
    }

    /// Takes the creations that waited for this actor's template.
    fn take(&mut self, actor: ActorKey) -> Vec<(Write, u64)> {
        self.0.remove(&actor).unwrap_or_default()
    }

    /// Drops all waiting creations.
    pub(super) fn clear(&mut self) {
        self.0.values_mut().for_each(Vec::clear);
    }
}

impl Shard {
    /// Returns true if a write that holds a permit may create its Pod now.
    pub(super) fn may_begin(&self, write: &Write, place: &Place) -> bool {
        let actor = self.store.get(write.actor);
        let is_wanted = actor.is_some_and(|actor| actor.wants(&write.op));
        is_wanted && self.retirement.is_none() && self.outbox.is_of_this_term(place)
    }

    /// Queues the creations that waited for the Job's template.
    pub(super) fn release(&mut self, actor: ActorKey) {
        for (write, term) in self.for_template.take(actor) {
            let (job, rank) = (Arc::clone(&write.job), write.op.rank());
            self.outbox.push_of_term(term, &job, rank, write);
        }
    }
}

impl AnsweredWrite<'_> {
    /// Applies the Job from a GET and creates a Pod from its template. The Job must have the cached generation, because
    /// the machine's decision is based on it.
    pub(super) fn template_read(
        &mut self,
        pod: NewPod,
        group: Option<&PodGroup>,
        result: CallResult,
    ) -> Next {
        let shard = &mut *self.shard;
        shard.metrics.template_reads.inc();
        // The Job's backoff repeats the creation, with newer events by then.
        let refused = Next::Over(Outcome::PodNotCreated(pod.id(), CreateError::Refused));
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => {
                if !error.is_of_no_such_object() {
                    self.report_failure("FailedCreate", "reading the template for a Pod", &error);
                }
                return refused;
            }
        };
        let found = std::str::from_utf8(&answer).ok();
        let Some(found) = found.and_then(|json| decode_job(json).ok()) else {
            return refused;
        };
        let known = shard.store.job(&self.write.job);
        let is_known = known.is_some_and(|known| known.generation == found.job.generation);
        let template = found
            .template
            .filter(|_| is_known && found.job.uid == self.write.job.uid);
        let Some(template) = template else {
            return refused;
        };
        let template = rendered(&found.job, &template, shard.settings.mode.finalizer());
        let (namespace, job) = (&self.write.job.key.namespace, &found.job);
        let kept = Template::Pods(Arc::clone(&template));
        (shard.store.templates).keep(namespace, (job.uid, job.generation), kept);
        match self.write.creation(&template, pod, group) {
            Some((named, step)) => Next::Call(named, step),
            None => refused,
        }
    }
}
