//! Reads of an older snapshot.
//!
//! Responsible for: answering a read as of some changes ago. Must not: change anything.

use super::{dependents::Garbage, reply::Reply, state::ApiServer};
use crate::{apiserver::http::request::Prepared, model::Time, rng::Rng};

impl ApiServer {
    /// Answers a read as of `changes` changes of its kind ago, as far back as events are kept. A list has the
    /// resource version of that time. Any other call is answered as ever.
    pub fn handle_stale(&mut self, prepared: Prepared, changes: u64, now: Time) -> Reply {
        let Some(kind) = prepared.kind_read() else {
            return self.handle_prepared(prepared, now);
        };
        let mut past = Self {
            store: self.store.as_of(kind, changes),
            garbage: Garbage::default(),
            rng: Rng::new(0),
        };
        past.handle_prepared(prepared, now)
    }
}
