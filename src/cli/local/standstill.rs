//! Finds out why a Job makes no progress, from its objects and the controller's settings.
//!
//! Responsible for: the reason and its wording, and the causes of failed Pods. Must not: send requests, or decide
//! anything.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    cli::words::short_list as short,
    model::{COMPLETION_INDEX, DEFAULT_MANAGER, Exponential, INDEX_FAILURES, IndexSet, Time},
    runtime::{Mode, Options},
};

/// A Job, its Pods and its Events.
#[derive(Debug, Default)]
pub(super) struct JobObjects {
    pub(super) job: Value,
    /// Its Pods; of many, a sample.
    pub(super) pods: Vec<Value>,
    /// `pods` has all of them.
    pub(super) all_pods: bool,
    /// Events about the Job.
    pub(super) events: Vec<Value>,
}

/// Returns why an unfinished Job makes no progress, under a controller with these options.
pub(super) fn why(options: &Options, objects: &JobObjects, now: Time) -> Option<String> {
    nobodys(options, &objects.job)
        .or_else(|| {
            let suspended = objects.job["spec"]["suspend"] == true;
            suspended.then(|| "it is suspended (spec.suspend)".to_owned())
        })
        .or_else(|| refused(objects))
        .or_else(|| pending(objects))
        .or_else(|| waiting(objects))
        .or_else(|| backing_off(options.limits.pod_failure_backoff, objects, now))
        .or_else(|| {
            let active = number(&objects.job["status"]["active"]);
            (active > 0).then(|| format!("{} not ended yet", pods(active)))
        })
}

/// Returns the reason if this controller must not manage the Job.
fn nobodys(options: &Options, job: &Value) -> Option<String> {
    if !options.controllers.job {
        return Some("the Job controller is off (--controllers)".to_owned());
    }
    let namespace = text(&job["metadata"]["namespace"]);
    if !options.namespaces.is_empty() && !options.namespaces.iter().any(|it| it == namespace) {
        return Some(format!(
            "nobody works in namespace {namespace} (--namespace)"
        ));
    }
    unmanaged(options, job)
}

/// Returns the other controller that a Job names, if it names one, and a remedy: no other controller runs here.
pub(super) fn unmanaged(options: &Options, job: &Value) -> Option<String> {
    let manager = job["spec"]["managedBy"].as_str();
    if options.mode.manages_name(manager) {
        return None;
    }
    match (&options.mode, manager) {
        (Mode::ManagedBy(own), None) => Some(format!(
            "spec.managedBy is not {own}: add it, or leave --mode out"
        )),
        (_, manager) => {
            let name = manager.unwrap_or(DEFAULT_MANAGER);
            Some(format!(
                "left to {name} (spec.managedBy), which does not run here: remove spec.managedBy"
            ))
        }
    }
}

/// Returns the end of the backoff after failed Pods.
fn backing_off(backoff: Exponential, objects: &JobObjects, now: Time) -> Option<String> {
    let job = &objects.job;
    let until = |failures: u32, last: Time| last + backoff.delay(failures);
    let later = |due: Time| (due > now).then(|| format!("until {}", clock(due)));
    let failed = objects.pods.iter().filter(|pod| is(pod, "Failed"));
    if job["spec"]["backoffLimitPerIndex"].is_u64() {
        // The last Pod of an index decides.
        let mut indexes: BTreeMap<u32, Time> = BTreeMap::new();
        let ended = |field: &str| {
            let text = job["status"][field].as_str().unwrap_or_default();
            IndexSet::parse(text, u32::MAX)
        };
        let (done, failed_ones) = (ended("completedIndexes"), ended("failedIndexes"));
        for pod in failed {
            let Some(index) = index_of(pod) else { continue };
            if done.contains(index) || failed_ones.contains(index) {
                continue;
            }
            let before = pod["metadata"]["annotations"][INDEX_FAILURES].as_str();
            let before: u32 = before.and_then(|text| text.parse().ok()).unwrap_or(0);
            let due = until(before.saturating_add(1), finished(pod)?);
            let entry = indexes.entry(index).or_insert(due);
            *entry = due.max(*entry);
        }
        indexes.retain(|_, due| *due > now);
        let first = indexes.values().min().copied().and_then(later)?;
        let which: IndexSet = indexes.keys().copied().collect();
        return Some(format!(
            "backoff {first}, then index {} again",
            short(&which.to_string())
        ));
    }
    let successes = objects.pods.iter().filter(|pod| is(pod, "Succeeded"));
    let success = successes.filter_map(finished).max();
    let since: Vec<Time> = failed
        .filter_map(finished)
        .filter(|at| success.is_none_or(|success| *at > success))
        .collect();
    let last = since.iter().max()?;
    if !objects.all_pods {
        return (number(&job["status"]["active"]) == 0)
            .then(|| "backoff after Pods failed".to_owned());
    }
    let count = u32::try_from(since.len()).unwrap_or(u32::MAX);
    let until = later(until(count, *last))?;
    Some(format!(
        "backoff {until}: {} failed in a row",
        pods(count.into())
    ))
}

