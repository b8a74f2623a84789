//! Harness for scripted tests: a kubelet, a virtual clock, and just enough of an API server.
//!
//! Responsible for: playing a script and printing the kubelet's writes.
//! Must not: hold rules of the kubelet, or the tests would prove nothing.
//!
//! A script has one command per line:
//!
//! - `pod NAME key=value ...`: creates a Pod. Keys: `restart`, `node`, `phase`, `restarts`, `exited` (`name:code`), `init-statuses` (restarts;
//!   `!` for success), `gate`, `deleting` (the grace period), `deadline`, `index`, `job`, `containers`, `inits`
//!   (`name!` is a sidecar), `cpu` (request of its first container), `label:KEY`, or a simulation annotation.
//! - `ungate NAME`, `delete NAME GRACE`, `gone NAME`: changes or removes it.
//! - `lose NODE`, `find NODE`: deletes and re-creates a node.
//! - `refuse NAME COUNT`, `missing NAME`: sets the responses to its next writes.
//! - `hold`, `release`: holds back responses and watch events, and releases them.
//! - `until TIME`: advances the time, as a Go duration since the start.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value, json};

use crate::{
    kubelet::{Action, Kubelet, KubeletOptions, PodWrite, format_go_duration, parse_go_duration},
    model::Time,
};

/// Status codes of responses; 0 if there is none.
pub(super) const DONE: u16 = 200;
const MISSING: u16 = 404;
const NO_ANSWER: u16 = 0;

/// Plays the script and compares the writes, one per line, with `want`.
#[track_caller]
pub(super) fn check(options: KubeletOptions, script: &str, want: &str) {
    let got = play(options, script);
    let want: String = want
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .fold(String::new(), |all, line| all + line + "\n");
    assert_eq!(got, want, "\n--- got\n{got}--- want\n{want}");
}

/// Plays the script and returns the writes, one per line.
pub(super) fn play(options: KubeletOptions, script: &str) -> String {
    let mut stage = Stage::new(options);
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        stage.command(line);
        stage.drain();
    }
    stage.log
}

/// A kubelet and its environment.
pub(super) struct Stage {
    pub(super) kubelet: Kubelet,
    pub(super) now: Time,
    /// The latest status patches, by Pod name.
    pub(super) patches: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
    refusals: BTreeMap<String, usize>,
    missing: Vec<String>,
    held: Option<Vec<PodWrite>>,
    log: String,
}

impl Stage {
    pub(super) fn new(options: KubeletOptions) -> Self {
        Self {
            kubelet: Kubelet::new(options),
            now: Time::from_secs(0),
            patches: BTreeMap::new(),
            pods: BTreeMap::new(),
            refusals: BTreeMap::new(),
            missing: Vec::new(),
            held: None,
            log: String::new(),
        }
    }

