//! Widens a scenario with features that few Jobs use, and with faults that matter only in combination.
//!
//! It draws from its own generator, so that [`Scenario::cast`] still makes the same scenario of a seed.
//!
//! Must not: know the controller's reaction.

use serde_json::{Value, json};

use super::{
    casting::{BUSY, HOSTILE, Profile, Scenario, TROUBLE_ENDS},
    deeds::{Deed, Propagation, Trouble},
    dice::Dice,
    server::Denial,
};

/// The controller's name where it works beside the built-in one.
pub(crate) const MANAGER: &str = "lakh.dev/job-controller";

/// The name of a controller that does not exist.
pub(crate) const OTHER_MANAGER: &str = "example.com/controller";

/// The Job that is stopped while other clients delete its Pods.
const STOPPED: u64 = 5;

/// The Job without a controller in the simulation.
const FOREIGN: u64 = 7;

/// Adds a feature or fault to a scenario.
type Cast = fn(&mut Scenario, &mut Dice);

impl Scenario {
    /// Makes the widened scenario of a seed.
    pub(crate) fn cast_wide(seed: u64, of: &[Profile]) -> Self {
        let mut scenario = Self::cast(seed, of);
        let mut dice = Dice::new(seed ^ 0x71de_0001);
        scenario.gives_way = dice.permille(500);
        scenario.widen_jobs(&mut dice.split());
        let bundles: [(u64, Cast); 7] = [
            (150, Self::add_cron_job),
            (120, Self::add_denial),
            (250, Self::add_stopped_job),
            (120, Self::add_late_answers),
            (120, Self::add_second_job_of_a_name),
            (120, Self::add_lost_statuses),
            (150, Self::add_managers),
        ];
        for (permille, add) in bundles {
            let mut dice = dice.split();
            if dice.permille(permille) {
                add(&mut scenario, &mut dice);
            }
        }
        scenario.deeds.sort_by_key(|(at, _)| *at);
        scenario.spare_endless_jobs();
        scenario
    }

    fn allow(&mut self, profile: Profile) {
        if !self.profiles.contains(&profile) {
            self.profiles.push(profile);
        }
    }

    /// Gives some Jobs an additional feature.
    fn widen_jobs(&mut self, dice: &mut Dice) {
        let mut lasts = 0;
        for (_, deed) in &mut self.deeds {
            let (Deed::CreateJob(BUSY, _, spec) | Deed::CreateJob(HOSTILE, _, spec)) = deed else {
                continue;
            };
            let mut dice = dice.split();
            if dice.permille(500) {
                lasts = widen(spec, &mut dice).max(lasts);
            }
        }
        self.lasts = lasts;
    }

    /// Adds a second CronJob in another time zone.
    fn add_cron_job(&mut self, dice: &mut Dice) {
        let spec = json!({
            "schedule": dice.pick(&["* * * * *", "*/2 * * * *", "1-59/2 * * * *"]),
            // Offsets of a three-quarter hour, so that even minutes are odd; of half an hour; and daylight saving time.
            "timeZone": dice.pick(&["Asia/Kathmandu", "Asia/Kolkata", "Pacific/Chatham", "Etc/UTC"]),
            "concurrencyPolicy": dice.pick(&["Allow", "Forbid", "Replace"]),
            "successfulJobsHistoryLimit": dice.below(3),
            "startingDeadlineSeconds": dice.pick(&[15, 100]),
            "jobTemplate": {"spec": {"template": template(json!({"sim.lakh.dev/duration": "1s"}))}},
        });
        self.at(
            dice.between(10, 20_000),
            Deed::CreateCronJob("cron-2", Box::new(spec)),
        );
    }

    /// Refuses one kind of write to the hostile namespace again and again, perhaps for ever.
    fn add_denial(&mut self, dice: &mut Dice) {
        let (method, resource) = dice.pick(&[
            ("PATCH", "pods"),
            ("DELETE", "pods"),
            ("PATCH", "jobs/status"),
        ]);
        let code = dice.pick(&[403, 409, 422, 500]);
        let at = dice.between(10, 20_000);
        let spec = json!({
            "parallelism": 2, "completions": 3,
            "template": template(json!({"sim.lakh.dev/duration": "4s", "sim.lakh.dev/exit-code": "0"})),
        });
        self.at(at, Deed::CreateJob(HOSTILE, 3, Box::new(spec)));
        let denial = Denial {
            method,
            resource,
            code,
        };
        self.at(at + dice.between(1, 8_000), Deed::Deny(Some(denial)));
        self.allow(Profile::Hostile);
    }

