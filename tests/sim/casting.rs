//! Makes a scenario from a seed: the Jobs, the actions on them, and the faults with their times.
//!
//! A scenario is a list of timed deeds, so that it can be printed and shortened.
//!
//! Must not: know the controller's reaction.

use lakh::{
    informer::PageBounds,
    model::{Division, Partition},
};
use serde_json::{Value, json};

use super::{
    deeds::{Deed, Propagation, Trouble},
    dice::Dice,
    server::Webhook,
};

/// End of all deeds, in milliseconds. After it nothing goes wrong.
pub(crate) const TROUBLE_ENDS: u64 = 90_000;

/// The namespace without interference.
pub(crate) const QUIET: &str = "quiet";

/// The namespace in which users work.
pub(crate) const BUSY: &str = "busy";

/// The namespace with a hostile client.
pub(crate) const HOSTILE: &str = "hostile";

/// The kinds of fault that a scenario may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Users edit, suspend, scale, delete and re-create.
    People,
    /// Lost, late, duplicated and reordered events, stale lists, 410.
    Watches,
    /// Writes that fail before or after they took effect, and refusals.
    Writes,
    /// A crash between any two steps; stalls.
    Crashes,
    /// Two controllers at once.
    Two,
    /// An API server that comes back with an older state.
    Backup,
    /// Nodes are lost, Pods are deleted by force, finalizers are stripped.
    Pods,
    /// A client floods the server, refuses requests, changes new objects, and writes foreign statuses.
    Hostile,
    /// Wall clocks are set.
    Clocks,
}

impl Profile {
    pub(crate) const ALL: [Self; 9] = [
        Self::People,
        Self::Watches,
        Self::Writes,
        Self::Crashes,
        Self::Two,
        Self::Backup,
        Self::Pods,
        Self::Hostile,
        Self::Clocks,
    ];
}

/// A seeded scenario: timed deeds and the options of the controllers. The same seed gives the same scenario.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) deeds: Vec<(u64, Deed)>,
    /// Share of container runs that fail where no annotation sets the outcome, in thousandths.
    pub(crate) fail_permille: u64,
    /// The controllers' limit on calls a second; 0 for none.
    pub(crate) qps: u32,
    /// Number of shards per controller.
    pub(crate) shards: usize,
    /// One of several controllers leads.
    pub(crate) is_elected: bool,
    /// Partition of the namespaces among controllers, if they share.
    pub(crate) partition: Option<Partition>,
    /// The server supports selection by shard range.
    pub(crate) selects_shards: bool,
    /// Jobs that need all their Pods at once get a Workload and a PodGroup.
    pub(crate) gangs: bool,
    /// Most Pods that a status may list as uncounted.
    pub(crate) max_uncounted: u32,
    /// The hostile namespace's quota and webhook stay to the end.
    pub(crate) obstacles_stay: bool,
    /// A scenario that takes more steps is in a loop.
    pub(crate) max_steps: u64,
    /// Additional virtual time at the end, in milliseconds.
    pub(crate) lasts: u64,
    /// The controllers run beside the built-in one, by `managedBy`.
    pub(crate) is_beside: bool,
    /// A controller stops creating Pods while another Job controller writes statuses, as the released one does.
    pub(crate) gives_way: bool,
    /// Bounds of the pages of lists.
    pub(crate) pages: PageBounds,
    /// Bytes that templates may take.
    pub(crate) template_bytes: usize,
}

/// Returns memory for all templates, for those of a few Jobs, or for none. The other templates are read from the
/// server.
fn small_memory(seed: u64) -> usize {
    let mut dice = Dice::new(seed ^ 0x7e3b);
    dice.pick(&[64 << 20, 8 << 10, 3 << 10, 1])
}

/// Returns bounds for small pages, so that a list has several. They limit the objects, or the bytes such that a page of
/// three objects may be too long.
fn small_pages(seed: u64) -> PageBounds {
    let mut dice = Dice::new(seed ^ 0x9a6e);
    let wanted = dice.pick(&[2 << 10, 8 << 10, 4 << 20]);
    PageBounds {
        objects: dice.pick(&[1, 2, 3, 500]),
        wanted,
        // Longer than any object, and shorter than three large ones.
        longest: (8 * wanted).max(32 << 10),
    }
}