    pub(super) fn command(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["pod", name, ..] => {
                self.pods.insert(name.to_owned(), pod(name, &words[2..]));
                self.show(name);
            }
            ["ungate", name] => {
                self.edit(name, |pod| pod["spec"]["schedulingGates"] = json!([]));
                self.show(name);
            }
            ["delete", name, grace] => {
                let grace: i64 = grace.parse().expect("a grace period in seconds");
                let grace = self.granted_grace(name, grace);
                if !self.can_shorten(name, grace) {
                    return;
                }
                self.edit(name, |pod| {
                    pod["metadata"]["deletionTimestamp"] = json!("2000-01-01T00:00:00Z");
                    pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
                });
                self.show(name);
            }
            ["gone", name] => {
                self.kubelet.handle_pod_gone(&uid_of(name));
                self.pods.remove(name);
            }
            ["refuse", name, count] => {
                self.refusals
                    .insert(name.to_owned(), count.parse().expect("a count"));
            }
            ["lose", node] => self.kubelet.handle_node(node, false),
            ["find", node] => self.kubelet.handle_node(node, true),
            ["missing", name] => self.missing.push(name.to_owned()),
            ["hold"] => self.held = Some(Vec::new()),
            ["release"] => {
                for write in self.held.take().expect("release follows hold") {
                    self.kubelet.handle_answer(&write, DONE, self.now);
                    self.show(&write.name);
                }
            }
            ["until", time] => self.pass_until(time),
            _ => panic!("no such command: {line}"),
        }
    }

    /// Returns the names of the existing Pods.
    pub(super) fn living(&self) -> Vec<String> {
        self.pods.keys().cloned().collect()
    }

    /// Returns the Pods as the API server has them.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Value> {
        self.pods.values()
    }

    /// Returns the Pods without a node.
    pub(super) fn unbound(&self) -> Vec<String> {
        let unbound = self
            .pods
            .iter()
            .filter(|(_, pod)| pod["spec"].get("nodeName").is_none());
        unbound.map(|(name, _)| name.clone()).collect()
    }

    /// Returns true if responses are held back.
    pub(super) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    pub(super) fn drain(&mut self) {
        while let Some(write) = self.kubelet.poll_write() {
            self.answer(&write);
        }
    }

    fn pass_until(&mut self, time: &str) {
        let end = Time::from_secs(0) + parse_go_duration(time).expect("a Go duration");
        while let Some(at) = self.kubelet.poll_timeout().filter(|at| *at <= end) {
            assert!(at >= self.now, "deadlines never lie in the past");
            self.now = at;
            self.kubelet.handle_timeout(at);
            self.drain();
        }
        self.now = end;
    }

    pub(super) fn answer(&mut self, write: &PodWrite) {
        let name = write.name.clone();
        self.assert_allowed(write);
        let time = format_go_duration(self.now.since(Time::from_secs(0)));
        let text = describe(write);
        if let Some(left) = self.refusals.get_mut(&name).filter(|left| **left > 0) {
            *left -= 1;
            writeln!(self.log, "{time} {name} {text} (refused)").expect("texts grow");
            return self.kubelet.handle_answer(write, NO_ANSWER, self.now);
        }
        let Some(pod) = self
            .pods
            .get(&name)
            .filter(|_| !self.missing.contains(&name))
        else {
            writeln!(self.log, "{time} {name} {text} (missing)").expect("texts grow");
            return self.kubelet.handle_answer(write, MISSING, self.now);
        };
        if matches!(write.action, Action::Bind { .. }) && is_deleted(pod) {
            return self.kubelet.handle_answer(write, NO_ANSWER, self.now);
        }
        writeln!(self.log, "{time} {name} {text}").expect("texts grow");
        self.store(&name, &write.action);
        match &mut self.held {
            Some(held) => held.push(write.clone()),
            None => {
                // The watch event may come before or after the response; the tests alternate.
                if self.log.len().is_multiple_of(2) {
                    self.show(&name);
                    self.kubelet.handle_answer(write, DONE, self.now);
                } else {
                    self.kubelet.handle_answer(write, DONE, self.now);
                    self.show(&name);
                }
            }
        }
    }

    /// Asserts the invariants of a write, whatever the script.
    fn assert_allowed(&self, write: &PodWrite) {
        let held = self.held.iter().flatten();
        assert!(
            held.clone().all(|other| other.name != write.name),
            "a second write is in flight for {}:\n{}",
            write.name,
            self.log
        );
        let Some(pod) = self.pods.get(&write.name) else {
            return;
        };
        match &write.action {
            Action::Bind { .. } => assert!(pod["spec"].get("nodeName").is_none(), "bound twice"),
            Action::Status(_) => assert!(!is_ended(pod), "back from its end"),
            Action::Event(_) => {}
            Action::Delete => assert!(
                is_ended(pod) && (is_deleted(pod) || is_lost(pod)),
                "deleted before its end"
            ),
            Action::Remove | Action::Evict => {
                assert!(!is_ended(pod) && !is_deleted(pod), "taken away twice");
            }
        }
    }

    /// The API server grants no grace period to a Pod that has ended or has no node.
    fn granted_grace(&self, name: &str, grace: i64) -> i64 {
        let pod = &self.pods[name];
        if is_ended(pod) || pod["spec"].get("nodeName").is_none() {
            0
        } else {
            grace
        }
    }

    /// The API server accepts a second delete only with a shorter grace period.
    fn can_shorten(&self, name: &str, grace: i64) -> bool {
        let known = &self.pods[name]["metadata"]["deletionGracePeriodSeconds"];
        known.as_i64().is_none_or(|known| grace < known)
    }

    fn store(&mut self, name: &str, action: &Action) {
        match action {
            Action::Bind { node } => self.edit(name, |pod| pod["spec"]["nodeName"] = json!(node)),
            Action::Status(patch) => {
                let patch: Value = serde_json::from_slice(patch).expect("patches are JSON");
                // A partial status from another component leaves the other fields as they are.
                self.edit(name, |pod| {
                    for (field, value) in patch["status"].as_object().expect("a status") {
                        pod["status"][field] = value.clone();
                    }
                });
                self.patches.insert(name.to_owned(), patch);
            }
            Action::Event(_) => {}
            Action::Remove | Action::Evict => self.edit(name, |pod| {
                pod["metadata"]["deletionTimestamp"] = json!("2000-01-01T00:00:00Z");
                pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
            }),
            // A finalizer keeps the Pod: only the grace period becomes zero.
            Action::Delete => self.edit(name, |pod| {
                pod["metadata"]["deletionTimestamp"] = json!("2000-01-01T00:00:00Z");
                pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            }),
        }
    }

    fn edit(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        change(self.pods.get_mut(name).expect("the Pod is in the script"));
    }

    /// Sends the current Pod as an event, unless it is gone.
    fn show(&mut self, name: &str) {
        let Some(pod) = self.pods.get(name) else {
            return;
        };
        let json = pod.to_string();
        let read = self.kubelet.handle_pod(json.as_bytes(), self.now);
        read.expect("test Pods can be read");
    }
}

