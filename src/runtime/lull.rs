//! How long the thread rests when it has nothing to do, so that more has come when it wakes.
//!
//! To be woken for each answer costs several times what is then done with it: the machine has done
//! other things meanwhile, and its caches are full of them. Where many writes wait for their answers,
//! a short rest delays nothing that matters, and several are taken in at once, as network cards do with
//! packets.
//!
//! Must not: be used by more than one thread, it would put to sleep who has work; or know how long is good.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// See the module's text; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Lull(Arc<AtomicU64>);

impl Lull {
    /// Rests. To be called by a thread that has nothing to do, before it waits.
    pub fn rest(&self) {
        let micros = self.0.load(Ordering::Relaxed);
        if micros > 0 {
            std::thread::sleep(Duration::from_micros(micros));
        }
    }

    /// From now on it is to rest so long.
    pub(super) fn set(&self, rest: Duration) {
        let micros = u64::try_from(rest.as_micros()).unwrap_or(u64::MAX);
        self.0.store(micros, Ordering::Relaxed);
    }
}