impl Scenario {
    /// A scenario without deeds and faults.
    pub(crate) fn quiet(seed: u64) -> Self {
        Self {
            seed,
            profiles: Vec::new(),
            deeds: Vec::new(),
            fail_permille: 0,
            qps: 0,
            shards: 1,
            is_elected: false,
            partition: None,
            selects_shards: false,
            gangs: false,
            max_uncounted: 500,
            obstacles_stay: false,
            max_steps: 60_000,
            lasts: 0,
            is_beside: false,
            gives_way: false,
            pages: PageBounds::default(),
            template_bytes: 64 << 20,
        }
    }

    /// Makes the scenario of a seed, with some of these profiles.
    pub(crate) fn cast(seed: u64, of: &[Profile]) -> Self {
        let mut dice = Dice::new(seed ^ 0x5c3e_a210);
        let share = dice.pick(&[150, 300, 600]);
        let mut profiles = Vec::new();
        for profile in of {
            if dice.permille(share) {
                profiles.push(*profile);
            }
        }
        // Two controllers with different events may undo each other's writes until one of them catches up or stops. So
        // a call a millisecond for a minute and a half is no proof of an endless loop.
        let is_shared = profiles.contains(&Profile::Two);
        let mut scenario = Self {
            seed,
            profiles,
            deeds: Vec::new(),
            fail_permille: dice.pick(&[0, 0, 100, 400]),
            qps: dice.pick(&[0, 0, 0, 20]),
            shards: dice.pick(&[1, 1, 1, 3]),
            is_elected: false,
            partition: None,
            selects_shards: false,
            gangs: dice.permille(200),
            max_uncounted: 500,
            obstacles_stay: dice.permille(300),
            max_steps: if is_shared { 300_000 } else { 60_000 },
            lasts: 0,
            is_beside: false,
            gives_way: false,
            pages: small_pages(seed),
            template_bytes: small_memory(seed),
        };
        scenario.cast_jobs(&mut dice.split());
        for profile in scenario.profiles.clone() {
            let mut dice = dice.split();
            for _ in 0..dice.between(1, 4) {
                let at = dice.between(200, TROUBLE_ENDS - 20_000);
                scenario.cast_deeds(profile, at, &mut dice);
            }
        }
        if dice.permille(300) {
            scenario.max_uncounted = 1;
        }
        scenario.deeds.sort_by_key(|(at, _)| *at);
        scenario.spare_endless_jobs();
        scenario.enlarge_templates();
        scenario
    }

    /// Makes the scenario of a seed in which two controllers stand for election. Either of them is killed, stalled,
    /// stopped or restarted.
    pub(crate) fn cast_election(seed: u64) -> Self {
        Self::cast_replicas(seed, &[0, 1])
    }

    /// Does the same with three controllers that share the namespaces.
    pub(crate) fn cast_sharing(seed: u64) -> Self {
        let mut scenario = Self::cast_replicas(seed, &[0, 1, 2]);
        let mut dice = Dice::new(seed ^ 0x5a4e);
        scenario.partition = Some(Partition {
            ranges: dice.pick(&[2, 3, 5, 8]),
            by: dice.pick(&[Division::Remainder, Division::Interval]),
        });
        scenario.selects_shards = dice.pick(&[true, true, false]);
        scenario.shards = 1;
        let at = dice.between(10, 40_000);
        scenario.at(at, Deed::Start(2));
        scenario.deeds.sort_by_key(|(at, _)| *at);
        scenario
    }

    fn cast_replicas(seed: u64, all: &[usize]) -> Self {
        let others = [
            Profile::People,
            Profile::Watches,
            Profile::Writes,
            Profile::Pods,
            Profile::Hostile,
            Profile::Clocks,
        ];
        let mut scenario = Self::cast(seed, &others);
        let mut dice = Dice::new(seed ^ 0x1ead);
        scenario.is_elected = true;
        scenario.max_steps = 300_000;
        let at = dice.between(10, 5_000);
        scenario.at(at, Deed::Start(1));
        for _ in 0..dice.between(1, 5) {
            let at = dice.between(200, TROUBLE_ENDS - 30_000);
            let who = dice.pick(all);
            let again = at + 300 + dice.pick(&[1, 3_000, 20_000]);
            match dice.below(4) {
                0 => scenario.at(at, Deed::Stall(who, dice.pick(&[3_000, 12_000, 30_000]))),
                1 => {
                    scenario.at(at, Deed::Stop(who));
                    scenario.at(at + dice.between(1, 300), Deed::Kill(who));
                }
                2 => scenario.at(at, Deed::KillAfter(who, dice.below(400))),
                _ => scenario.at(at, Deed::Kill(who)),
            }
            scenario.at(again, Deed::Start(who));
        }
        scenario.deeds.sort_by_key(|(at, _)| *at);
        scenario
    }