/// Returns why the server refuses the Job's new Pods.
fn refused(objects: &JobObjects) -> Option<String> {
    let (spec, status) = (&objects.job["spec"], &objects.job["status"]);
    let left = spec["completions"]
        .as_u64()
        .map_or(1, |all| all.saturating_sub(number(&status["succeeded"])));
    let wanted = spec["parallelism"].as_u64().unwrap_or(1).min(left);
    if number(&status["active"]) >= wanted {
        return None;
    }
    let refusals = objects
        .events
        .iter()
        .filter(|event| event["type"] == "Warning" && event["reason"] == "FailedCreate");
    let last = refusals.max_by_key(|event| text(&event["lastTimestamp"]))?;
    Some(format!("no Pod can be made: {}", text(&last["message"])))
}

/// Returns why Pods are not scheduled.
fn pending(objects: &JobObjects) -> Option<String> {
    let homeless = |pod: &&Value| is(pod, "Pending") && pod["spec"]["nodeName"].is_null();
    let pending: Vec<&Value> = objects.pods.iter().filter(homeless).collect();
    let first = pending.first()?;
    let refusal = list(&first["status"]["conditions"])
        .filter(|it| it["type"] == "PodScheduled" && it["status"] == "False")
        .find_map(|it| it["message"].as_str());
    let count = pods(pending.len() as u64);
    let gates = first["spec"]["schedulingGates"].as_array();
    let why = match refusal {
        _ if gates.is_some_and(|gates| !gates.is_empty()) => "scheduling gates are left",
        // The message names the missing resources per hollow node; the first sentence matters.
        Some(message) => message.split(". ").next().unwrap_or_default(),
        None => "no node has taken it",
    };
    Some(format!("{count} pending: {why}"))
}

/// Returns a Pod with a container that waits for its restart.
fn waiting(objects: &JobObjects) -> Option<String> {
    let mut live = objects.pods.iter().filter(|pod| !is(pod, "Failed"));
    live.find_map(|pod| {
        let states = list(&pod["status"]["containerStatuses"]);
        let mut reasons = states.filter_map(|status| status["state"]["waiting"]["reason"].as_str());
        let reason = reasons.find(|reason| *reason == "CrashLoopBackOff")?;
        Some(format!("Pod {}: {reason}", text(&pod["metadata"]["name"])))
    })
}

/// Returns the causes of failed Pods, the most frequent first; of an Indexed Job with the indexes.
pub(super) fn failures(pods_seen: &[Value]) -> Vec<String> {
    let mut causes: BTreeMap<String, (u64, IndexSet)> = BTreeMap::new();
    for pod in pods_seen.iter().filter(|pod| is(pod, "Failed")) {
        let (count, indexes) = causes.entry(cause(pod)).or_default();
        *count += 1;
        if let Some(index) = index_of(pod) {
            indexes.insert(index);
        }
    }
    let mut causes: Vec<_> = causes.into_iter().collect();
    causes.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let words = causes.into_iter().map(|(cause, (count, indexes))| {
        let where_ = match indexes.is_empty() {
            true => String::new(),
            false => format!(" of index {}", short(&indexes.to_string())),
        };
        format!("{}{where_}: {cause}", pods(count))
    });
    words.collect()
}

