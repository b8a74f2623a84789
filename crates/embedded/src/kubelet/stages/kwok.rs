//! Renders stages as kwok's `Stage` objects, for a cluster with a real API server.
//!
//! Responsible for: the objects, and the Pods that each selects; those for running init containers are in `kwok_inits`.
//! Must not: write statuses; `templates` has those.
//!
//! At every moment of a Pod's life at most one object selects it, so that no weights are needed. A jq expression
//! computes the stage of a Pod with the draws of `choose`, so a Pod lives the same life on hollow nodes and on kwok.
//! kwok itself draws only the jitter.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    By, LabelSelectorOperator, PlannedDisruption, Stage, Wait,
    choose::{BASE, DRAWS, ROUNDS},
    kwok_inits::{REGULAR_INITS, init_restarted},
    templates::{self, render},
};
use crate::kubelet::{DURATION, ranges::Ranges};

/// Returns the objects for these stages, for nodes, and for Pods that no stage selects. kwok has no default stages
/// beside these.
pub fn kwok_stages(stages: &[Stage], seed: u64) -> Vec<Value> {
    let life = life_of(stages, seed);
    let all = Renderer { life: &life };
    let mut objects = vec![node_ready()];
    objects.extend(all.unstaged());
    for stage in stages {
        objects.extend(all.staged(stage));
    }
    let obeys_as_usual = stages.iter().filter(|stage| stage.stop.is_none());
    let names: Vec<&str> = obeys_as_usual.map(Stage::name).chain([NONE]).collect();
    if stages.iter().any(|stage| !stage.inits.is_empty()) {
        objects.push(init_restarted());
    }
    objects.extend([
        all.restarted(),
        all.stopped("lakh-pod-stopped", &names, Wait::default(), SIGTERM),
        all.gone(),
    ]);
    objects
}

pub(super) struct Renderer<'a> {
    /// jq expression that returns the name of a Pod's stage.
    life: &'a str,
}

impl Renderer<'_> {
    fn unstaged(&self) -> Vec<Value> {
        let mut running = self.running("lakh-pod-running", NONE);
        running.delay(Wait::default());
        let mut ended = self.at_work("lakh-pod-ended", NONE);
        // Pods that do not belong to a Job run forever.
        ended.expect(".metadata.ownerReferences[]?.kind", "In", &["Job"]);
        ended.delay_of_annotation();
        vec![
            running.next(&render("running", &[("ready", "true")])),
            ended.next(&render("succeeded", &[])),
        ]
    }

    fn staged(&self, stage: &Stage) -> Vec<Value> {
        let name = &stage.name;
        let object = |what: &str| format!("lakh-pod-{what}-{name}");
        let mut objects = Vec::new();

        let mut running = self.running(&object("running"), name);
        running.delay(stage.start.unwrap_or_default());
        let ready = stage.ready.filter(|ready| ready.delay < stage.lasts());
        let is_ready = if ready.is_none() { "true" } else { "false" };
        if !stage.inits.is_empty() {
            running.expect(REGULAR_INITS, "DoesNotExist", &[]);
            objects.extend(self.inits(stage, is_ready));
        }
        objects.push(running.next(&render("running", &[("ready", is_ready)])));
        if let Some(wait) = ready {
            let mut readied = self.at_work(&object("ready"), name);
            readied.expect(READY, "NotIn", &["True"]);
            readied.delay(wait);
            objects.push(readied.next(&render("ready", &[])));
        }

        let ended = match stage.disruption {
            Some(planned) if planned.after().delay <= stage.lasts() => {
                self.disrupted(stage, planned, ready)
            }
            Some(_) | None => {
                let mut ended = self.at_work(&object("ended"), name);
                ended.wait_beside(ready, stage.end.after());
                let reason = stage.end.reason.map_or("Error", super::ExitReason::text);
                ended.next(&match stage.end.exit_code.unwrap_or(0) {
                    0 => render("succeeded", &[]),
                    code => {
                        let code = code.to_string();
                        render("failed", &[("code", &code), ("reason", reason)])
                    }
                })
            }
        };
        objects.push(ended);
        if let Some(stop) = stage.stop {
            let code = stop.exit_code.unwrap_or(SIGTERM);
            objects.push(self.stopped(&object("stopped"), &[name], stop.after(), code));
        }
        objects
    }

    fn disrupted(&self, stage: &Stage, planned: PlannedDisruption, ready: Option<Wait>) -> Value {
        let cause = planned.cause;
        let mut disrupted =
            self.at_work(&format!("lakh-pod-disrupted-{}", stage.name), &stage.name);
        disrupted.wait_beside(ready, Some(planned.after()));
        let mut object = disrupted.next(&templates::disrupted(cause));
        if cause.by() != By::Kubelet {
            object["spec"]["next"]["delete"] = true.into();
        }
        object
    }

    /// Restarts a container after the kubelet's backoff.
    fn restarted(&self) -> Value {
        let mut restarted = KwokStageBuilder::alive("lakh-pod-restarted", "Running");
        restarted.expect(WAITING, "In", &["CrashLoopBackOff"]);
        restarted.back_off(RESTARTS);
        restarted.next(&render("restarted", &[]))
    }

    /// Ends the containers of a Pod that is being deleted.
    fn stopped(&self, name: &str, lives: &[&str], after: Wait, code: u8) -> Value {
        let mut stopped = KwokStageBuilder::deleted(name, &["Pending", "Running"]);
        stopped.expect(self.life, "In", lives);
        stopped.delay(after);
        let (phase, reason, why) = match code {
            0 => ("Succeeded", "Completed", "PodCompleted"),
            _ => ("Failed", "Error", "PodFailed"),
        };
        let code = code.to_string();
        let values = [
            ("phase", phase),
            ("code", &code),
            ("reason", reason),
            ("why", why),
        ];
        stopped.next(&render("stopped", &values))
    }

    /// Deletes an ended Pod for good, once; other components remove its finalizers.
    fn gone(&self) -> Value {
        let mut gone = KwokStageBuilder::deleted("lakh-pod-gone", &["Succeeded", "Failed"]);
        let has_time = ".metadata.deletionGracePeriodSeconds | select(. > 0)";
        gone.expect(has_time, "Exists", &[]);
        gone.spec["next"] = json!({"delete": true});
        gone.into_value()
    }

    /// Selects a Pod that has a node but has not started.
    pub(super) fn running(&self, name: &str, life: &str) -> KwokStageBuilder {
        let mut object = KwokStageBuilder::alive(name, "Pending");
        object.expect(self.life, "In", &[life]);
        object
    }

    /// Selects a Pod whose containers run.
    fn at_work(&self, name: &str, life: &str) -> KwokStageBuilder {
        let mut object = KwokStageBuilder::alive(name, "Running");
        object.expect(WAITING, "DoesNotExist", &[]);
        object.expect(self.life, "In", &[life]);
        object
    }
}