/// Renders a write as a line: the phase, then each container, then whether the Pod is ready.
fn describe(write: &PodWrite) -> String {
    let patch = match &write.action {
        Action::Bind { node } => return format!("bind {node}"),
        Action::Delete => return "delete".to_owned(),
        Action::Remove => return "remove".to_owned(),
        Action::Evict => return "evict".to_owned(),
        Action::Event(event) => return describe_event(event),
        Action::Status(patch) => patch,
    };
    let patch: Value = serde_json::from_slice(patch).expect("patches are JSON");
    assert_eq!(patch["metadata"]["uid"], uid_of(&write.name));
    let status = &patch["status"];
    let mut text = status["phase"].as_str().unwrap_or("marked").to_owned();
    if let Some(target) = disruption(status) {
        write!(text, " {target}").expect("texts grow");
    }
    if let Some(reason) = status["reason"].as_str() {
        write!(text, " {reason}").expect("texts grow");
    }
    for kind in ["initContainerStatuses", "containerStatuses"] {
        for container in status[kind].as_array().into_iter().flatten() {
            write!(text, " {}", describe_container(container)).expect("texts grow");
        }
    }
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let scheduled = conditions.clone().find(|c| c["type"] == "PodScheduled");
    if let Some(reason) = scheduled.and_then(|c| c["reason"].as_str()) {
        write!(text, " {reason}").expect("texts grow");
    }
    if conditions.any(|c| c["type"] == "Ready" && c["status"] == "True") {
        text.push_str(" ready");
    }
    text
}

fn describe_event(event: &[u8]) -> String {
    let event: Value = serde_json::from_slice(event).expect("events are JSON");
    let text = |field: &str| event[field].as_str().expect("a text").to_owned();
    format!("event {}: {}", text("reason"), text("message"))
}

fn describe_container(container: &Value) -> String {
    let name = container["name"].as_str().expect("a name");
    let state = &container["state"];
    let state = if let Some(ended) = state.get("terminated") {
        format!(
            "{}:{}",
            ended["exitCode"],
            ended["reason"].as_str().expect("a reason")
        )
    } else if let Some(waiting) = state.get("waiting") {
        waiting["reason"].as_str().expect("a reason").to_owned()
    } else {
        "running".to_owned()
    };
    let restarts = match container["restartCount"].as_u64() {
        Some(0) => String::new(),
        count => format!(" x{}", count.expect("a count")),
    };
    let last = match &container["lastState"]["terminated"]["exitCode"] {
        Value::Null => String::new(),
        code => format!(" last {code}"),
    };
    format!("[{name} {state}{restarts}{last}]")
}

