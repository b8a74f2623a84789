//! Holds the shared state of the hollow nodes: options, random generator, try counters, addresses and scheduler.
//!
//! Responsible for: decisions that depend on more than one Pod. Must not: hold Pods.

use std::time::Duration;

use compact_str::format_compact;

use super::{
    KubeletOptions, Stage,
    attempts::{Attempts, MAX_COUNTERS},
    life::{Pod, SIGTERM},
    plan::{Plan, SidecarTry, Try},
    scheduler::Scheduler,
    settings::Fate,
    shape::Restart,
    stages::{Chance, ExitReason},
};
use crate::{model::Time, rng::Rng};

#[derive(Debug)]
pub(super) struct World {
    pub(super) options: KubeletOptions,
    rng: Rng,
    attempts: Attempts,
    next_ip: u32,
    pub(super) scheduler: Scheduler,
}

impl World {
    pub(super) fn new(options: KubeletOptions) -> Self {
        let rng = Rng::new(options.seed);
        Self {
            scheduler: Scheduler::new(&options),
            options,
            rng,
            attempts: Attempts::new(MAX_COUNTERS),
            next_ip: 1,
        }
    }

    /// Returns a Pod IP; it repeats after 16 million Pods.
    pub(super) fn take_ip(&mut self) -> u32 {
        let ip = self.next_ip;
        self.next_ip = if ip >= POD_IPS { 1 } else { ip + 1 };
        ip
    }

    /// Returns the delay from binding to the start of the containers.
    pub(super) fn start_delay(&self, pod: &Pod) -> Duration {
        let staged = self
            .stage_of(pod)
            .and_then(|(stage, chance)| Some(stage.wait(stage.start?, "start", chance)));
        staged.unwrap_or(self.options.startup_latency)
    }

    /// Returns the time that the containers take to stop, and their exit code if a stage sets it.
    pub(super) fn stop_of(&self, pod: &Pod) -> (Duration, Option<u8>) {
        let staged = self.stage_of(pod).and_then(|(stage, chance)| {
            let stop = stage.stop?;
            Some((stage.wait(stop.after(), "stop", chance), stop.exit_code))
        });
        staged.unwrap_or((self.options.stop_delay, None))
    }

    /// Returns the stop of a sidecar after the containers have ended: by its entry in the stage, otherwise like other
    /// containers.
    pub(super) fn sidecar_end(&self, pod: &Pod, name: &str) -> SidecarTry {
        let (mut duration, mut code) = self.stop_of(pod);
        let mut reason = None;
        if let Some((stage, chance)) = self.stage_of(pod)
            && let Some(sidecar) = stage.sidecar(name)
        {
            let end = sidecar.end();
            let what = format_compact!("sidecar/{name}");
            let wait = end.after().unwrap_or_default();
            duration = stage.wait(wait, &what, chance);
            (code, reason) = (end.exit_code, end.reason);
        }
        SidecarTry {
            duration,
            code: code.map_or(SIGTERM, i32::from),
            reason,
        }
    }

    /// Returns exit code and reason of a container other than the first that ends by itself. With a restart policy
    /// other than Never it succeeds: restarts of single containers are not simulated.
    pub(super) fn other_end(&self, pod: &Pod, name: &str) -> (i32, Option<ExitReason>) {
        let staged = self.stage_of(pod).and_then(|(stage, _)| stage.other(name));
        match staged.filter(|_| pod.shape.restart == Restart::Never) {
            Some(other) => (other.exit_code.unwrap_or(0).into(), other.reason),
            None => (0, None),
        }
    }