    /// Limits forward clock jumps to less than a backoff where a Job creates Pods for ever. As upstream, a wait starts
    /// by the node's clock and ends by the controller's.
    pub(crate) fn spare_endless_jobs(&mut self) {
        let is_endless = |(_, deed): &(u64, Deed)| match deed {
            Deed::CreateJob(_, _, spec) => {
                let rule = &spec["podFailurePolicy"]["rules"][0];
                let code = &spec["template"]["metadata"]["annotations"]["sim.lakh.dev/exit-code"];
                let values = rule["onExitCodes"]["values"].as_array();
                let code = code.as_str().and_then(|code| code.parse().ok());
                let is_meant = |value: &Value| value.as_i64() == code && code.is_some();
                let ignores = values.is_some_and(|values| values.iter().any(is_meant));
                rule["action"] == "Ignore" && ignores
            }
            _ => false,
        };
        if self.deeds.iter().any(is_endless) {
            for (_, deed) in &mut self.deeds {
                if let Deed::SetClock(_, skew) = deed {
                    *skew = (*skew).min(5_000);
                }
            }
        }
    }

    /// Returns the number of shards of one controller, each with its own memory.
    pub(crate) fn parts(&self) -> usize {
        self.partition.map_or(self.shards, |it| it.ranges as usize)
    }

    /// Enlarges some Jobs' templates to the size of list pages or of the template memory.
    fn enlarge_templates(&mut self) {
        let mut dice = Dice::new(self.seed ^ 0x1a26);
        for (_, deed) in &mut self.deeds {
            let Deed::CreateJob(_, _, spec) = deed else {
                continue;
            };
            if dice.permille(150) {
                let text = "x".repeat(dice.pick(&[1 << 10, 4 << 10, 12 << 10]));
                let container = &mut spec["template"]["spec"]["containers"][0];
                container["env"] = json!([{"name": "LARGE", "value": text}]);
            }
        }
    }

    fn has(&self, profile: Profile) -> bool {
        self.profiles.contains(&profile)
    }

    pub(crate) fn at(&mut self, at: u64, deed: Deed) {
        self.deeds.push((at, deed));
    }

    fn cast_jobs(&mut self, dice: &mut Dice) {
        for number in 0..dice.between(1, 3) {
            let at = dice.between(10, 20_000);
            let spec = job_spec(dice);
            self.at(at, Deed::CreateJob(BUSY, number, Box::new(spec)));
        }
        let at = dice.between(10, 40_000);
        self.at(at, Deed::CreateJob(QUIET, 0, Box::new(bystander())));
        if dice.permille(250) {
            let at = dice.between(10, 20_000);
            let cron_job = cron_job(dice);
            self.at(at, Deed::CreateCronJob("cron", Box::new(cron_job)));
        }
        if self.has(Profile::Hostile) {
            let at = dice.between(10, 20_000);
            let spec = job_spec(dice);
            self.at(at, Deed::CreateJob(HOSTILE, 0, Box::new(spec)));
        }
    }