fn is_ended(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed"
}

/// Returns true if the Pod is marked as lost with its node.
fn is_lost(pod: &Value) -> bool {
    disruption(&pod["status"]) == Some("DeletionByPodGC")
}

/// Returns the reason of the condition `DisruptionTarget`.
fn disruption(status: &Value) -> Option<&str> {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.find(|c| c["type"] == "DisruptionTarget")?["reason"].as_str()
}

fn is_deleted(pod: &Value) -> bool {
    pod["metadata"].get("deletionTimestamp").is_some()
}

/// Builds a Pod as the API server would return it.
fn pod(name: &str, settings: &[&str]) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": uid_of(name), "annotations": {}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]},
        "status": {"phase": "Pending"},
    });
    for setting in settings {
        let (key, value) = setting.split_once('=').expect("settings are key=value");
        let value = value.replace('_', " ");
        match key {
            "restart" => pod["spec"]["restartPolicy"] = json!(value),
            "node" => pod["spec"]["nodeName"] = json!(value),
            "phase" => pod["status"]["phase"] = json!(value),
            "restarts" => {
                let count: u32 = value.parse().expect("a count");
                pod["status"]["containerStatuses"] = json!([{"restartCount": count}]);
            }
            "exited" => {
                let statuses = pod["status"]["containerStatuses"].as_array_mut();
                let (name, code) = value.split_once(':').expect("a name and a code");
                let code: i32 = code.parse().expect("an exit code");
                let exited = json!({"name": name, "state": {"terminated": {"exitCode": code}}});
                statuses.expect("after restarts").push(exited);
            }
            "init-statuses" => {
                let statuses = value.split(',').map(|text| {
                    let count: u32 = text.trim_end_matches('!').parse().expect("a count");
                    match text.ends_with('!') {
                        true => json!({
                            "restartCount": count, "state": {"terminated": {"exitCode": 0}},
                        }),
                        false => json!({"restartCount": count}),
                    }
                });
                pod["status"]["initContainerStatuses"] = statuses.collect();
            }
            "gate" => pod["spec"]["schedulingGates"] = json!([{"name": value}]),
            "deleting" => {
                let grace: i64 = value.parse().expect("a grace period in seconds");
                pod["metadata"]["deletionTimestamp"] = json!("2000-01-01T00:00:00Z");
                pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
            }
            "deadline" => {
                let secs: i64 = value.parse().expect("seconds");
                pod["spec"]["activeDeadlineSeconds"] = json!(secs);
            }
            "cpu" => {
                let requests = json!({"requests": {"cpu": value}});
                pod["spec"]["containers"][0]["resources"] = requests;
            }
            "index" => {
                let key = "batch.kubernetes.io/job-completion-index";
                pod["metadata"]["annotations"][key] = json!(value);
            }
            "job" => {
                pod["metadata"]["ownerReferences"] = json!([{"kind": "Job", "uid": value}]);
            }
            "containers" => pod["spec"]["containers"] = containers(&value),
            "inits" => pod["spec"]["initContainers"] = containers(&value),
            _ if key.starts_with("label:") => {
                pod["metadata"]["labels"][&key[6..]] = json!(value);
            }
            _ => pod["metadata"]["annotations"][format!("sim.lakh.dev/{key}")] = json!(value),
        }
    }
    pod
}

fn containers(names: &str) -> Value {
    let one = |name: &str| match name.strip_suffix('!') {
        Some(name) => json!({"name": name, "image": "busybox", "restartPolicy": "Always"}),
        None => json!({"name": name, "image": "busybox"}),
    };
    names.split(',').map(one).collect()
}

fn uid_of(name: &str) -> String {
    format!("uid-{name}")
}
