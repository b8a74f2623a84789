//! Reads of what was.
//!
//! Responsible for: answering a read as it would have been answered some changes ago. Must not: change
//! anything.

use super::{ApiServer, Call, Garbage, Kind, Prepared, Reply, Rng};
use crate::model::Time;

impl Prepared {
    /// Whether it reads an object or a list.
    pub fn is_read(&self) -> bool {
        self.kind_read().is_some()
    }

    fn kind_read(&self) -> Option<Kind> {
        match &self.call {
            Ok(Call::Get(target) | Call::List(target)) => Some(target.kind),
            _ => None,
        }
    }
}

impl ApiServer {
    /// Answers a read as of so many changes of its kind ago, as far back as events are kept; all else
    /// is answered as ever. What is read so is listed under the version of then.
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