    /// Suspends a Job or scales it to zero while other clients delete its Pods.
    fn add_stopped_job(&mut self, dice: &mut Dice) {
        let spec = json!({
            "parallelism": 3, "completions": 6,
            "podReplacementPolicy": dice.pick(&["Failed", "Failed", "TerminatingOrFailed"]),
            "template": template(json!({"sim.lakh.dev/duration": "200s", "sim.lakh.dev/exit-code": "0"})),
        });
        let at = dice.between(20_000, TROUBLE_ENDS - 20_000);
        self.at(at - 10_000, Deed::CreateJob(BUSY, STOPPED, Box::new(spec)));
        self.at(
            at,
            match dice.permille(700) {
                true => Deed::Suspend(STOPPED, true),
                false => Deed::Scale(STOPPED, 0),
            },
        );
        for _ in 0..dice.between(2, 6) {
            self.at(
                at + dice.between(0, 30),
                Deed::DeletePod(dice.next() as u16),
            );
        }
    }

    /// Delays responses and events while Pods go. The controller may be restarted.
    fn add_late_answers(&mut self, dice: &mut Dice) {
        let at = dice.between(1_000, TROUBLE_ENDS - 40_000);
        self.at(at, Deed::Trouble(Trouble::LateAnswers, 12_000));
        if dice.permille(600) {
            self.at(at, Deed::Trouble(Trouble::LateEvents, 12_000));
            self.allow(Profile::Watches);
        }
        for _ in 0..dice.between(1, 3) {
            let number = dice.next() as u16;
            self.at(
                at + dice.between(0, 9_000),
                match dice.below(3) {
                    0 => Deed::DeletePod(number),
                    1 => Deed::FailPod(number),
                    _ => Deed::DeletePodByForce(number),
                },
            );
        }
        if dice.permille(500) {
            let at = at + dice.between(0, 9_000);
            self.at(at, Deed::Kill(0));
            self.at(at + dice.between(1, 3_000), Deed::Start(0));
            self.allow(Profile::Crashes);
        }
        self.allow(Profile::Writes);
        self.allow(Profile::Pods);
    }

    /// Deletes a Job and creates it again under its name while the controller gets no events. Pods are left over.
    fn add_second_job_of_a_name(&mut self, dice: &mut Dice) {
        let job = dice.below(3);
        let at = dice.between(2_000, TROUBLE_ENDS - 40_000);
        self.at(
            at,
            match dice.permille(500) {
                true => Deed::MuteStreams,
                false => Deed::Trouble(Trouble::LateEvents, 15_000),
            },
        );
        let ways = [
            Propagation::Orphan,
            Propagation::Background,
            Propagation::Foreground,
        ];
        let at = at + dice.between(1, 2_000);
        self.at(at, Deed::TakeOwner(dice.next() as u16));
        self.at(
            at + dice.between(0, 50),
            Deed::DeleteJob(job, dice.pick(&ways)),
        );
        let spec = json!({
            "parallelism": dice.between(1, 4), "completions": 4,
            "completionMode": dice.pick(&["Indexed", "NonIndexed"]),
            "template": template(json!({"sim.lakh.dev/duration": "2s", "sim.lakh.dev/exit-code": "0"})),
        });
        self.at(
            at + dice.between(51, 3_000),
            Deed::CreateJob(BUSY, job, Box::new(spec)),
        );
        self.at(
            at + dice.between(0, 3_000),
            Deed::TakeOwner(dice.next() as u16),
        );
        self.allow(Profile::Watches);
        self.allow(Profile::People);
        self.allow(Profile::Pods);
    }

    /// Loses most status responses while the Job is changed or the controller dies.
    fn add_lost_statuses(&mut self, dice: &mut Dice) {
        let at = dice.between(1_000, TROUBLE_ENDS - 40_000);
        self.at(at, Deed::Trouble(Trouble::LosesStatusAnswers, 15_000));
        let job = dice.below(3);
        for _ in 0..dice.between(1, 3) {
            let at = at + dice.between(0, 12_000);
            let size = dice.between(1, 8);
            self.at(
                at,
                match dice.below(4) {
                    0 => Deed::Suspend(job, dice.permille(300)),
                    1 => Deed::Scale(job, dice.between(1, 6)),
                    _ => Deed::Resize(job, size),
                },
            );
        }
        if dice.permille(300) {
            let at = at + dice.between(0, 12_000);
            self.at(at, Deed::Kill(0));
            self.at(at + dice.between(1, 3_000), Deed::Start(0));
            self.allow(Profile::Crashes);
        }
        self.allow(Profile::Writes);
        self.allow(Profile::People);
    }

