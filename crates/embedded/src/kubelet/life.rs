//! Simulates the life of a Pod on a hollow node.
//!
//! Responsible for: the turns of a Pod's life, each at its own time. Must not: know which state the API server has;
//! `status_manager` compares and decides.
//! Read first: [`Life`], then [`Pod::advance`].
//!
//! At any time one container, the leader, drives the Pod's life: the current init container, then the first container.
//! [`Pod::leader`] returns it.

use std::{sync::Arc, time::Duration};

use compact_str::CompactString;

use super::{
    KubeletOptions,
    inits::{Inits, SidecarStop},
    plan::{Plan, Removal, SidecarTry, Try},
    reservation::Reservation,
    shape::Shape,
    stages::{By, Disruption, ExitReason},
    status_manager::StatusManager,
    world::World,
};
use crate::model::Time;

/// A Pod that still needs writes or deadlines from this kubelet.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) namespace: CompactString,
    pub(super) name: CompactString,
    pub(super) uid: CompactString,
    pub(super) shape: Arc<Shape>,
    /// UID of the owning Job; kept only if tries are counted per Job.
    pub(super) job: Option<CompactString>,
    pub(super) index: Option<u32>,
    /// Indexes of the stages that select this Pod.
    pub(super) stages: Box<[u16]>,
    /// Plan drawn from the current stage.
    pub(super) plan: Option<Box<Plan>>,
    /// Its reservation, if nodes have a capacity.
    pub(super) reservation: Option<Box<Reservation>>,
    pub(super) generation: i64,
    pub(super) gated: bool,
    /// Grace period in seconds, once the Pod is being deleted.
    pub(super) deletion: Option<i64>,
    pub(super) life: Life,
    pub(super) run: Run,
    /// Exits of the containers after the first, in the order of the spec; empty before.
    pub(super) others: Box<[Exit]>,
    /// Runs of its first container.
    pub(super) first: ContainerRun,
    /// Runs of its init containers, if it has any.
    pub(super) inits: Option<Box<Inits>>,
    pub(super) stop: Option<Termination>,
    pub(super) status: StatusManager,
    /// The deadline that the timers hold for this Pod.
    pub(super) due: Option<Time>,
}

/// Phase of a Pod's simulated life. The variants are in the order in which they are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Not bound to a node.
    Unscheduled,
    /// On a node; the first container or init container starts at this time.
    Starting { at: Time },
    /// An init container runs; or, once the Pod is initialized, all containers.
    Running {
        until: Time,
        exit_code: i32,
        reason: Option<ExitReason>,
    },
    /// The leader has exited and waits for its restart.
    BackingOff { until: Time, delay: Duration },
    /// The containers have ended for good, and sidecars are stopping.
    StoppingSidecars { until: Time, cause: Cause },
    /// No container runs any more.
    Ended(Cause),
}

/// Why a Pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its containers exited, by themselves or because they were stopped.
    Exited,
    /// It outlived its own `activeDeadlineSeconds`.
    Deadline,
    /// It was disrupted, for example evicted, or its node is gone.
    Disrupted(Disruption),
    /// Its simulation annotations cannot be read.
    Invalid,
    /// Its node rejected it for lack of resources.
    Refused,
}

/// Facts about the Pod's time on its node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) node: Option<usize>,
    /// The Pod was bound when first seen, so that no binding here marked it as scheduled.
    pub(super) came_bound: bool,
    pub(super) ip: u32,
    pub(super) scheduled_at: Time,
}

/// The runs of one container.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ContainerRun {
    pub(super) restarts: u32,
    /// Restarts since the last reset of the backoff.
    pub(super) streak: u8,
    /// An init container had succeeded before this kubelet first saw the Pod; it takes no time again.
    pub(super) is_done: bool,
    /// Start of the latest try.
    pub(super) started_at: Option<Time>,
    /// Exit of the latest try.
    pub(super) ended: Option<Exit>,
    /// Exit of the try before.
    pub(super) ended_before: Option<Exit>,
}

/// Exit of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: i32,
    /// The reason, if the code does not imply it.
    pub(super) reason: Option<ExitReason>,
    pub(super) started_at: Time,
    pub(super) finished_at: Time,
}

/// The containers have received SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Termination {
    at: Time,
    /// End of the grace period, when containers that still run are killed.
    kill_at: Time,
    exit_code: i32,
    pub(super) cause: Cause,
}

/// A step of the Pod's life that time triggers. At the same instant, the earlier variant goes first. So a container
/// that exits at its stop has exited by itself, and a container due to start then does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Exit,
    Stop,
    Deadline,
    Disruption,
    Ready,
    Start,
    Restart,
    SidecarsEnd,
}

impl Pod {
    /// Starts the Pod's life on its node.
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

    /// Ends the life of a Pod for which its node lacks resources.
    pub(super) fn refuse(&mut self, node: usize, now: Time) {
        (self.run.node, self.run.scheduled_at) = (Some(node), now);
        self.life = Life::Ended(Cause::Refused);
        self.status.changed();
    }