    fn cast_deeds(&mut self, profile: Profile, at: u64, dice: &mut Dice) {
        let job = dice.below(3);
        let millis = dice.pick(&[500, 3_000, 15_000]);
        let trouble = |of: &[Trouble], dice: &mut Dice| Deed::Trouble(dice.pick(of), millis);
        match profile {
            Profile::People => self.cast_people(job, at, dice),
            Profile::Watches => {
                let deed = match dice.below(9) {
                    0 => Deed::CutStreams,
                    1 => Deed::MuteStreams,
                    2 => {
                        // A returning client has missed events that the server no longer has.
                        self.at(at, Deed::Trouble(Trouble::Down, millis));
                        self.at(at, Deed::CutStreams);
                        self.at(at + millis - 1, Deed::ForgetEvents);
                        return;
                    }
                    3 => Deed::ForgetEvents,
                    _ => trouble(
                        &[
                            Trouble::LateEvents,
                            Trouble::DoublesEvents,
                            Trouble::SwapsEvents,
                            Trouble::StaleLists,
                            Trouble::Slow,
                        ],
                        dice,
                    ),
                };
                self.at(at, deed);
            }
            Profile::Writes => {
                let deed = trouble(
                    &[
                        Trouble::Down,
                        Trouble::LosesRequests,
                        Trouble::LosesAnswers,
                        Trouble::SendsTwice,
                        Trouble::Busy,
                        Trouble::Failing,
                        Trouble::Unavailable,
                        Trouble::Unauthorized,
                        Trouble::Forbidden,
                        Trouble::Conflicting,
                        Trouble::Invalid,
                    ],
                    dice,
                );
                self.at(at, deed);
            }
            Profile::Crashes => match dice.below(4) {
                0 => self.at(at, Deed::Stall(0, millis)),
                1 => {
                    self.at(at, Deed::Stop(0));
                    self.at(at + dice.between(1, 300), Deed::Kill(0));
                    self.at(at + 300 + millis, Deed::Start(0));
                }
                _ => {
                    self.at(at, Deed::KillAfter(0, dice.below(400)));
                    // Long enough for so many steps. A controller that still runs is not started again.
                    let again = dice.pick(&[1, 40, 1_000, millis]);
                    self.at(at + again, Deed::Start(0));
                    self.at(at + again + 2_000, Deed::Start(0));
                    self.at(at + again + 20_000, Deed::Start(0));
                }
            },
            Profile::Two => {
                self.at(at, Deed::Start(1));
                let end = at + millis;
                let leaves = dice.pick(&[0, 1]);
                self.at(end, Deed::Kill(leaves));
            }
            Profile::Backup => {
                self.at(at, Deed::BackUp);
                self.at(at + millis, Deed::Restore);
            }
            Profile::Pods => {
                let deed = match dice.below(6) {
                    0 => Deed::LoseNode(dice.below(2)),
                    1 => Deed::AddNode(dice.below(2)),
                    2 => Deed::StripFinalizer(dice.next() as u16),
                    3 => Deed::DeletePodByForce(dice.next() as u16),
                    4 => Deed::DeletePod(dice.next() as u16),
                    5 if dice.permille(500) => Deed::TakeOwner(dice.next() as u16),
                    _ => Deed::FailPod(dice.next() as u16),
                };
                self.at(at, deed);
            }
            Profile::Hostile => self.cast_hostile(at, millis, dice),
            Profile::Clocks => {
                let skew = dice.pick(&[-3_600_000, -5_000, 5_000, 3_600_000]);
                self.at(at, Deed::SetClock(0, skew));
                // Otherwise the clock is right again when all faults end.
                if dice.permille(700) {
                    self.at(at + millis, Deed::SetClock(0, 0));
                }
            }
        }
    }

    fn cast_people(&mut self, job: u64, at: u64, dice: &mut Dice) {
        let number = dice.next() as u16;
        let ways = [
            Propagation::Background,
            Propagation::Foreground,
            Propagation::Orphan,
        ];
        match dice.below(8) {
            0 => {
                self.at(at, Deed::Suspend(job, true));
                self.at(at + dice.between(1, 10_000), Deed::Suspend(job, false));
            }
            1 => self.at(at, Deed::Scale(job, dice.below(7))),
            2 => self.at(at, Deed::Resize(job, dice.between(1, 8))),
            3 => self.at(at, Deed::DeleteJob(job, dice.pick(&ways))),
            4 => {
                self.at(at, Deed::DeleteJob(job, dice.pick(&ways)));
                let spec = job_spec(dice);
                let again = at + dice.between(1, 5_000);
                self.at(again, Deed::CreateJob(BUSY, job, Box::new(spec)));
            }
            5 => self.at(at, Deed::SetDeadline(job, dice.between(1, 30))),
            6 => self.at(at, Deed::SuspendCronJob(dice.permille(500))),
            _ => self.at(at, Deed::DeletePod(number)),
        }
    }

    fn cast_hostile(&mut self, at: u64, millis: u64, dice: &mut Dice) {
        let number = dice.next() as u16;
        match dice.below(8) {
            0 => self.at(at, Deed::Flood(dice.between(3, 12))),
            1 => {
                let webhook = match dice.below(7) {
                    0 => Webhook::Strips,
                    6 => Webhook::Squats,
                    1 | 2 => {
                        self.at(at + 500, Deed::Flood(12));
                        Webhook::IsSlow
                    }
                    _ => Webhook::Refuses(dice.pick(&[400, 403, 409, 422, 429, 500, 503])),
                };
                self.at(at, Deed::SetWebhook(Some(webhook)));
                if !self.obstacles_stay {
                    self.at(at + 2 * millis, Deed::SetWebhook(None));
                }
            }
            2 => {
                self.at(at, Deed::SetQuota(dice.below(4)));
                if !self.obstacles_stay {
                    self.at(at + 2 * millis, Deed::RemoveQuota);
                }
            }
            3 => self.at(at, Deed::ForeignOwner(number)),
            4 => self.at(at, Deed::EditIndex(number)),
            5 => self.at(at, Deed::TakeLabels(number)),
            6 => self.at(at, Deed::WriteStatus(dice.below(3))),
            _ => self.at(at, Deed::ForgedPod(number)),
        }
    }
}