impl Stage {
    /// Returns the run time of its Pods, if given.
    fn lasts(&self) -> Duration {
        self.end.after().map_or(Duration::MAX, |wait| wait.delay)
    }
}

/// A node must be Ready before Pods are scheduled to it.
fn node_ready() -> Value {
    let mut ready = KwokStageBuilder::new("lakh-node-ready");
    ready.expect(READY, "NotIn", &["True"]);
    let mut object = ready.next(&render("node-ready", &[]));
    object["spec"]["resourceRef"]["kind"] = "Node".into();
    object
}

/// Builder of one object.
pub(super) struct KwokStageBuilder {
    name: String,
    expectations: Vec<Value>,
    spec: Value,
}

impl KwokStageBuilder {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            expectations: Vec::new(),
            spec: json!({}),
        }
    }

    /// Selects a Pod in this phase that is not being deleted.
    pub(super) fn alive(name: &str, phase: &str) -> Self {
        let mut object = Self::new(name);
        object.expect(DELETED, "DoesNotExist", &[]);
        object.expect(".status.phase", "In", &[phase]);
        object
    }

    fn deleted(name: &str, phases: &[&str]) -> Self {
        let mut object = Self::new(name);
        object.expect(DELETED, "Exists", &[]);
        object.expect(".status.phase", "In", phases);
        object
    }

    pub(super) fn expect(&mut self, key: &str, operator: &str, values: &[&str]) {
        let mut expectation = json!({"key": key, "operator": operator});
        if !values.is_empty() {
            expectation["values"] = values.into();
        }
        self.expectations.push(expectation);
    }

    /// kwok's jitter is the upper bound of the delay, not an addition to it.
    pub(super) fn delay(&mut self, wait: Wait) {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let mut delay = json!({"durationMilliseconds": millis(wait.delay)});
        if !wait.jitter.is_zero() {
            delay["jitterDurationMilliseconds"] = millis(wait.delay + wait.jitter).into();
        }
        self.spec["delay"] = delay;
    }

    /// Sets the rest of a wait that began before the Pod became ready. Without a wait, the annotation sets the delay.
    fn wait_beside(&mut self, ready: Option<Wait>, wait: Option<Wait>) {
        match (wait, ready) {
            (Some(wait), ready) => self.delay(Wait {
                delay: wait.delay.saturating_sub(ready.unwrap_or_default().delay),
                ..wait
            }),
            (None, _) => self.delay_of_annotation(),
        }
        if ready.is_some() {
            self.expect(READY, "In", &["True"]);
        }
    }

    fn delay_of_annotation(&mut self) {
        self.delay_from(&format!(".metadata.annotations[\"{DURATION}\"]"));
    }

    /// Sets the kubelet's backoff for a container with this number of restarts.
    pub(super) fn back_off(&mut self, restarts: &str) {
        self.delay_from(&format!(
            "{restarts} | if . == 0 then \"0s\" elif . > 5 then \"300s\" \
             else ([range(1; .)] | reduce .[] as $n (10; . * 2) | \"\\(.)s\") end"
        ));
    }

    fn delay_from(&mut self, expression: &str) {
        self.spec["delay"] = json!({
            "durationMilliseconds": 0,
            "durationFrom": {"expressionFrom": expression},
        });
    }

    pub(super) fn next(mut self, template: &str) -> Value {
        self.spec["next"] = json!({"statusTemplate": template});
        self.into_value()
    }

    fn into_value(self) -> Value {
        let mut spec = self.spec;
        spec["resourceRef"] = json!({"apiGroup": "v1", "kind": "Pod"});
        spec["selector"] = json!({"matchExpressions": self.expectations});
        json!({
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "Stage",
            "metadata": {"name": self.name},
            "spec": spec,
        })
    }
}