    /// Adds Jobs of several controllers: one Job that no controller manages, and perhaps this controller beside the
    /// built-in one.
    fn add_managers(&mut self, dice: &mut Dice) {
        self.is_beside = dice.permille(500);
        if self.is_beside {
            for (_, deed) in &mut self.deeds {
                match deed {
                    Deed::CreateJob(_, _, spec) => spec["managedBy"] = json!(MANAGER),
                    Deed::CreateCronJob(_, spec) => {
                        spec["jobTemplate"]["spec"]["managedBy"] = json!(MANAGER);
                    }
                    _ => {}
                }
            }
        }
        let others = match self.is_beside {
            true => [OTHER_MANAGER, "", MANAGER],
            false => [OTHER_MANAGER, MANAGER, MANAGER],
        };
        for (number, name) in (FOREIGN..).zip(&others[..2]) {
            let mut spec = json!({
                "parallelism": 2, "completions": 2,
                "template": template(json!({"sim.lakh.dev/duration": "1s"})),
            });
            if !name.is_empty() {
                spec["managedBy"] = json!(name);
            }
            let at = dice.between(10, 40_000);
            self.at(at, Deed::CreateJob(BUSY, number, Box::new(spec)));
        }
    }
}

fn template(annotations: Value) -> Value {
    json!({
        "metadata": {"annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "main", "image": "busybox"}],
        },
    })
}

/// Gives a Job an additional feature. Returns the milliseconds by which the scenario gets longer.
fn widen(spec: &mut Value, dice: &mut Dice) -> u64 {
    let completions = dice.between(2, 6);
    let pod = |spec: &mut Value, key: &str, value: &str| {
        spec["template"]["metadata"]["annotations"][format!("sim.lakh.dev/{key}")] = json!(value);
    };
    let image = "busybox";
    match dice.below(7) {
        0 => {
            index_by_index(spec, completions, dice.below(3));
            let action = dice.pick(&["FailIndex", "FailIndex", "Count"]);
            spec["podFailurePolicy"] = json!({"rules": [
                {"action": action, "onExitCodes": {"operator": "In", "values": [42]}},
            ]});
            spec["podReplacementPolicy"] = json!("Failed");
            pod(spec, "fail-indexes", "1,3");
            pod(spec, "exit-code", dice.pick(&["1", "42", "42"]));
        }
        1 => {
            // Restarts in place, and failures by index.
            index_by_index(spec, completions, dice.below(3));
            spec["template"]["spec"]["restartPolicy"] = json!("OnFailure");
            pod(spec, "fail-indexes", "0,2");
            pod(spec, "exit-code", "1");
            pod(spec, "fail-attempts", dice.pick(&["1", "2"]));
        }
        2 => {
            // The policy names a container that fails, or one that does not.
            spec["template"]["spec"]["containers"] = json!([
                {"name": "main", "image": image}, {"name": "helper", "image": image},
            ]);
            never_restarts(spec);
            let action = dice.pick(&["FailJob", "Ignore"]);
            spec["podFailurePolicy"] = json!({"rules": [{
                "action": action,
                "onExitCodes": {
                    "containerName": dice.pick(&["main", "helper", "helper"]),
                    "operator": "In", "values": [1, 42],
                },
            }]});
            spec["podReplacementPolicy"] = json!("Failed");
        }
        3 => {
            // An init container that fails at first, or always.
            spec["template"]["spec"]["initContainers"] = json!([
                {"name": "setup", "image": image}, {"name": "fetch", "image": image},
            ]);
            pod(spec, "init-duration", "100ms,300ms");
            pod(spec, "init-exit-code", dice.pick(&["7", "0,7"]));
            if dice.permille(600) {
                pod(spec, "init-fail-attempts", "1");
            }
            never_restarts(spec);
            spec["podFailurePolicy"] = json!({"rules": [{
                "action": "FailJob",
                "onExitCodes": {
                    "containerName": dice.pick(&["setup", "fetch", "main"]),
                    "operator": "In", "values": [7],
                },
            }]});
            spec["podReplacementPolicy"] = json!("Failed");
        }
        4 => {
            spec["template"]["spec"]["initContainers"] = json!([
                {"name": "side", "image": image, "restartPolicy": "Always"},
            ]);
        }
        5 => {
            // Several containers: their restarts are added up.
            spec["template"]["spec"]["containers"] = json!([
                {"name": "main", "image": image}, {"name": "helper", "image": image},
            ]);
        }
        _ => {
            let ttl = dice.pick(&[1_800, 4_000, 15_000]);
            spec["ttlSecondsAfterFinished"] = json!(ttl);
            return ttl * 1_000 + 60_000;
        }
    }
    0
}

fn never_restarts(spec: &mut Value) {
    spec["template"]["spec"]["restartPolicy"] = json!("Never");
}

/// Makes it a Job with a backoff limit per index.
fn index_by_index(spec: &mut Value, completions: u64, limit: u64) {
    never_restarts(spec);
    spec["completionMode"] = json!("Indexed");
    spec["completions"] = json!(completions);
    spec["backoffLimit"] = Value::Null;
    spec["backoffLimitPerIndex"] = json!(limit);
    for field in ["maxFailedIndexes", "successPolicy", "podFailurePolicy"] {
        spec[field] = Value::Null;
    }
}
