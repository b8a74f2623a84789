//! The claims on Pods, shared: informers tell what they see, workers ask which Jobs must wait, the
//! chores are done as they come up.
//!
//! Must not: decide; see [`Claims`]. Its lock is taken last: whoever holds it takes no other.

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    model::{Exponential, JobId},
    ownership::{Claims, Told},
};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Ownership {
    claims: Mutex<Claims>,
    changed: Notify,
}

impl Ownership {
    pub(super) fn new(retry: Exponential) -> Self {
        Self {
            claims: Mutex::new(Claims::new(retry)),
            changed: Notify::new(),
        }
    }

    /// Runs with the claims; whoever does the chores learns if there is something new.
    pub(super) fn with<T>(&self, run: impl FnOnce(&mut Claims) -> T) -> T {
        let mut claims = self.claims.lock();
        let result = run(&mut claims);
        if claims.has_something() {
            self.changed.notify_one();
        }
        result
    }

    /// Runs with the claims, for whoever does the chores: what it leaves waits for its next look.
    pub(super) fn take<T>(&self, run: impl FnOnce(&mut Claims) -> T) -> T {
        run(&mut self.claims.lock())
    }

    /// Takes in that the store has the news by which this was told.
    pub(super) fn settle(&self, told: Told) {
        if !told.is_empty() {
            self.with(|claims| claims.settle(told));
        }
    }

    /// Whether a Job must wait. To be asked with its cell locked: then the store has no news of the
    /// Job's Pods that the claims do not have.
    pub(super) fn holds(&self, job: &JobId) -> bool {
        self.claims.lock().holds(job)
    }

    /// Waits until there is something to be done.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}