    /// Draws the course of the try that begins at this time.
    pub(super) fn draw_try(&mut self, pod: &Pod, at: Time) -> Try {
        if !pod.is_initialized() {
            return self.draw_init(pod).unwrap_or_default();
        }
        let settings = pod.shape.settings.as_ref().ok();
        let try_number = self.count_try(pod);
        let staged = self.stage_of(pod);
        let plan = staged.map(|(stage, chance)| Box::new(Plan::of(stage, chance, at)));
        let end = staged.map(|(stage, _)| stage.end).unwrap_or_default();
        let staged_duration =
            staged.and_then(|(stage, chance)| Some(stage.wait(end.after()?, "end", chance)));
        let fate = settings.map_or(Fate::Unsaid, |s| s.fate(pod.index, try_number));
        let code = match (end.exit_code, fate) {
            (Some(code), _) | (None, Fate::Exit(code)) => code,
            (None, Fate::Unsaid) if self.rng.chance(self.options.fail_rate) => 1,
            (None, Fate::Unsaid) => self.options.default_exit_code,
        };
        let duration = staged_duration.or_else(|| settings.and_then(|s| s.duration));
        Try {
            duration: duration.unwrap_or(self.options.default_duration),
            exit_code: i32::from(code),
            reason: end.reason,
            plan,
        }
    }

    /// Draws the try of the current init container. None if it had succeeded before this kubelet saw the Pod.
    fn draw_init(&mut self, pod: &Pod) -> Option<Try> {
        let inits = pod.inits.as_deref()?;
        let settings = pod.shape.settings.as_ref().ok()?;
        let (nth, run) = (inits.turn, &inits.runs[inits.turn]);
        if run.is_done {
            return None;
        }
        let restarts = run.restarts;
        let named = &pod.shape.inits;
        let place = named[..nth].iter().filter(|init| !init.sidecar).count();
        let (mut duration, mut exit_code) = settings.init(place);
        let failures = settings.init_fail_attempts;
        let tries = match (pod.shape.restart, &pod.job) {
            (Restart::Never, Some(job)) if exit_code != 0 && failures.is_some() => {
                let key = format_compact!("{job}/{nth}");
                self.attempts.next(&key, pod.index)
            }
            _ => restarts,
        };
        if failures.is_some_and(|failures| tries >= failures) {
            exit_code = 0;
        }
        let mut reason = None;
        let name = named[nth].name.as_str();
        if let Some((stage, chance)) = self.stage_of(pod)
            && let Some(staged) = stage.init(name)
        {
            let end = staged.end();
            if let Some(wait) = end.after() {
                let what = format_compact!("init/{name}");
                duration = stage.wait(wait, &what, Chance { restarts, ..chance });
            }
            if let Some(code) = end.exit_code {
                let fails = staged.failures.is_none_or(|failures| restarts < failures);
                exit_code = code * u8::from(fails);
                reason = end.reason.filter(|_| fails);
            }
        }
        Some(Try {
            duration,
            exit_code: i32::from(exit_code),
            reason,
            plan: None,
        })
    }

    /// Returns the Pod's current stage, and the chance from which its waits are drawn.
    fn stage_of<'a>(&'a self, pod: &'a Pod) -> Option<(&'a Stage, Chance<'a>)> {
        let chance = Chance {
            seed: self.options.seed,
            uid: &pod.uid,
            restarts: pod.first.restarts,
        };
        let places = pod.stages.iter().map(|place| usize::from(*place));
        let mut stages = places.map(|place| &self.options.stages[place]);
        let stage = stages.find(|stage| stage.picks(chance))?;
        Some((stage, chance))
    }

    /// Returns the number of earlier tries of this work: restarts of the container, or Pods of the same Job and index
    /// where containers are not restarted. Zero if nothing depends on it.
    fn count_try(&mut self, pod: &Pod) -> u32 {
        match (pod.shape.restart, &pod.job) {
            (Restart::Never, Some(job)) => self.attempts.next(job, pod.index),
            (Restart::Never | Restart::OnFailure | Restart::Always, _) => pod.first.restarts,
        }
    }
}

/// Number of addresses from 10.0.0.1 to 10.255.255.254.
const POD_IPS: u32 = (1 << 24) - 2;
