//! What the hollow nodes share: options, chance, try counters, addresses and their scheduler.
//!
//! Responsible for: answers that depend on more than one Pod. Must not: hold Pods.

use std::time::Duration;

use compact_str::format_compact;

use super::{
    KubeletOptions, Stage, attempts::Attempts, inits::InitTry, life::Pod, plan::Plan,
    scheduler::Scheduler, settings::Fate, shape::Restart, stages::Chance,
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

/// How long a try takes, and what it ends with.
#[derive(Debug)]
pub(super) struct Try {
    pub(super) duration: Duration,
    pub(super) exit_code: i32,
    pub(super) plan: Option<Box<Plan>>,
}

impl World {
    pub(super) fn new(options: KubeletOptions) -> Self {
        let rng = Rng::new(options.seed);
        Self {
            scheduler: Scheduler::new(&options),
            options,
            rng,
            attempts: Attempts::new(),
            next_ip: 1,
        }
    }

    /// An address that no other Pod has, until 16 million Pods later.
    pub(super) fn take_ip(&mut self) -> u32 {
        let ip = self.next_ip;
        self.next_ip = if ip >= POD_IPS { 1 } else { ip + 1 };
        ip
    }

    /// How long the Pod takes from its binding to the start of its containers.
    pub(super) fn start_delay(&self, pod: &Pod) -> Duration {
        let chance = self.chance(pod);
        let stage = self.stage_of(pod);
        let staged = stage.and_then(|stage| Some(stage.wait(stage.start?, "start", chance)));
        staged.unwrap_or(self.options.startup_latency)
    }

    /// How long the Pod's containers take to stop, and what they exit with if that is said.
    pub(super) fn stop_of(&self, pod: &Pod) -> (Duration, Option<u8>) {
        let stage = self.stage_of(pod);
        let staged = stage.and_then(|stage| Some((stage, stage.stop?)));
        staged.map_or((self.options.stop_delay, None), |(stage, stop)| {
            let delay = stage.wait(stop.after(), "stop", self.chance(pod));
            (delay, stop.exit_code)
        })
    }

    /// Decides how the try that begins at this time will go.
    pub(super) fn draw_try(&mut self, pod: &Pod, at: Time) -> Try {
        let settings = pod.shape.settings.as_ref().ok();
        let try_number = self.count_try(pod);
        let chance = self.chance(pod);
        let stage = self.stage_of(pod);
        let plan = stage.map(|stage| Box::new(Plan::of(stage, chance, at)));
        let staged_code = stage.and_then(|stage| stage.end.exit_code);
        let staged_duration =
            stage.and_then(|stage| Some(stage.wait(stage.end.after()?, "end", chance)));
        let fate = settings.map_or(Fate::Unsaid, |s| s.fate(pod.index, try_number));
        let code = match (staged_code, fate) {
            (Some(code), _) | (None, Fate::Exit(code)) => code,
            (None, Fate::Unsaid) if self.rng.chance(self.options.fail_rate) => 1,
            (None, Fate::Unsaid) => self.options.default_exit_code,
        };
        let duration = staged_duration.or_else(|| settings.and_then(|s| s.duration));
        Try {
            duration: duration.unwrap_or(self.options.default_duration),
            exit_code: i32::from(code),
            plan,
        }
    }

    /// Decides how the try of the init container whose turn it is will go.
    pub(super) fn draw_init(&mut self, pod: &Pod) -> InitTry {
        let (Some(inits), Ok(settings)) = (pod.inits.as_deref(), &pod.shape.settings) else {
            return InitTry::default();
        };
        let (nth, run) = (inits.turn, &inits.runs[inits.turn]);
        if run.is_done {
            return InitTry::default();
        }
        let restarts = run.restarts;
        let named = &pod.shape.inits;
        let place = named[..nth].iter().filter(|init| !init.sidecar).count();
        let said = settings.init(place);
        let failures = settings.init_fail_attempts;
        let tries = match (pod.shape.restart, &pod.job) {
            (Restart::Never, Some(job)) if said.exit_code != 0 && failures.is_some() => {
                let key = format_compact!("{job}/{nth}");
                self.attempts.next(&key, pod.index)
            }
            _ => restarts,
        };
        let mut init = InitTry {
            exit_code: match failures {
                Some(failures) if tries >= failures => 0,
                _ => said.exit_code,
            },
            ..said
        };
        let name = named[nth].name.as_str();
        let stage = self.stage_of(pod);
        if let Some((stage, staged)) = stage.and_then(|it| Some((it, it.init(name)?))) {
            let chance = Chance {
                restarts,
                ..self.chance(pod)
            };
            if let Some(wait) = staged.end().after() {
                let what = format_compact!("init/{name}");
                init.duration = stage.wait(wait, &what, chance);
            }
            if let Some(code) = staged.end().exit_code {
                let fails = staged.failures.is_none_or(|failures| restarts < failures);
                init.exit_code = code * u8::from(fails);
                init.reason = staged.end().reason.filter(|_| fails);
            }
        }
        init
    }

    /// The stage that the Pod lives by now.
    fn stage_of(&self, pod: &Pod) -> Option<&Stage> {
        let chance = self.chance(pod);
        let places = pod.stages.iter().map(|place| usize::from(*place));
        places
            .map(|place| &self.options.stages[place])
            .find(|stage| stage.picks(chance))
    }

    fn chance<'a>(&self, pod: &'a Pod) -> Chance<'a> {
        Chance {
            seed: self.options.seed,
            uid: &pod.uid,
            restarts: pod.run.restarts,
        }
    }

    /// How often this piece of work was tried before: restarts in place where the container
    /// restarts, else Pods of the same Job and index. Zero where nobody asks.
    fn count_try(&mut self, pod: &Pod) -> u32 {
        match (pod.shape.restart, &pod.job) {
            (Restart::Never, Some(job)) => self.attempts.next(job, pod.index),
            (Restart::Never | Restart::OnFailure | Restart::Always, _) => pod.run.restarts,
        }
    }
}

/// Addresses from 10.0.0.1 to 10.255.255.254.
const POD_IPS: u32 = (1 << 24) - 2;
