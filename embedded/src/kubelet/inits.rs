//! What happens to the init containers of a Pod, before its containers start.
//!
//! Responsible for: running them one after the other, and trying those again that fail. Must not:
//! know what the API has been told. Pods without init containers have nothing of this.

use std::time::Duration;

use super::{
    KubeletOptions,
    decode::RawPod,
    life::{Cause, Exit, Life, Pod, backoff},
    shape::{Restart, Shape},
    stages::ExitReason,
    world::World,
};
use crate::model::Time;

/// The init containers of a Pod, and how far they have come.
#[derive(Debug)]
pub(super) struct Inits {
    /// Whose turn it is: all before have done their part.
    pub(super) turn: usize,
    /// In the order of the spec.
    pub(super) runs: Box<[InitRun]>,
    /// When the containers could start.
    pub(super) done_at: Option<Time>,
}

/// What one init container has been through.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InitRun {
    pub(super) restarts: u32,
    /// It had ended well before this kubelet first saw the Pod, and takes no time again.
    pub(super) is_done: bool,
    /// Restarts since the back-off was last reset.
    streak: u32,
    pub(super) started_at: Option<Time>,
    /// How the latest try ended.
    pub(super) ended: Option<Exit>,
    /// How the try before that ended.
    pub(super) ended_before: Option<Exit>,
}

/// How long a try of an init container takes, and what it ends with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InitTry {
    pub(super) duration: Duration,
    pub(super) exit_code: u8,
    pub(super) reason: Option<ExitReason>,
}

impl Inits {
    /// The init containers of a Pod seen for the first time, if it has any.
    pub(super) fn of(shape: &Shape, view: &RawPod<'_>) -> Option<Box<Self>> {
        if shape.inits.is_empty() {
            return None;
        }
        let new = InitRun {
            is_done: view.is_running(),
            ..InitRun::default()
        };
        let mut runs = vec![new; shape.inits.len()];
        let statuses = view.status.init_container_statuses.iter().flatten();
        for (run, status) in runs.iter_mut().zip(statuses) {
            run.restarts = status.restart_count;
            run.is_done |= status.has_succeeded();
        }
        Some(Box::new(Self {
            turn: 0,
            runs: runs.into(),
            done_at: None,
        }))
    }

    /// When something last ended.
    pub(super) fn last_end(&self) -> Option<Time> {
        let exits = self.runs.iter().filter_map(|run| run.ended);
        exits.map(|exit| exit.finished_at).max()
    }

    /// The names of those that have not done their part.
    pub(super) fn incomplete<'a>(&self, shape: &'a Shape) -> Vec<&'a str> {
        let left = shape.inits.iter().skip(self.turn);
        left.map(|init| init.name.as_str()).collect()
    }
}

impl Pod {
    /// Whether nothing stands before the start of the containers.
    pub(super) fn is_initialized(&self) -> bool {
        let inits = self.inits.as_deref();
        inits.is_none_or(|inits| inits.done_at.is_some())
    }

    /// Starts what is next: sidecars on the way, and the containers after all init containers.
    pub(super) fn start_next(&mut self, world: &mut World, at: Time) {
        while let Some(inits) = &mut self.inits {
            let Some(init) = self.shape.inits.get(inits.turn) else {
                inits.done_at = Some(at);
                break;
            };
            if !init.sidecar {
                return self.start_init(world, at);
            }
            inits.runs[inits.turn].started_at = Some(at);
            inits.turn += 1;
        }
        self.begin_try(world, at);
    }

    fn start_init(&mut self, world: &mut World, at: Time) {
        let InitTry {
            duration,
            exit_code,
            reason,
        } = world.draw_init(self);
        if let Some(inits) = &mut self.inits {
            inits.runs[inits.turn].started_at = Some(at);
        }
        self.life = Life::Initializing {
            until: at + duration,
            exit_code: i32::from(exit_code),
            reason,
        };
        self.status.changed();
    }

    /// The init container whose turn it is ended by itself.
    pub(super) fn finish_init(&mut self, world: &mut World, at: Time) {
        let Life::Initializing {
            exit_code, reason, ..
        } = self.life
        else {
            return;
        };
        self.record_init_exit(exit_code, reason, at);
        let fails_for_good = exit_code != 0 && self.shape.restart == Restart::Never;
        match (self.stop, &mut self.inits) {
            (Some(stop), _) => self.life = Life::Ended(stop.cause),
            (None, _) if fails_for_good => self.life = Life::Ended(Cause::Exited),
            (None, Some(inits)) if exit_code == 0 => {
                inits.turn += 1;
                self.start_next(world, at);
            }
            (None, Some(inits)) => {
                let delay = inits.runs[inits.turn].back_off(&world.options, at);
                self.life = Life::InitBackingOff {
                    until: at + delay,
                    delay,
                };
            }
            (None, None) => {}
        }
    }

    /// The init container whose turn it is is tried again.
    pub(super) fn restart_init(&mut self, world: &mut World, at: Time) {
        if let Some(inits) = &mut self.inits {
            inits.runs[inits.turn].restarts += 1;
        }
        self.start_init(world, at);
    }

    pub(super) fn record_init_exit(&mut self, code: i32, reason: Option<ExitReason>, at: Time) {
        if let Some(inits) = &mut self.inits {
            let run = &mut inits.runs[inits.turn];
            run.ended_before = run.ended.replace(Exit {
                code,
                reason,
                started_at: run.started_at.unwrap_or(at),
                finished_at: at,
            });
        }
        self.status.changed();
    }
}

impl InitRun {
    /// How long it waits after a try that ended now.
    fn back_off(&mut self, options: &KubeletOptions, at: Time) -> Duration {
        let lasted = self.started_at.map(|started_at| at.since(started_at));
        if lasted > Some(options.backoff_max() * 2) {
            self.streak = 0;
        }
        let delay = backoff(self.streak, options);
        self.streak = self.streak.saturating_add(1);
        delay
    }
}
