//! What happens to a Pod on a hollow node.
//!
//! Responsible for: the turns of a Pod's life, each at its own time. Must not: know what the API
//! has been told; `status_manager` compares and decides that.
//! Read first: [`Life`], then [`Pod::advance`].

use std::{sync::Arc, time::Duration};

use compact_str::CompactString;

use super::{
    KubeletOptions,
    inits::Inits,
    plan::{Plan, Removal},
    reservation::Reservation,
    shape::Shape,
    stages::{By, Disruption, ExitReason},
    status_manager::StatusManager,
    timers::Due,
    world::{Try, World},
};
use crate::model::Time;

/// A Pod that still needs something from this kubelet.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) namespace: CompactString,
    pub(super) name: CompactString,
    pub(super) uid: CompactString,
    pub(super) shape: Arc<Shape>,
    /// UID of the owning Job; kept only where tries are counted per Job.
    pub(super) job: Option<CompactString>,
    pub(super) index: Option<u32>,
    /// Places of the stages that mean this Pod.
    pub(super) stages: Box<[u16]>,
    /// What the stage that was picked has in store.
    pub(super) plan: Option<Box<Plan>>,
    /// Its place, where room is limited.
    pub(super) reservation: Option<Box<Reservation>>,
    pub(super) generation: i64,
    pub(super) gated: bool,
    /// Grace period in seconds, once the Pod is being deleted.
    pub(super) deletion: Option<i64>,
    pub(super) life: Life,
    pub(super) run: Run,
    /// What its init containers have been through, if it has any.
    pub(super) inits: Option<Box<Inits>>,
    pub(super) stop: Option<Termination>,
    pub(super) status: StatusManager,
    /// The deadline that the timers hold for this Pod.
    pub(super) due: Option<Due>,
}

/// Where a Pod is in its life. Variants stand in the order in which they are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Not bound to a node.
    Unscheduled,
    /// On a node; the first container starts at this time.
    Starting { at: Time },
    /// An init container runs.
    Initializing {
        until: Time,
        exit_code: i32,
        reason: Option<ExitReason>,
    },
    /// An init container has failed and waits to be started again.
    InitBackingOff { until: Time, delay: Duration },
    /// The containers run.
    Running { until: Time, exit_code: i32 },
    /// The first container has ended and waits to be started again.
    BackingOff { until: Time, delay: Duration },
    /// Nothing runs any more.
    Ended(Cause),
}

/// Why a Pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its containers exited, by themselves or because they were stopped.
    Exited,
    /// It outlived its own `activeDeadlineSeconds`.
    Deadline,
    /// Its kubelet needed its place, or its node is gone.
    Disrupted(Disruption),
    /// Its simulation annotations cannot be read.
    Invalid,
    /// Its node had no room for it.
    Refused,
}

/// What the containers have been through.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) node: Option<usize>,
    /// Whether the Pod had its node from the start, so that no binding marked it as scheduled.
    pub(super) came_bound: bool,
    pub(super) ip: u32,
    pub(super) scheduled_at: Time,
    pub(super) started_at: Time,
    pub(super) restarts: u32,
    /// Restarts since the back-off was last reset.
    pub(super) streak: u32,
    /// How the latest try of the first container ended.
    pub(super) ended: Option<Exit>,
    /// How the try before that ended.
    pub(super) ended_before: Option<Exit>,
    /// How the other containers ended.
    pub(super) others: Option<Exit>,
}

/// The end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: i32,
    /// Why, if the code does not say it.
    pub(super) reason: Option<ExitReason>,
    pub(super) started_at: Time,
    pub(super) finished_at: Time,
}

/// The containers have been asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Termination {
    at: Time,
    exit_code: i32,
    pub(super) cause: Cause,
}

/// Something that happens by itself. At the same instant the earlier variant goes first: a
/// container that ends when it is stopped has ended by itself, and one that would start does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Exit,
    Stop,
    Deadline,
    Disruption,
    Ready,
    Start,
    Restart,
}

impl Turn {
    fn why(self) -> &'static str {
        match self {
            Self::Exit => "container ends",
            Self::Stop => "container stops",
            Self::Deadline => "pod deadline",
            Self::Disruption => "pod disruption",
            Self::Ready => "containers are ready",
            Self::Start => "container starts",
            Self::Restart => "container restarts",
        }
    }
}

