//! Dispatches requests and returns replies.
//!
//! Responsible for: calling the part of the server that serves a call. Must not: serve calls itself.

use super::{compute_use::ComputeUse, dependents::Garbage, reply::Reply, state::ApiServer};
use crate::{
    apiserver::{
        http::{ApiCall, Prepared, Request, prepare},
        object::Result,
        print::Response,
    },
    model::Time,
    rng::Rng,
};

impl ApiServer {
    /// Answers one request.
    pub fn handle(&mut self, request: Request<'_>, now: Time) -> Reply {
        self.handle_prepared(prepare(request), now)
    }

    /// Answers a prepared request. `prepare` can run outside of the caller's lock.
    pub fn handle_prepared(&mut self, prepared: Prepared, now: Time) -> Reply {
        match prepared.call.and_then(|call| self.dispatch(call, now)) {
            Ok(reply) => reply,
            Err(error) => Reply::Complete(error.into()),
        }
    }

    /// Answers a read as of `changes` changes of its kind ago, as far back as events are kept. A list has the
    /// resourceVersion of that time. Other calls are answered as usual.
    pub fn handle_stale(&mut self, prepared: Prepared, changes: u64, now: Time) -> Reply {
        let Some(kind) = prepared.kind_read() else {
            return self.handle_prepared(prepared, now);
        };
        let mut past = Self {
            store: self.store.as_of(kind, changes),
            garbage: Garbage::default(),
            rng: Rng::new(0),
            compute: ComputeUse::default(),
            root_ca: String::new(),
            pod_output: self.pod_output.clone(),
        };
        past.handle_prepared(prepared, now)
    }

    fn dispatch(&mut self, call: ApiCall, now: Time) -> Result<Reply> {
        let response = match call {
            ApiCall::Answered(response) => response,
            ApiCall::Get(target) => Response::object(200, self.find(&target)?, target.form, now),
            ApiCall::Log(target) => self.pod_log(&target)?,
            ApiCall::List(target) => self.list(&target, now)?,
            ApiCall::Watch(target) => return Ok(Reply::Watch(Box::new(self.watch(&target)?))),
            ApiCall::Create(target, body) => self.create(target, *body, None, now)?,
            ApiCall::Update(target, body) => self.update(target, *body, now)?,
            ApiCall::Patch(target, patch) => self.patch(target, &patch, now)?,
            ApiCall::Delete(target, options) => self.delete(&target, &options, now)?,
            ApiCall::DeleteCollection(target, options) => {
                self.delete_collection(&target, &options, now)?
            }
            ApiCall::Bind(target, body) => self.bind(&target, &body, now)?,
            ApiCall::Evict(target, body, options) => self.evict(&target, &body, &options, now)?,
        };
        Ok(Reply::Complete(response))
    }
}
