//! Adds third parties: queue managers, operators and users that write fields of a Job or of its status, and a kubelet
//! that identifies Pods by name alone.
//!
//! Must not: judge the outcome.

use serde_json::json;

use super::{
    casting::{BUSY, Profile, Scenario, TROUBLE_ENDS, job_spec, template},
    deeds::{Deed, job_path},
    dice::Dice,
    world::World,
};

/// A third party's write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThirdParty {
    /// Clears the start time, as Kueue does to a Job that it has suspended.
    ClearStart,
    /// Sets the start time.
    SetStart,
    /// Adds a condition of its own.
    Condition,
    /// Changes `ready`, which only a Job controller should.
    Gauge,
    /// Changes `failed`, which only a Job controller should.
    Counter,
    /// Changes labels and annotations of the Job.
    Metadata,
    /// Changes annotations of the template, as Kueue restores it.
    Template,
    /// Reports by name the failure of a Pod of an earlier run that is gone.
    LatePodStatus(u16),
}

/// Time within which a Job's Pods follow a change of its spec where nothing goes wrong, in milliseconds.
const PROMPT: u64 = 1_000;

impl Scenario {
    /// Makes the scenario of a seed in which third parties write to Jobs. In half of them nothing else happens, so that
    /// watches only get bookmarks in between.
    pub(crate) fn cast_third_parties(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x71d0);
        let mut scenario = match dice.permille(500) {
            true => Self::cast_alone(seed, &mut dice),
            false => Self::cast_among_others(seed, &mut dice),
        };
        scenario.gives_way = dice.permille(500);
        scenario.deeds.sort_by_key(|(at, _)| *at);
        scenario
    }

    /// A Job of long Pods, a queue manager and a user.
    fn cast_alone(seed: u64, dice: &mut Dice) -> Self {
        let mut scenario = Self::quiet(seed);
        let annotations = json!({"sim.lakh.dev/duration": "600s", "sim.lakh.dev/exit-code": "0"});
        let mut spec = json!({
            "parallelism": dice.between(1, 5), "completions": 20, "backoffLimit": 1_000,
            "suspend": dice.permille(300), "template": template(annotations, "Never"),
        });
        if dice.permille(500) {
            spec["completionMode"] = json!("Indexed");
        }
        scenario.deed(100, Deed::CreateJob(BUSY, 0, Box::new(spec)));
        let mut at = 4_000;
        while at < TROUBLE_ENDS - 10_000 {
            match dice.below(6) {
                // Kueue's way to stop a Job and to admit it again.
                0 | 1 => {
                    scenario.deed(at, Deed::Suspend(0, true));
                    at += dice.pick(&[0, 5, 40]);
                    scenario.deed(at, Deed::ThirdParty(ThirdParty::ClearStart, 0));
                    for _ in 0..dice.below(3) {
                        at += dice.pick(&[1, 60, 200]);
                        scenario.deed(at, Deed::ThirdParty(ThirdParty::Template, 0));
                    }
                    scenario.look(&mut at, dice);
                    scenario.deed(at, Deed::Suspend(0, false));
                }
                2 => scenario.deed(at, Deed::Scale(0, dice.below(6))),
                3 => {
                    scenario.deed(at, Deed::Suspend(0, true));
                    at += dice.pick(&[1, 30, 900]);
                    scenario.deed(at, Deed::Suspend(0, false));
                }
                _ => {
                    scenario.deed(at, Deed::ThirdParty(third_party(dice), 0));
                    at += dice.pick(&[0, 30, 3_000]);
                    scenario.deed(at, Deed::Scale(0, dice.below(6)));
                }
            }
            scenario.look(&mut at, dice);
        }
        scenario
    }

    /// The same third parties among many other faults.
    fn cast_among_others(seed: u64, dice: &mut Dice) -> Self {
        let others = [
            Profile::People,
            Profile::Watches,
            Profile::Writes,
            Profile::Crashes,
            Profile::Pods,
        ];
        let mut scenario = Self::cast(seed, &others);
        for _ in 0..dice.between(2, 8) {
            let (job, at) = (dice.below(3), dice.between(200, TROUBLE_ENDS - 20_000));
            if dice.permille(400) {
                scenario.deed(at, Deed::Suspend(job, true));
                let cleared = at + dice.below(50);
                scenario.deed(cleared, Deed::ThirdParty(ThirdParty::ClearStart, job));
                let again = cleared + dice.between(1, 5_000);
                scenario.deed(again, Deed::Suspend(job, false));
            } else {
                scenario.deed(at, Deed::ThirdParty(third_party(dice), job));
            }
        }
        if dice.permille(300) {
            let mut spec = job_spec(dice);
            spec["suspend"] = json!(true);
            scenario.deed(50, Deed::CreateJob(BUSY, 2, Box::new(spec)));
        }
        scenario
    }

    fn deed(&mut self, at: u64, deed: Deed) {
        self.deeds.push((at, deed));
    }

    /// Has the judges compare the Job's Pods with its spec after a while.
    fn look(&mut self, at: &mut u64, dice: &mut Dice) {
        *at += PROMPT;
        self.deed(*at, Deed::LookAtPods(0));
        *at += dice.pick(&[1, 300, 5_000, 33_000]);
    }
}