    /// Starts the Pod's deletion, or shortens its grace period.
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

    /// Applies all turns due by now, in order.
    pub(super) fn advance(&mut self, world: &mut World, now: Time) {
        while let Some((at, turn)) = self.next_turn().filter(|(at, _)| *at <= now) {
            match turn {
                Turn::Exit => self.finish_try(world, at),
                Turn::Stop => self.halt(world, at),
                Turn::SidecarsEnd => self.finish_sidecars(world, at),
                Turn::Deadline => {
                    let grace = self.shape.grace;
                    self.request_stop(Cause::Deadline, grace, world, at);
                }
                Turn::Disruption => self.disrupt(world, at),
                Turn::Ready => {
                    if let Some(plan) = &mut self.plan {
                        plan.unready = false;
                    }
                    self.status.changed();
                }
                Turn::Start => self.start_next(world, at),
                Turn::Restart => {
                    self.leader().restarts += 1;
                    self.begin_try(world, at);
                }
            }
        }
    }

    /// Returns the time of the next turn.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.next_turn().map(|(at, _)| at)
    }

    pub(super) fn is_ended(&self) -> bool {
        matches!(self.life, Life::Ended(_))
    }

    /// Returns true if all init containers are done.
    pub(super) fn is_initialized(&self) -> bool {
        let inits = self.inits.as_deref();
        inits.is_none_or(|inits| inits.done_at.is_some())
    }

    fn next_turn(&self) -> Option<(Time, Turn)> {
        let own = match self.life {
            Life::Unscheduled | Life::Ended(_) => return None,
            Life::Starting { at } => (at, Turn::Start),
            Life::Running { until, .. } => (until, Turn::Exit),
            Life::BackingOff { until, .. } => (until, Turn::Restart),
            Life::StoppingSidecars { until, .. } => return Some((until, Turn::SidecarsEnd)),
        };
        let forced = match (self.stop, self.shape.deadline) {
            (Some(stop), _) => Some((stop.at, Turn::Stop)),
            (None, Some(deadline)) => Some((self.run.scheduled_at + deadline, Turn::Deadline)),
            (None, None) => None,
        };
        let turns = [Some(own), forced, self.planned_turn()];
        turns.into_iter().flatten().min()
    }

    /// Returns the next turn in the plan of the running try.
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

    /// Returns true if the running containers are ready.
    pub(super) fn is_ready(&self) -> bool {
        self.plan.as_deref().is_none_or(|plan| !plan.unready)
    }

    /// Returns when the running containers last became ready, or started.
    pub(super) fn ready_since(&self) -> Time {
        let plan = self.plan.as_deref().filter(|plan| !plan.unready);
        let ready_at = plan.and_then(|plan| plan.ready_at);
        ready_at.or(self.first.started_at).unwrap_or_default()
    }

    /// Returns the runs of the leader.
    fn leader(&mut self) -> &mut ContainerRun {
        match &mut self.inits {
            Some(inits) if inits.done_at.is_none() => &mut inits.runs[inits.turn],
            _ => &mut self.first,
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

    /// Starts the next sidecars, then the next init container, or the containers if none is left.
    fn start_next(&mut self, world: &mut World, at: Time) {
        if let Some(inits) = &mut self.inits {
            inits.pass_sidecars(&self.shape, at);
        }
        self.begin_try(world, at);
    }

    fn begin_try(&mut self, world: &mut World, at: Time) {
        let Try {
            duration,
            exit_code,
            reason,
            mut plan,
        } = world.draw_try(self, at);
        if let (Some(new), Some(old)) = (&mut plan, &self.plan) {
            new.removal = old.removal;
        }
        self.plan = plan.or_else(|| self.plan.take().filter(|old| old.removal.is_some()));
        self.leader().started_at = Some(at);
        self.life = Life::Running {
            until: at + duration,
            exit_code,
            reason,
        };
        self.status.changed();
    }

    /// Handles the exit of the leader.
    fn finish_try(&mut self, world: &mut World, at: Time) {
        let Life::Running {
            exit_code, reason, ..
        } = self.life
        else {
            return;
        };
        self.record_exit(world, exit_code, reason, None, at);
        if let Some(stop) = self.stop {
            self.end(stop.cause, stop.kill_at, world, at);
        } else if let Some(inits) = &mut self.inits
            && inits.done_at.is_none()
            && exit_code == 0
        {
            inits.turn += 1;
            self.start_next(world, at);
        } else if self.shape.restarts_after(exit_code) {
            let delay = self.leader().back_off(&world.options, at);
            let until = at + delay;
            self.life = Life::BackingOff { until, delay };
        } else {
            self.end(Cause::Exited, at + self.shape.grace, world, at);
        }
    }

    /// Handles the end of containers that were stopped.
    fn halt(&mut self, world: &World, at: Time) {
        let Some(stop) = self.stop else { return };
        if matches!(self.life, Life::Running { .. }) {
            self.record_exit(world, stop.exit_code, None, Some(stop.exit_code), at);
        }
        self.end(stop.cause, stop.kill_at, world, at);
    }

    /// Ends the containers for good. Sidecars get SIGTERM, and are killed at `kill_at`.
    fn end(&mut self, cause: Cause, kill_at: Time, world: &World, at: Time) {
        self.status.changed();
        let Some(inits) = &mut self.inits else {
            self.life = Life::Ended(cause);
            return;
        };
        inits.stop = Some(SidecarStop { at, kill_at });
        let until = self.sidecar_exits(world).map(|(_, exit)| exit.finished_at);
        let until = until.max().unwrap_or(at);
        self.life = Life::StoppingSidecars { until, cause };
        if until <= at {
            self.finish_sidecars(world, at);
        }
    }

    /// Ends the sidecars, and with them the Pod.
    fn finish_sidecars(&mut self, world: &World, at: Time) {
        let Life::StoppingSidecars { cause, .. } = self.life else {
            return;
        };
        let exits: Vec<(usize, Exit)> = self.sidecar_exits(world).collect();
        for (nth, mut exit) in exits {
            exit.finished_at = exit.finished_at.min(at);
            if let Some(inits) = &mut self.inits {
                inits.runs[nth].ended = Some(exit);
            }
        }
        self.life = Life::Ended(cause);
        self.status.changed();
    }

    /// Returns the exits of the running sidecars, with their indexes. They stop one after the other, the last first,
    /// until the grace period is over.
    fn sidecar_exits(&self, world: &World) -> impl Iterator<Item = (usize, Exit)> {
        let inits = self.inits.as_deref();
        let stop = inits.and_then(|inits| inits.stop);
        let runs = inits.map_or(&[][..], |inits| &*inits.runs).iter();
        let sidecars = runs.zip(&self.shape.inits).enumerate().rev();
        let mut at = stop.unwrap_or_default().at;
        sidecars.filter_map(move |(nth, (run, named))| {
            let (started_at, stop) = (run.started_at.filter(|_| named.sidecar)?, stop?);
            let SidecarTry {
                duration,
                code,
                reason,
            } = world.sidecar_end(self, &named.name);
            let in_time = at + duration <= stop.kill_at;
            at = (at + duration).min(stop.kill_at.max(at));
            let exit = Exit {
                code: if in_time { code } else { SIGKILL },
                reason: reason.filter(|_| in_time),
                started_at,
                finished_at: at,
            };
            Some((nth, exit))
        })
    }

    /// Records the exit of the leader. If the Pod is initialized, its other containers exit too: with `code_of_others`
    /// if given, otherwise as their stage says.
    fn record_exit(
        &mut self,
        world: &World,
        code: i32,
        reason: Option<ExitReason>,
        code_of_others: Option<i32>,
        at: Time,
    ) {
        let run = self.leader();
        let exit = Exit {
            code,
            reason,
            started_at: run.started_at.unwrap_or(at),
            finished_at: at,
        };
        run.ended_before = run.ended.replace(exit);
        if self.is_initialized() && self.others.is_empty() {
            let others = self.shape.containers.iter().skip(1);
            let others = others.map(|other| {
                let (code, reason) = match code_of_others {
                    Some(code) => (code, None),
                    None => world.other_end(self, &other.name),
                };
                Exit {
                    code,
                    reason,
                    ..exit
                }
            });
            self.others = others.collect();
        }
        self.status.changed();
    }

    fn request_stop(&mut self, cause: Cause, grace: Duration, world: &World, now: Time) {
        let (stop_delay, own_code) = world.stop_of(self);
        let kill_at = now + grace;
        let (delay, exit_code) = match &mut self.life {
            Life::StoppingSidecars { until, .. } => {
                *until = kill_at.min(*until);
                if let Some(stop) = self.inits.as_mut().and_then(|inits| inits.stop.as_mut()) {
                    stop.kill_at = kill_at.min(stop.kill_at);
                }
                return;
            }
            Life::Running { .. } if stop_delay > grace => (grace, SIGKILL),
            Life::Running { .. } => (stop_delay, own_code.map_or(SIGTERM, i32::from)),
            Life::Unscheduled | Life::Starting { .. } => (Duration::ZERO, SIGKILL),
            Life::BackingOff { .. } | Life::Ended(_) => (Duration::ZERO, SIGTERM),
        };
        let new = Termination {
            at: now + delay,
            kill_at,
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

impl ContainerRun {
    /// Returns the delay before the restart after a try that exited now. The first restart is immediate, the second
    /// waits for the base delay, and each later one twice as long, up to the maximum.
    fn back_off(&mut self, options: &KubeletOptions, at: Time) -> Duration {
        let lasted = self.started_at.map(|started_at| at.since(started_at));
        let backoff = options.backoff();
        if lasted > Some(backoff.max * 2) {
            self.streak = 0;
        }
        let delay = backoff.delay(self.streak.into());
        self.streak = self.streak.saturating_add(1);
        delay
    }
}

/// Exit code of a container that exits on SIGTERM.
pub(super) const SIGTERM: i32 = 143;
/// Exit code of a killed container.
const SIGKILL: i32 = 137;
