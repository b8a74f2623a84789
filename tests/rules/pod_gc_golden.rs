//! Runs the Pod garbage collector against cases as text: which Pods it deletes, when and how.
//!
//! A row of `tests/golden/pod_gc.rows` has the rules (docs/rules/ttl-and-garbage.md) that it tests, the steps, and the
//! requests of the collector. `pod` and `node` set the state of an object from then on, or report that it is gone. By
//! default a Pod is Running, created at 0 and on no node, and a node is Ready. `@` is a time in seconds; the last
//! column has the requests at that time. `answer` sets the response code of a request from then on. By default the
//! server accepts writes and has no Nodes. `meanwhile` holds a step that follows the first request of the next pass.
//! `UPDATE_GOLDEN=1` rewrites the last column; read the diff. `rows.rs` checks that no rule is left out.

use std::collections::BTreeMap;

use lakh::{
    embedded::podgc::{Call, NodeFacts, Phase, PodFacts, PodGc},
    model::{Now, Time, Uid},
};
use serde_json::Value;

use crate::common::rows;

const ROWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/pod_gc.rows");

/// The start of the cases' clocks.
const ZERO: i64 = 1_000_000;

fn at(text: &str) -> Time {
    let secs: f64 = text.parse().unwrap_or_else(|_| panic!("{text}: seconds"));
    Time::from_millis(ZERO * 1000 + (secs * 1000.0) as i64)
}

/// A case: the collector, and the server's response codes.
struct Case<'a> {
    gc: PodGc,
    answers: BTreeMap<&'a str, u16>,
    meanwhile: Option<&'a str>,
}

impl<'a> Case<'a> {
    fn new(steps: &str) -> Self {
        let first = steps.split("; ").next();
        let threshold = first.and_then(|first| first.strip_prefix("threshold="));
        let threshold = threshold.map_or(0, |number| number.parse().expect("a number"));
        Self {
            gc: PodGc::new(threshold, Now::at(at("0")).monotonic),
            answers: BTreeMap::new(),
            meanwhile: None,
        }
    }

    /// Takes a step. Returns the outcome if the step is a time.
    fn take(&mut self, step: &'a str) -> Option<String> {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        match word {
            "pod" => self.pod(rest),
            "node" => self.node(rest),
            "meanwhile" => self.meanwhile = Some(rest),
            "answer" => {
                let (code, call) = rest.split_once(" to ").expect("a code and a call");
                self.answers.insert(call, code.parse().expect("a code"));
            }
            _ if word.starts_with("threshold=") => {}
            _ => {
                let time = word.strip_prefix('@').unwrap_or_else(|| panic!("{step}"));
                return Some(format!("{word} {}", self.pass(Now::at(at(time)))));
            }
        }
        None
    }

    fn pod(&mut self, words: &str) {
        let (name, words) = words.split_once(' ').unwrap_or((words, ""));
        let number = name
            .bytes()
            .fold(0, |sum, byte| sum << 8 | u128::from(byte));
        let mut pod = PodFacts {
            namespace: "default".into(),
            name: name.into(),
            uid: Uid::from_u128(number),
            node: "".into(),
            generation: 1,
            created: at("0"),
            phase: Phase::read("Running"),
            evicted: false,
            deleting: false,
        };
        for word in words.split_whitespace() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("gone", _) => return self.gc.handle_pod_gone(pod.uid),
                ("deleting", _) => pod.deleting = true,
                ("evicted", _) => pod.evicted = true,
                ("on", node) => pod.node = node.into(),
                ("created", time) => pod.created = at(time),
                ("phase", phase) => pod.phase = Phase::read(phase),
                (phase, _) => {
                    let known = ["Pending", "Running", "Unknown", "Succeeded", "Failed"];
                    assert!(known.contains(&phase), "{phase}");
                    pod.phase = Phase::read(phase);
                }
            }
        }
        self.gc.handle_pod(pod);
    }

    fn node(&mut self, words: &str) {
        let mut words = words.split_whitespace();
        let name = words.next().expect("a name");
        let mut node = NodeFacts {
            name: name.into(),
            ready: true,
            out_of_service: false,
        };
        for word in words {
            match word {
                "gone" => return self.gc.handle_node_gone(name),
                "unready" => node.ready = false,
                "tainted" => node.out_of_service = true,
                _ => panic!("{word}"),
            }
        }
        self.gc.handle_node(node);
    }

    /// The requests of the collector at this time.
    fn pass(&mut self, now: Now) -> String {
        let due = self.gc.poll_timeout();
        if due.is_some_and(|due| due > now.monotonic) {
            self.gc.handle_timeout(now.monotonic);
            assert_eq!(self.gc.poll_call(now.monotonic), None, "no pass is due");
            return "no pass".to_owned();
        }
        let mut said = Vec::new();
        self.gc.handle_timeout(now.monotonic);
        while let Some(call) = self.gc.poll_call(now.monotonic) {
            let (what, why) = shown(call, now);
            let next = self.gc.poll_call(now.monotonic);
            assert_eq!(next, None, "one after the other");
            let usual = if what.starts_with("get ") { 404 } else { 200 };
            let code = self.answers.get(what.as_str()).copied().unwrap_or(usual);
            self.gc.handle_answer(code);
            said.push(what + &why);
            if let Some(step) = self.meanwhile.take() {
                self.take(step);
            }
        }
        if said.is_empty() {
            return "nothing".to_owned();
        }
        said.join(", ")
    }
}

/// A request, and its reason.
fn shown(call: &Call, now: Now) -> (String, String) {
    match call {
        Call::Fail { pod, reason } => {
            let body: Value = serde_json::from_slice(&call.request(now.wall).body).expect("JSON");
            assert_eq!(body["status"]["phase"], "Failed");
            let condition = body["status"]["conditions"][0]["type"].as_str();
            let condition = condition.map_or(String::new(), |kind| format!(" with {kind}"));
            (
                format!("fail {}", pod.name),
                format!(" {reason}{condition}"),
            )
        }
        Call::Delete { pod, reason } => (format!("delete {}", pod.name), format!(" {reason}")),
        Call::GetNode { name, .. } => (format!("get {name}"), String::new()),
    }
}

#[test]
fn each_row_of_the_rules() {
    rows::check(ROWS, |steps| {
        let mut case = Case::new(steps);
        let said: Vec<String> = steps.split("; ").filter_map(|s| case.take(s)).collect();
        said.join(" ~ ")
    });
}
