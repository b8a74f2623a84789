//! How long the thread rests when it has nothing to do, so that more has come when it wakes.
//!
//! To be woken for each answer costs several times what is then done with it: the machine has done
//! other things meanwhile, and its caches are full of them. Where many writes wait for their answers,
//! a short rest delays nothing that matters, and several are taken in at once, as network cards do with
//! packets.
//!
//! Must not: be used with more than one thread; it would put to sleep who has work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// No rest is longer: whoever waits for this thread, another tenant's Job, a probe, a timer, waits so long.
const LONGEST: Duration = Duration::from_millis(10);

/// A rest is this part of the time that an answer takes.
const PART: u32 = 8;

/// With fewer writes under way there is no rest: hardly two answers would come in one.
const MANY: usize = 16;

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

    /// From now on answers take so long, and so many are waited for.
    pub(super) fn adapt(&self, took: Duration, under_way: usize) {
        let rest = match under_way < MANY {
            true => Duration::ZERO,
            false => (took / PART).min(LONGEST),
        };
        let micros = u64::try_from(rest.as_micros()).unwrap_or(u64::MAX);
        self.0.store(micros, Ordering::Relaxed);
    }
}
