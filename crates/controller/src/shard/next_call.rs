//! Returns a shard's next request. Builds each write as late as possible, from the state when it is sent.
//!
//! Must not: choose the next write, that is the outbox.

use lakh_model::Now;
use lakh_wire::ApiError;

use crate::machine::Request;

use super::{
    Shard,
    comparison::is_doubted,
    outbox::{Made, Unsent},
    writes::{Op, Write, WriteStep},
};

impl Shard {
    /// Returns the next request that may be sent.
    pub(super) fn next_call(&mut self, now: Now) -> Option<Request> {
        let Self {
            outbox,
            gangs,
            settings,
            store,
            is_heard,
            unconfirmed,
            for_template,
            ..
        } = self;
        let (gangs, finalizer) = (gangs.as_ref(), settings.mode.finalizer());
        let (mut unsent, mut doubted) = (Vec::new(), Vec::new());
        let mut make = |write: &mut Write| {
            let template = match write.op {
                Op::Create { .. } => store.templates.pods_of(write.job.uid),
                _ => None,
            };
            let actor = store.get(write.actor);
            // After a resync there is no actor: the event that the write is based on may never have happened.
            let is_wanted = actor.is_some_and(|actor| actor.wants(&write.op));
            // A restored server may have to record the Pod once more, and without its finalizer the Pod may be gone by
            // then.
            let frees = is_wanted && matches!(write.op, Op::RemoveFinalizer(..));
            let is_doubted = frees && actor.is_some_and(|actor| is_doubted(unconfirmed, actor));
            doubted.extend(is_doubted.then_some(write.actor));
            let may_go = is_wanted && (*is_heard && !is_doubted || !frees);
            if !may_go {
                return Made::Nothing;
            }
            let is_creation = matches!(write.op, Op::Create { .. });
            let is_reading = matches!(write.step, WriteStep::Reading);
            if is_creation && (is_reading || template.is_none()) {
                return for_template.read(write);
            }
            let call = write.call(gangs, finalizer, template.as_deref());
            call.map_or(Made::Nothing, Made::Call)
        };
        let request = outbox.poll_request(now.monotonic, &mut make, &mut unsent);
        self.ask_for(doubted);
        for unsent in unsent {
            match unsent {
                Unsent::Waits(write, term) => {
                    self.for_template.wait(*write, term);
                }
                Unsent::Write(write) => {
                    if matches!(write.step, WriteStep::Reading) {
                        self.release(write.actor);
                    }
                    let outcome = write.unsent();
                    self.over(&write, outcome, now);
                }
                Unsent::Call(caller) => {
                    let error = ApiError::not_sent("given up: another may have written meanwhile");
                    self.answered(caller, Err(error), now);
                }
            }
        }
        request
    }
}