/// Spec of a Job without interference: three Pods of a second each.
fn bystander() -> Value {
    json!({
        "completions": 3, "parallelism": 2,
        "template": template(dice_free_annotations(), "Never"),
    })
}

fn dice_free_annotations() -> Value {
    json!({"sim.lakh.dev/duration": "1s", "sim.lakh.dev/exit-code": "0"})
}

pub(crate) fn template(annotations: Value, restart_policy: &str) -> Value {
    json!({
        "metadata": {"annotations": annotations},
        "spec": {
            "restartPolicy": restart_policy,
            "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "main", "image": "busybox"}],
        },
    })
}

/// Returns the spec of a random Job.
pub(crate) fn job_spec(dice: &mut Dice) -> Value {
    let is_indexed = dice.permille(600);
    let completions = dice.between(1, 8);
    let restart_policy = if dice.permille(150) {
        "OnFailure"
    } else {
        "Never"
    };
    let duration = dice.pick(&["0s", "200ms", "2s", "7s"]);
    let mut annotations = json!({"sim.lakh.dev/duration": duration});
    match dice.below(5) {
        0 => annotations["sim.lakh.dev/exit-code"] = json!(dice.pick(&["1", "42"])),
        1 if is_indexed => annotations["sim.lakh.dev/fail-indexes"] = json!("1,3"),
        2 | 3 => annotations["sim.lakh.dev/exit-code"] = json!("0"),
        _ => {}
    }
    let mut spec = json!({
        "parallelism": dice.between(1, 5),
        "backoffLimit": dice.pick(&[0, 1, 2, 6]),
        "template": template(annotations, restart_policy),
    });
    if is_indexed || dice.permille(700) {
        spec["completions"] = json!(completions);
    }
    if is_indexed {
        if dice.permille(300) {
            // All Pods at once, as in a gang.
            spec["parallelism"] = json!(completions);
        }
        spec["completionMode"] = json!("Indexed");
        if restart_policy == "Never" && dice.permille(300) {
            spec["backoffLimitPerIndex"] = json!(dice.below(3));
            if dice.permille(500) {
                spec["maxFailedIndexes"] = json!(dice.below(completions + 1));
            }
            spec["backoffLimit"] = Value::Null;
        }
        if dice.permille(200) {
            let some = dice.between(1, completions);
            let rule = match dice.permille(500) {
                true => {
                    let named: Vec<String> = (some / 2..some).map(|at| at.to_string()).collect();
                    json!({"succeededIndexes": named.join(",")})
                }
                false => json!({"succeededCount": some}),
            };
            spec["successPolicy"] = json!({"rules": [rule]});
        }
    }
    if restart_policy == "Never" && dice.permille(250) {
        let action = dice.pick(&["FailJob", "Ignore", "Count"]);
        spec["podFailurePolicy"] = json!({"rules": [{
            "action": action,
            "onExitCodes": {"operator": "In", "values": [42]},
        }, {
            "action": "Ignore",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        }]});
    }
    if dice.permille(250) || !spec["podFailurePolicy"].is_null() {
        spec["podReplacementPolicy"] = json!("Failed");
    } else if dice.permille(200) {
        spec["podReplacementPolicy"] = json!("TerminatingOrFailed");
    }
    if dice.permille(150) {
        spec["activeDeadlineSeconds"] = json!(dice.between(1, 40));
    }
    if dice.permille(150) {
        spec["ttlSecondsAfterFinished"] = json!(dice.below(20));
    }
    if dice.permille(80) {
        spec["suspend"] = json!(true);
    }
    spec
}

/// Returns the spec of a CronJob with short Jobs.
fn cron_job(dice: &mut Dice) -> Value {
    let policy = dice.pick(&["Allow", "Forbid", "Replace"]);
    let duration = dice.pick(&["1s", "50s", "80s"]);
    json!({
        "schedule": dice.pick(&["* * * * *", "*/2 * * * *"]),
        "concurrencyPolicy": policy,
        "successfulJobsHistoryLimit": dice.below(3),
        "failedJobsHistoryLimit": dice.below(2),
        "startingDeadlineSeconds": dice.pick(&[15, 100]),
        "jobTemplate": {"spec": {
            "template": template(json!({"sim.lakh.dev/duration": duration}), "Never"),
        }},
    })
}