impl Pod {
    /// The Pod has a node: its life on it begins.
    pub(super) fn schedule(&mut self, node: usize, world: &mut World, now: Time) {
        let run = &mut self.run;
        (run.node, run.ip, run.scheduled_at) = (Some(node), world.take_ip(), now);
        self.life = match self.shape.settings {
            Ok(_) => Life::Starting {
                at: now + world.start_delay(self),
            },
            Err(_) => Life::Ended(Cause::Invalid),
        };
        if self.is_ended() {
            self.status.changed();
        }
    }

    /// The Pod's node has no room for it: its life ends before it has begun.
    pub(super) fn refuse(&mut self, node: usize, now: Time) {
        (self.run.node, self.run.scheduled_at) = (Some(node), now);
        self.life = Life::Ended(Cause::Refused);
        self.status.changed();
    }

    /// The Pod is being deleted, or deleted again with a shorter grace period.
    pub(super) fn delete(&mut self, grace_secs: i64, world: &World, now: Time) {
        if self.deletion.is_some_and(|known| known <= grace_secs) {
            return;
        }
        self.deletion = Some(grace_secs);
        let grace = Duration::from_secs(u64::try_from(grace_secs).unwrap_or(0));
        if matches!(self.life, Life::Unscheduled | Life::Ended(_)) {
            return;
        }
        self.request_stop(Cause::Exited, grace, world, now);
    }

    /// Lets everything happen that was due by now, in order.
    pub(super) fn advance(&mut self, world: &mut World, now: Time) {
        while let Some((at, turn)) = self.next_turn().filter(|(at, _)| *at <= now) {
            match turn {
                Turn::Exit if self.is_initialized() => self.finish_try(&world.options, at),
                Turn::Exit => self.finish_init(world, at),
                Turn::Stop => self.halt(at),
                Turn::Deadline => {
                    let grace = self.shape.grace;
                    self.request_stop(Cause::Deadline, grace, world, at);
                }
                Turn::Disruption => self.disrupt(world, at),
                Turn::Ready => {
                    self.mark_ready();
                    self.status.changed();
                }
                Turn::Start => self.start_next(world, at),
                Turn::Restart if !self.is_initialized() => self.restart_init(world, at),
                Turn::Restart => {
                    self.run.restarts += 1;
                    self.begin_try(world, at);
                }
            }
        }
    }

    /// When something happens next, and what.
    pub(super) fn next_due(&self) -> Option<Due> {
        self.next_turn().map(|(at, turn)| (at, turn.why()))
    }

    pub(super) fn is_ended(&self) -> bool {
        matches!(self.life, Life::Ended(_))
    }

    fn next_turn(&self) -> Option<(Time, Turn)> {
        let own = match self.life {
            Life::Unscheduled | Life::Ended(_) => return None,
            Life::Starting { at } => (at, Turn::Start),
            Life::Initializing { until, .. } | Life::Running { until, .. } => (until, Turn::Exit),
            Life::InitBackingOff { until, .. } | Life::BackingOff { until, .. } => {
                (until, Turn::Restart)
            }
        };
        let forced = match (self.stop, self.shape.deadline) {
            (Some(stop), _) => Some((stop.at, Turn::Stop)),
            (None, Some(deadline)) => Some((self.run.scheduled_at + deadline, Turn::Deadline)),
            (None, None) => None,
        };
        let next = forced.map_or(own, |forced| forced.min(own));
        Some(
            self.planned_turn()
                .map_or(next, |planned| planned.min(next)),
        )
    }

    /// What the plan of the try that runs has in store next.
    fn planned_turn(&self) -> Option<(Time, Turn)> {
        let plan = self.plan.as_deref()?;
        if !matches!(self.life, Life::Running { .. }) {
            return None;
        }
        let disruption = plan.disruption.filter(|_| self.stop.is_none());
        let disruption = disruption.map(|(at, _)| (at, Turn::Disruption));
        let ready = plan.ready_at.filter(|_| plan.unready);
        let ready = ready.map(|at| (at, Turn::Ready));
        disruption.into_iter().chain(ready).min()
    }

    /// Whether the containers that run are ready.
    pub(super) fn is_ready(&self) -> bool {
        self.plan.as_deref().is_none_or(|plan| !plan.unready)
    }

    /// Since when the containers that run are as ready as they are.
    pub(super) fn ready_since(&self) -> Time {
        let plan = self.plan.as_deref().filter(|plan| !plan.unready);
        plan.and_then(|plan| plan.ready_at)
            .unwrap_or(self.run.started_at)
    }

    fn mark_ready(&mut self) {
        if let Some(plan) = &mut self.plan {
            plan.unready = false;
        }
    }