fn third_party(dice: &mut Dice) -> ThirdParty {
    let number = dice.next() as u16;
    dice.pick(&[
        ThirdParty::ClearStart,
        ThirdParty::SetStart,
        ThirdParty::Condition,
        ThirdParty::Gauge,
        ThirdParty::Counter,
        ThirdParty::Counter,
        ThirdParty::Metadata,
        ThirdParty::Template,
        ThirdParty::LatePodStatus(number),
    ])
}

impl World {
    /// Applies a third party's write to a Job.
    pub(crate) fn write_as_third_party(&mut self, what: ThirdParty, job: u64) {
        let path = job_path(job);
        let number = self.at % 1_000;
        let (path, patch) = match what {
            ThirdParty::LatePodStatus(number) => return self.report_late(number),
            ThirdParty::Metadata => {
                let changed = json!({"third": number.to_string()});
                let patch = json!({"metadata": {"labels": changed, "annotations": changed}});
                (path, patch)
            }
            ThirdParty::Template => {
                let annotations = json!({"third": number.to_string()});
                let metadata = json!({"annotations": annotations});
                (path, json!({"spec": {"template": {"metadata": metadata}}}))
            }
            ThirdParty::Condition => {
                let Some(mut conditions) = self.conditions(job) else {
                    return;
                };
                conditions.retain(|condition| condition["type"] != "Third");
                conditions
                    .push(json!({"type": "Third", "status": "True", "reason": number.to_string()}));
                (
                    status_of(path),
                    json!({"status": {"conditions": conditions}}),
                )
            }
            ThirdParty::ClearStart => (status_of(path), json!({"status": {"startTime": null}})),
            ThirdParty::SetStart => {
                let start = super::replica::date(self.at).to_rfc3339();
                (status_of(path), json!({"status": {"startTime": start}}))
            }
            ThirdParty::Gauge => (status_of(path), json!({"status": {"ready": number}})),
            ThirdParty::Counter => (status_of(path), json!({"status": {"failed": number}})),
        };
        let is_meddling = matches!(
            what,
            ThirdParty::SetStart | ThirdParty::Gauge | ThirdParty::Counter
        );
        if is_meddling {
            let by_job_controller = what != ThirdParty::SetStart;
            (self.judges).wrote_as_job_controller(
                &format!("job-{job}"),
                by_job_controller,
                self.at,
            );
        }
        self.ask("PATCH", &path, &patch.to_string());
    }

    fn conditions(&mut self, job: u64) -> Option<Vec<serde_json::Value>> {
        let (code, body) = self.ask("GET", &job_path(job), "");
        let job: serde_json::Value = serde_json::from_slice(&body).ok()?;
        let conditions = job["status"]["conditions"].as_array();
        (code == 200).then(|| conditions.cloned().unwrap_or_default())
    }

    /// Reports by name that a Pod of an earlier run failed.
    fn report_late(&mut self, number: u16) {
        let Some(name) = self.judges.pod_of_an_earlier_run(number) else {
            return;
        };
        let path = format!("/api/v1/namespaces/{BUSY}/pods/{name}/status");
        let failed = json!({"status": {"phase": "Failed"}});
        let (code, _) = self.ask("PATCH", &path, &failed.to_string());
        self.judges.reported_late(&name, code);
    }
}

fn status_of(job: String) -> String {
    job + "/status"
}
