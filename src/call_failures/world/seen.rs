//! Reads the results from a [`World`]: the columns of its row, and whether all work is done in the end.
//!
//! Must not: advance the time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    call_failures::{FAILING, commands::Server},
    controller::Part as _,
};

use super::{JOBS, PODS, World, is_held};

impl World<'_> {
    /// Returns the server for the commands.
    pub(in crate::call_failures) fn server(&self) -> Server {
        Server {
            api: Arc::clone(&self.api),
            now: self.now.wall,
            missing_right: self.fault.lacks_right.then_some(self.call),
        }
    }

    /// Returns the names of all Jobs.
    pub(in crate::call_failures) fn job_names(&mut self) -> Vec<String> {
        let jobs = self.items(JOBS);
        let names = jobs
            .iter()
            .filter_map(|job| job["metadata"]["name"].as_str());
        names.map(str::to_owned).collect()
    }

    /// Returns true if Pods of a Job or Warnings about it show that a controller works on it.
    pub(in crate::call_failures) fn shows_controller(&mut self, name: &str) -> bool {
        let jobs = self.items(JOBS);
        let job = jobs.iter().find(|job| job["metadata"]["name"] == name);
        let uid = job.map_or(Value::Null, |job| job["metadata"]["uid"].clone());
        let has_pods = self
            .items(PODS)
            .iter()
            .any(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == uid);
        let is_warning =
            |event: &Value| event["type"] == "Warning" && event["involvedObject"]["uid"] == uid;
        has_pods
            || self
                .items("/api/v1/namespaces/d/events")
                .iter()
                .any(is_warning)
    }

    /// Returns all metrics, as in a scrape.
    pub(in crate::call_failures) fn metrics_text(&self) -> String {
        self.metrics.text(self.now.monotonic)
    }

    pub(in crate::call_failures) fn log_text(&self) -> String {
        String::from_utf8(self.log.lock().clone()).expect("text")
    }

    /// Counts the messages logged at warn or above, by message and, where it has one, `what`.
    pub(in crate::call_failures) fn logged(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for line in self.log_text().lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let fields = &line["fields"];
            let message = fields["message"].as_str().unwrap_or_default();
            let of = ["kind", "verb", "resource", "what"].into_iter();
            let of: Vec<&str> = of.filter_map(|field| fields[field].as_str()).collect();
            let of = match of.as_slice() {
                [] => String::new(),
                words => format!(" ({})", words.join(" ")),
            };
            *counts.entry(format!("`{message}`{of}")).or_default() += 1;
        }
        joined(counts)
    }

    /// Counts the Warnings on Jobs and CronJobs, by reason.
    pub(in crate::call_failures) fn warnings(&mut self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for event in self.items("/api/v1/namespaces/d/events") {
            if event["type"] == "Warning" {
                let reason = event["reason"].as_str().unwrap_or_default();
                let count = event["count"].as_u64().unwrap_or(1);
                *counts.entry(format!("`{reason}`")).or_default() += count as usize;
            }
        }
        joined(counts)
    }

    /// Returns the response of `/readyz` at the end of the failures.
    pub(in crate::call_failures) fn readiness(&self) -> String {
        let now = self.now.monotonic;
        let grace = Duration::from_secs(30);
        let mut failed = Vec::new();
        if self
            .replica
            .missing()
            .is_some_and(|missing| !missing.is_empty())
        {
            failed.push("`caches`");
        }
        if !self.metrics.lost(grace, now).is_empty() {
            failed.push("`watches`");
        }
        if self.metrics.lease_problem(grace, now).is_some() {
            failed.push("`lease`");
        }
        match failed.as_slice() {
            [] => "ok".to_owned(),
            failed => format!("fails: {}", failed.join(" ")),
        }
    }

    /// Returns the times of calls, in seconds after the first.
    pub(in crate::call_failures) fn waits(&self) -> String {
        let Some(first) = self.tries.first() else {
            return "–".to_owned();
        };
        let shown = self.tries.iter().take(6);
        let shown: Vec<String> = shown
            .map(|at| {
                let seconds = (*at - *first).as_secs_f64();
                if seconds.fract() < 0.05 {
                    format!("{seconds:.0}")
                } else {
                    format!("{seconds:.1}")
                }
            })
            .collect();
        format!("{}: {}", self.tries.len(), shown.join(", "))
    }

    /// Returns an error if work is left after the failures, was done more than once, or a Pod is still held back.
    pub(in crate::call_failures) fn unfinished(&mut self) -> Option<String> {
        if self.elapsed() < FAILING + Duration::from_secs(40) {
            return Some("it goes on".to_owned());
        }
        let (pods, jobs) = (self.items(PODS), self.items(JOBS));
        let is_over = |pod: &Value| pod["status"]["phase"] == "Succeeded";
        if let Some(held) = pods.iter().find(|pod| is_over(pod) && is_held(pod)) {
            return Some(format!("held back: {held}"));
        }
        for name in ["one", "stops", "adopts"] {
            let job = jobs.iter().find(|job| job["metadata"]["name"] == name);
            let Some(job) = job else {
                return Some(format!("{name} is gone"));
            };
            let is_own = |pod: &&Value| {
                pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
            };
            let own = pods.iter().filter(is_own).filter(|pod| is_over(pod));
            let is_let_go = |pod: &&Value| {
                let name = pod["metadata"]["name"].as_str();
                name.is_some_and(|name| self.let_go.contains(name))
            };
            let (let_go, counted): (Vec<&Value>, Vec<&Value>) = own.partition(is_let_go);
            if job["status"]["succeeded"] != 1 || counted.len() != 1 {
                let counted = counted.len();
                return Some(format!(
                    "{name} has {counted} Pods that count: {}",
                    job["status"]
                ));
            }
            // The finalizer is removed before the Pod is deleted. If the deletion fails then, the Pod runs on
            // uncounted, as with the built-in controller.
            let may_run_on = name != "one" && self.call.right == ("delete", "", "pods");
            if let_go.len() > usize::from(may_run_on) {
                return Some(format!(
                    "{name} has {} Pods that do not count",
                    let_go.len()
                ));
            }
        }
        // A garbage collector, which this world lacks, would delete its Pods and then the Job.
        let stays = |job: &&Value| job["metadata"]["deletionTimestamp"].is_null();
        let mut staying = jobs.iter().filter(stays);
        if staying.any(|job| job["metadata"]["name"] == "ttl") {
            return Some("the TTL of a Job is over".to_owned());
        }
        let is_run = |job: &&Value| job["metadata"]["ownerReferences"][0]["kind"] == "CronJob";
        let runs = jobs.iter().filter(is_run);
        if runs.filter(|job| job["status"]["succeeded"] == 1).count() < 2 {
            return Some("the CronJob does not go on".to_owned());
        }
        Some(self.readiness()).filter(|readiness| readiness != "ok")
    }
}

/// Joins words with their counts.
fn joined(counts: BTreeMap<String, usize>) -> String {
    if counts.is_empty() {
        return "–".to_owned();
    }
    let each = counts
        .into_iter()
        .map(|(words, count)| format!("{words} ×{count}"));
    each.collect::<Vec<_>>().join("; ")
}
