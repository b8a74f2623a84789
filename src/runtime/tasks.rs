//! Runs the controller's named loops, and reports which of them has ended or is stuck.
//!
//! All of them run as long as the controller does. When one ends or panics, the others would go on, look alive and do
//! half the work. So the end is reported, and the process exits.
//!
//! Each loop has a pulse: a counter that is incremented before and after each poll. It is odd while the loop computes,
//! and even while it waits. A counter that is odd and does not change means a stuck loop: it spins, or blocks its
//! thread. A waiting loop counts as healthy however long it waits: it is not known here on which event. The runtime's
//! own pulse must always change, for it waits for a timer only.
//!
//! Must not: read a clock for each poll, or decide how to handle a stuck loop.

use std::{
    borrow::Cow,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::task::{Id, JoinError, JoinSet};

/// Interval of the runtime's own pulse, and at which all pulses are sampled.
pub(super) const BEAT: Duration = Duration::from_secs(1);

/// Number of equal samples after which a loop counts as stuck. The longest computations, those on a list of all Pods,
/// take far less than a second. Samples are counted, not seconds: a process that was paused as a whole has no stuck
/// loop.
const LOOKS: u32 = 10;

/// Name of a loop.
pub(super) type Name = Cow<'static, str>;

/// The running loops, by name, with their pulses.
#[derive(Debug)]
pub(super) struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, Name>,
    pulses: Arc<Pulses>,
}

/// A loop of the controller has ended, and with it the controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{task} {how}; the controller cannot continue without it")]
pub struct TaskEnded {
    task: Name,
    how: End,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum End {
    #[error("ended")]
    Returned,
    #[error("panicked: {0}")]
    Panicked(String),
}

impl End {
    fn of(result: Result<(), JoinError>) -> Self {
        let panic = result.err().map(JoinError::try_into_panic);
        let Some(Ok(panic)) = panic else {
            return Self::Returned;
        };
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Self::Panicked(text.unwrap_or_default().to_owned())
    }
}

impl Tasks {
    /// Starts without loops; their pulses are added to `pulses`.
    pub(super) fn new(pulses: &Arc<Pulses>) -> Self {
        Self {
            running: JoinSet::new(),
            names: HashMap::new(),
            pulses: Arc::clone(pulses),
        }
    }

    /// Starts a loop.
    pub(super) fn spawn(
        &mut self,
        name: impl Into<Name>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let name = name.into();
        let pulse = self.pulses.add(name.clone(), false);
        let handle = self.running.spawn(pulse.of(task));
        self.names.insert(handle.id(), name);
    }

    /// Returns the pulse of a loop that runs elsewhere; a task here reports its end.
    pub(super) fn pulse(&self, name: impl Into<Name>) -> Pulse {
        self.pulses.add(name.into(), false)
    }

    /// Starts a timer task that shows that the runtime runs its tasks and timers.
    pub(super) fn spawn_heart(&mut self) {
        let name = Name::Borrowed("runtime");
        let pulse = self.pulses.add(name.clone(), true);
        let beats = async {
            loop {
                tokio::time::sleep(BEAT).await;
            }
        };
        let handle = self.running.spawn(pulse.of(beats));
        self.names.insert(handle.id(), name);
    }

    /// Waits until a loop ends without a request to stop; forever if there is none.
    pub(super) async fn ended(&mut self) -> TaskEnded {
        let (id, result) = match self.running.join_next_with_id().await {
            Some(Ok((id, ()))) => (id, Ok(())),
            Some(Err(error)) => (error.id(), Err(error)),
            None => std::future::pending().await,
        };
        TaskEnded {
            task: self.names.remove(&id).unwrap_or_default(),
            how: End::of(result),
        }
    }

    /// Waits until all loops have ended after a request to stop.
    pub(super) async fn all_ended(&mut self) {
        while self.running.join_next().await.is_some() {}
    }