    fn disrupt(&mut self, world: &World, at: Time) {
        let Some(plan) = &mut self.plan else { return };
        let Some((_, cause)) = plan.disruption.take() else {
            return;
        };
        match cause.by() {
            By::Kubelet => {
                self.request_stop(Cause::Disrupted(cause), self.shape.grace, world, at);
            }
            By::Deletion | By::EvictionApi => plan.removal = Some(Removal::new(cause, at)),
            By::PodGc => {
                plan.removal = Some(Removal::new(cause, at));
                self.life = Life::Ended(Cause::Disrupted(cause));
                self.status.changed();
            }
        }
    }

    pub(super) fn begin_try(&mut self, world: &mut World, at: Time) {
        let Try {
            duration,
            exit_code,
            mut plan,
        } = world.draw_try(self, at);
        if let (Some(new), Some(old)) = (&mut plan, &self.plan) {
            new.removal = old.removal;
        }
        self.plan = plan.or_else(|| self.plan.take().filter(|old| old.removal.is_some()));
        self.run.started_at = at;
        self.life = Life::Running {
            until: at + duration,
            exit_code,
        };
        self.status.changed();
    }

    /// The first container ended by itself.
    fn finish_try(&mut self, options: &KubeletOptions, at: Time) {
        let Life::Running { exit_code, .. } = self.life else {
            return;
        };
        let reason = self.plan.as_deref().and_then(|plan| plan.reason);
        self.record_exit(exit_code, reason, 0, at);
        let stays_down = self.stop.is_some() || !self.shape.restarts_after(exit_code);
        if stays_down {
            let cause = self.stop.map_or(Cause::Exited, |stop| stop.cause);
            self.life = Life::Ended(cause);
            return;
        }
        let run = &mut self.run;
        if at.since(run.started_at) > options.backoff_max() * 2 {
            run.streak = 0;
        }
        let delay = backoff(run.streak, options);
        run.streak = run.streak.saturating_add(1);
        self.life = Life::BackingOff {
            until: at + delay,
            delay,
        };
    }

    /// The containers that were asked to stop have stopped.
    fn halt(&mut self, at: Time) {
        let Some(stop) = self.stop else { return };
        match self.life {
            Life::Running { .. } => self.record_exit(stop.exit_code, None, stop.exit_code, at),
            Life::Initializing { .. } => self.record_init_exit(stop.exit_code, None, at),
            _ => {}
        }
        self.life = Life::Ended(stop.cause);
        self.status.changed();
    }

    fn record_exit(
        &mut self,
        code: i32,
        reason: Option<ExitReason>,
        code_of_others: i32,
        at: Time,
    ) {
        let run = &mut self.run;
        let exit = |code, reason| Exit {
            code,
            reason,
            started_at: run.started_at,
            finished_at: at,
        };
        let others = exit(code_of_others, None);
        run.ended_before = run.ended.replace(exit(code, reason));
        run.others.get_or_insert(others);
        self.status.changed();
    }

    fn request_stop(&mut self, cause: Cause, grace: Duration, world: &World, now: Time) {
        let (stop_delay, own_code) = world.stop_of(self);
        let (delay, exit_code) = match self.life {
            Life::Initializing { .. } | Life::Running { .. } if stop_delay > grace => {
                (grace, SIGKILL)
            }
            Life::Initializing { .. } | Life::Running { .. } => {
                (stop_delay, own_code.map_or(SIGTERM, i32::from))
            }
            Life::Unscheduled | Life::Starting { .. } => (Duration::ZERO, SIGKILL),
            Life::InitBackingOff { .. } | Life::BackingOff { .. } | Life::Ended(_) => {
                (Duration::ZERO, SIGTERM)
            }
        };
        let new = Termination {
            at: now + delay,
            exit_code,
            cause,
        };
        self.stop = match self.stop {
            Some(old) if old.at <= new.at => Some(old),
            Some(old) => Some(Termination {
                cause: old.cause,
                ..new
            }),
            None => Some(new),
        };
    }
}

/// The first restart is immediate, the second waits for the base delay, each later one twice as
/// long, up to the cap.
pub(super) fn backoff(streak: u32, options: &KubeletOptions) -> Duration {
    match streak.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => {
            let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
            options
                .backoff_base()
                .saturating_mul(factor)
                .min(options.backoff_max())
        }
    }
}

/// Exit code of a container that obeys SIGTERM.
const SIGTERM: i32 = 143;
/// Exit code of a container that had to be killed.
const SIGKILL: i32 = 137;