/// Returns a jq expression for the name of the first stage that selects a Pod and wins its draw.
fn life_of(stages: &[Stage], seed: u64) -> String {
    let mut text = String::new();
    if stages.iter().any(|stage| stage.probability < 1.0) {
        let rounds = ROUNDS.map(|add| format!(" | (. * . % {DRAWS} * . + {add}) % {DRAWS}"));
        text = format!(
            "def draw($of): ($of + .metadata.uid + \"/\" + ({RESTARTS} | tostring)) | explode \
             | reduce .[] as $c (0; (. * {BASE} + $c + 1) % {DRAWS}){}; ",
            rounds.concat()
        );
    }
    for (nth, stage) in stages.iter().enumerate() {
        let keyword = if nth == 0 { "if" } else { "elif" };
        let condition = condition(stage, seed);
        text.push_str(&format!(
            "{keyword} {condition} then {} ",
            quoted(&stage.name)
        ));
    }
    match stages.is_empty() {
        true => text + &quoted(NONE),
        false => text + &format!("else {} end", quoted(NONE)),
    }
}

fn condition(stage: &Stage, seed: u64) -> String {
    let pods = &stage.pods;
    let mut all = Vec::new();
    if let Some(namespace) = &pods.namespace {
        all.push(format!(".metadata.namespace == {}", quoted(namespace)));
    }
    let label = |key: &str| format!(".metadata.labels[{}]", quoted(key));
    for (key, value) in &pods.labels {
        all.push(format!("{} == {}", label(key), quoted(value)));
    }
    for requirement in &pods.requirements {
        let label = label(&requirement.key);
        let values = requirement.values.iter();
        let same: Vec<String> = values
            .map(|value| format!(". == {}", quoted(value)))
            .collect();
        let is_listed = format!("({label} | {})", same.join(" or "));
        all.push(match requirement.operator {
            LabelSelectorOperator::In => is_listed,
            LabelSelectorOperator::NotIn => format!("({is_listed} | not)"),
            LabelSelectorOperator::Exists => format!("{label} != null"),
            LabelSelectorOperator::DoesNotExist => format!("{label} == null"),
        });
    }
    if let Some(indexes) = &pods.indexes {
        all.push(within(INDEX, indexes));
    }
    if let Some(restarts) = &pods.restarts {
        all.push(within(RESTARTS, restarts));
    }
    if stage.probability < 1.0 {
        let of = quoted(&format!("{seed}/{}/picked/", stage.name));
        all.push(format!("draw({of}) < {}", stage.share()));
    }
    match all.is_empty() {
        true => "true".to_owned(),
        false => all.join(" and "),
    }
}

fn within(number: &str, ranges: &Ranges) -> String {
    let ranges = ranges
        .iter()
        .map(|range| match (range.start(), range.end()) {
            (first, last) if first == last => format!(". == {first}"),
            (first, last) => format!("(. >= {first} and . <= {last})"),
        });
    let ranges: Vec<String> = ranges.collect();
    format!("({number} | {})", ranges.join(" or "))
}

/// Quotes a text for jq, which accepts JSON's escapes.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Stage name of a Pod that no stage selects; not valid as a name in a file.
const NONE: &str = "-";
const SIGTERM: u8 = 143;
const DELETED: &str = ".metadata.deletionTimestamp";
const READY: &str = ".status.conditions[]? | select(.type == \"Ready\") | .status";
const WAITING: &str = ".status.containerStatuses[]?.state.waiting.reason";
const RESTARTS: &str = "([.status.containerStatuses[]?.restartCount] | max // 0)";
const INDEX: &str = "(.metadata.annotations[\"batch.kubernetes.io/job-completion-index\"] \
                     // .metadata.labels[\"batch.kubernetes.io/job-completion-index\"] \
                     // \"-1\" | tonumber)";