    /// Aborts all loops, wherever they are.
    pub(super) async fn shutdown(&mut self) {
        self.running.shutdown().await;
    }
}

/// The counter of one loop. Only its task changes it.
#[derive(Clone, Debug, Default)]
pub(super) struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// Runs a task with this pulse.
    pub(super) async fn of(self, task: impl Future<Output = ()>) {
        let mut task = pin!(task);
        poll_fn(|context| {
            self.beat();
            let polled = task.as_mut().poll(context);
            self.beat();
            polled
        })
        .await;
    }

    fn beat(&self) {
        let count = self.0.load(Ordering::Relaxed);
        self.0.store(count.wrapping_add(1), Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The pulses of all loops, and their last samples.
#[derive(Debug, Default)]
pub(super) struct Pulses(Mutex<Vec<WatchedLoop>>);

#[derive(Debug)]
struct WatchedLoop {
    name: Name,
    pulse: Pulse,
    /// It must change even while nothing is computed.
    must_beat: bool,
    seen: u64,
    /// Number of consecutive equal samples.
    same: u32,
}

impl Pulses {
    fn add(&self, name: Name, must_beat: bool) -> Pulse {
        let pulse = Pulse::default();
        self.0.lock().push(WatchedLoop {
            name,
            pulse: pulse.clone(),
            must_beat,
            seen: 0,
            same: 0,
        });
        pulse
    }

    /// Samples all pulses; call it every [`BEAT`].
    pub(super) fn look(&self) {
        for watched in self.0.lock().iter_mut() {
            let count = watched.pulse.count();
            let is_still = watched.must_beat || count % 2 == 1;
            if count == watched.seen && is_still {
                watched.same = watched.same.saturating_add(1);
            } else {
                watched.seen = count;
                watched.same = 0;
            }
        }
    }

    /// Returns the names of stuck loops.
    pub(super) fn stuck(&self) -> Vec<Name> {
        let watched = self.0.lock();
        let stuck = watched.iter().filter(|watched| watched.same >= LOOKS);
        let mut names: Vec<Name> = stuck.map(|watched| watched.name.clone()).collect();
        // Several loops may share a name.
        names.sort_unstable();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn tasks() -> (Tasks, Arc<Pulses>) {
        let pulses = Arc::default();
        (Tasks::new(&pulses), pulses)
    }

    fn look_often(pulses: &Pulses) -> Vec<Name> {
        for _ in 0..=LOOKS {
            pulses.look();
        }
        pulses.stuck()
    }

    #[tokio::test]
    async fn one_that_ends_or_panics_is_named() {
        let (mut tasks, _pulses) = tasks();
        tasks.spawn("one that stays", std::future::pending());
        tasks.spawn("one that ends", async {});
        let ended = tasks.ended().await.to_string();
        assert!(ended.starts_with("one that ends ended;"), "{ended}");
        tasks.spawn("one that panics", async { panic!("no {}", "more") });
        let ended = tasks.ended().await.to_string();
        assert!(
            ended.starts_with("one that panics panicked: no more;"),
            "{ended}"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_that_does_not_come_back_from_a_poll_is_stuck_until_it_does() {
        let (mut tasks, pulses) = tasks();
        let (free, wait) = mpsc::channel::<()>();
        let (begun, begins) = tokio::sync::oneshot::channel();
        tasks.spawn("one that waits", std::future::pending());
        tasks.spawn("one that is stuck", async move {
            begun.send(()).expect("somebody waits");
            // It ends when the sender is dropped.
            let _ = wait.recv();
            std::future::pending::<()>().await;
        });
        begins.await.expect("it begins");
        assert_eq!(look_often(&pulses), ["one that is stuck"]);
        drop(free);
        while !look_often(&pulses).is_empty() {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn a_runtime_without_timers_is_stuck() {
        let pulses = Pulses::default();
        let pulse = pulses.add("runtime".into(), true);
        pulse.beat();
        pulse.beat();
        assert_eq!(look_often(&pulses), ["runtime"]);
        for _ in 0..2 * LOOKS {
            pulse.beat();
            pulse.beat();
            pulses.look();
            assert!(pulses.stuck().is_empty());
        }
    }
}