/// Returns the cause of a Pod's failure.
fn cause(pod: &Value) -> String {
    let status = &pod["status"];
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = lists.iter().flat_map(|name| list(&status[name]));
    let failed = statuses
        .map(|status| &status["state"]["terminated"])
        .filter_map(|end| Some((end["exitCode"].as_i64()?, text(&end["reason"]))))
        .find(|(code, _)| *code != 0);
    let said = text(&status["reason"]);
    match failed {
        _ if !said.is_empty() => match text(&status["message"]) {
            "" => said.to_owned(),
            message => format!("{said}: {message}"),
        },
        Some((code, "" | "Error")) => format!("exit code {code}"),
        Some((code, reason)) => format!("exit code {code} ({reason})"),
        None => "no exit code".to_owned(),
    }
}

/// Returns the time at which a Pod's last container ended.
fn finished(pod: &Value) -> Option<Time> {
    let statuses = list(&pod["status"]["containerStatuses"]);
    let ends = statuses.filter_map(|it| it["state"]["terminated"]["finishedAt"].as_str());
    let last = ends.filter_map(Time::parse_rfc3339).max();
    let made = || Time::parse_rfc3339(text(&pod["metadata"]["creationTimestamp"]));
    last.or_else(made)
}

fn index_of(pod: &Value) -> Option<u32> {
    let index = pod["metadata"]["annotations"][COMPLETION_INDEX].as_str()?;
    index.parse().ok()
}

fn is(pod: &Value, phase: &str) -> bool {
    pod["status"]["phase"] == phase
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Iterates over a list; over nothing if the value is no list.
pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn pods(count: u64) -> String {
    match count {
        1 => "1 Pod".to_owned(),
        count => format!("{count} Pods"),
    }
}

/// Formats a time of day in UTC.
fn clock(at: Time) -> String {
    let text = at.to_rfc3339();
    let time = text.split_once('T').map_or(text.as_str(), |(_, time)| time);
    format!("{} UTC", time.trim_end_matches('Z'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::OWN_MANAGER;

    const NOW: i64 = 1_800_000_000;

    fn job(spec: Value, status: Value) -> Value {
        json!({"metadata": {"name": "j", "namespace": "d"}, "spec": spec, "status": status})
    }

    /// Returns a Pod that ended `ago` seconds ago with this exit code.
    fn ended(code: i64, ago: i64, annotations: Value) -> Value {
        let at = Time::from_secs(NOW - ago).to_rfc3339();
        let end = json!({"exitCode": code, "reason": "Error", "finishedAt": at});
        json!({
            "metadata": {"name": "p", "annotations": annotations},
            "spec": {"nodeName": "n"},
            "status": {
                "phase": if code == 0 { "Succeeded" } else { "Failed" },
                "containerStatuses": [{"state": {"terminated": end}}],
            },
        })
    }

    fn why(options: &Options, job: Value, pods: Vec<Value>, events: Vec<Value>) -> String {
        let objects = JobObjects {
            job,
            pods,
            all_pods: true,
            events,
        };
        super::why(options, &objects, Time::from_secs(NOW)).unwrap_or_default()
    }

    #[test]
    fn a_job_that_nobody_works_on() {
        let check = |options: &Options, spec: Value, words: &str| {
            let said = why(options, job(spec, json!({})), Vec::new(), Vec::new());
            assert!(said.contains(words), "{words:?} is not in {said:?}");
        };
        let own = Options::default();
        check(
            &own,
            json!({"managedBy": "a.b/c"}),
            "left to a.b/c (spec.managedBy), which does not run here",
        );
        check(&own, json!({"managedBy": OWN_MANAGER}), "left to lakh.dev");
        let both = Options {
            mode: Mode::Both,
            ..Options::default()
        };
        check(&both, json!({"managedBy": "a.b/c"}), "left to a.b/c");
        for managed in [json!({}), json!({"managedBy": OWN_MANAGER})] {
            assert_eq!(unmanaged(&both, &job(managed, json!({}))), None);
        }
        check(&own, json!({"suspend": true}), "suspended");
        check(&own, json!({}), "");
        let elsewhere = Options {
            namespaces: vec!["e".to_owned()],
            ..Options::default()
        };
        check(&elsewhere, json!({}), "namespace d (--namespace)");
        let mut off = Options::default();
        off.controllers.job = false;
        check(&off, json!({}), "--controllers");
    }

    #[test]
    fn pods_that_cannot_be_made_or_placed() {
        let refusal = |at: &str, message: &str| {
            json!({"type": "Warning", "reason": "FailedCreate", "lastTimestamp": at,
                "message": message})
        };
        let events = vec![
            refusal("2026-01-01T00:00:02Z", "quota"),
            refusal("2026-01-01T00:00:01Z", "old"),
        ];
        let wanted = json!({"completions": 3, "parallelism": 3});
        let said = why(
            &Options::default(),
            job(wanted.clone(), json!({"active": 2})),
            Vec::new(),
            events.clone(),
        );
        assert_eq!(said, "no Pod can be made: quota");
        // All wanted Pods exist by now.
        let said = why(
            &Options::default(),
            job(wanted, json!({"active": 3})),
            Vec::new(),
            events,
        );
        assert_eq!(said, "3 Pods not ended yet");
        let condition = json!({"type": "PodScheduled", "status": "False",
            "message": "0/3 nodes are available: 3 Insufficient cpu. no new claims"});
        let pod = json!({"status": {"phase": "Pending", "conditions": [condition]}});
        let said = why(
            &Options::default(),
            job(json!({}), json!({"active": 1})),
            vec![pod],
            Vec::new(),
        );
        assert_eq!(
            said,
            "1 Pod pending: 0/3 nodes are available: 3 Insufficient cpu"
        );
    }

    #[test]
    fn the_end_of_a_backoff_is_told_as_the_controller_keeps_it() {
        let none = json!({});
        let pods = vec![
            ended(1, 300, none.clone()),
            ended(0, 200, none.clone()),
            ended(1, 30, none.clone()),
            ended(1, 5, none),
        ];
        let said = why(
            &Options::default(),
            job(json!({}), json!({})),
            pods,
            Vec::new(),
        );
        let until = clock(Time::from_secs(NOW - 5 + 20));
        assert_eq!(
            said,
            format!("backoff until {until}: 2 Pods failed in a row")
        );

        let of = |index: &str, failures: &str| json!({COMPLETION_INDEX: index, INDEX_FAILURES: failures});
        let pods = vec![
            ended(1, 50, of("2", "0")),
            ended(1, 15, of("2", "1")),
            ended(1, 15, of("4", "1")),
            ended(1, 9, of("5", "2")),
            ended(1, 9, of("7", "0")),
        ];
        let status = json!({"completedIndexes": "0,7", "failedIndexes": "5"});
        let said = why(
            &Options::default(),
            job(json!({"backoffLimitPerIndex": 3}), status),
            pods,
            Vec::new(),
        );
        let until = clock(Time::from_secs(NOW - 15 + 20));
        assert_eq!(said, format!("backoff until {until}, then index 2,4 again"));
    }

    #[test]
    fn failures_by_what_the_pods_ended_with() {
        let of = |index: &str| json!({COMPLETION_INDEX: index});
        let mut evicted = ended(137, 1, of("9"));
        evicted["status"]["reason"] = json!("Evicted");
        let pods = [
            ended(0, 1, of("0")),
            ended(42, 1, of("2")),
            ended(42, 1, of("3")),
            ended(42, 1, of("3")),
            evicted,
        ];
        assert_eq!(
            failures(&pods),
            [
                "3 Pods of index 2,3: exit code 42",
                "1 Pod of index 9: Evicted"
            ]
        );
        assert_eq!(failures(&[ended(3, 1, json!({}))]), ["1 Pod: exit code 3"]);
        let many: IndexSet = (0..200).map(|index| index * 2).collect();
        let text = short(&many.to_string());
        assert!(text.len() <= 64 && text.ends_with(",..."), "{text}");
    }
}
