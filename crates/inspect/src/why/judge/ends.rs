//! Judges Jobs that have ended or are about to: they wait only for their Pods.

use lakh_model::{Condition, ConditionKind, Time};

use crate::{
    one_job::{AlikePods, JobSight},
    words::{count, moment, names, short_list, span},
};

use super::{
    super::reason::Reason,
    failures::{look_at_last, of_most},
    writes,
};

/// The finalizer of an object that is deleted after its dependents.
const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer of an object that is deleted without its dependents.
const ORPHAN: &str = "orphan";

/// Reports a Job that is being deleted.
pub(super) fn deletion(sight: &JobSight) -> Option<Reason> {
    let job = &sight.job;
    let since = job.deletion?;
    let when = format!("It is being deleted since {}", moment(since, sight.now));
    let mut others = job.finalizers.iter();
    let others = others
        .by_ref()
        .filter(|it| ![FOREGROUND, ORPHAN].contains(&it.as_str()));
    let others = names(others);
    if !others.is_empty() {
        return Some(Reason::new(
            "being-deleted",
            format!("{when}, and the finalizer {others} keeps it."),
            "Whoever set that finalizer has to take it off.",
        ));
    }
    if let Some(kept) = kept(sight) {
        let what = format!("{when} and goes after its Pods; {}.", kept.what);
        return Some(Reason { what, ..kept });
    }
    if let Some(refused) = writes::half(sight) {
        let what = format!("{when}; {}.", refused.what);
        return Some(Reason { what, ..refused });
    }
    let is_foreground = job.finalizers.iter().any(|it| it == FOREGROUND);
    let pods = sight.pods.seen;
    let what = match (is_foreground, sight.pods.terminating.count) {
        (true, 0) => format!("{when} and goes after its {}.", count(pods as usize, "Pod")),
        (true, some) => {
            let last = terminating(&sight.pods.terminating, sight.now);
            format!("{when} and goes after its Pods, {some} of which are still to end: {last}.")
        }
        (false, _) => format!("{when}."),
    };
    let remedy = "Wait for the Pods' grace periods; where a node does not answer, delete the node.";
    Some(Reason::new("being-deleted", what, remedy))
}

/// Reports a Job that has ended.
pub(super) fn end(sight: &JobSight) -> Option<Reason> {
    let job = &sight.job;
    let end = job.end()?;
    let status = job.status();
    let at = end.last_transition.or(status.completion_time);
    let when = at.map_or_else(String::new, |at| {
        format!(" since {}", moment(at, sight.now))
    });
    if end.is(ConditionKind::Complete) {
        let took = at.zip(status.start_time);
        let took = took.map_or_else(String::new, |(at, start)| {
            format!(" in {}", span(at.since(start)))
        });
        let wanted = job.job.spec.completions;
        let of = wanted.map_or_else(String::new, |wanted| format!(" of {wanted}"));
        let succeeded = status.succeeded;
        let policy = match end.reason.as_str() {
            "SuccessPolicy" => ", which is enough by spec.successPolicy",
            _ => "",
        };
        return Some(Reason::new(
            "complete",
            format!("It is Complete{when}: {succeeded}{of} succeeded{took}{policy}."),
            "",
        ));
    }
    let (cause, why, more) = failed(sight, end);
    let remedy = match cause {
        "deadline-passed" => {
            "Give it more time (spec.activeDeadlineSeconds) when you make it again.".to_owned()
        }
        _ => format!(
            "{}; make the Job again once that is mended{more}.",
            look_at_last(sight)
        ),
    };
    Some(Reason::new(
        cause,
        format!("It is Failed{when}: {why}{}.", of_most(sight)),
        remedy,
    ))
}

/// Returns why a Job failed: the cause, a description, and an advice to tolerate more failures.
fn failed(sight: &JobSight, end: &Condition) -> (&'static str, String, &'static str) {
    let spec = &sight.job.job.spec;
    let lost = sight.job.failed_indexes();
    let indexes = || {
        let list = short_list(&lost.to_string());
        format!("{} failed for good ({list})", words_of_indexes(lost.len()))
    };
    match end.reason.as_str() {
        "BackoffLimitExceeded" => (
            "backoff-limit",
            format!(
                "more failures than the {} of spec.backoffLimit",
                spec.backoff_limit
            ),
            ", with a higher backoffLimit if such failures are to be borne",
        ),
        "DeadlineExceeded" => {
            let seconds = spec.active_deadline.map_or(0, |it| it.as_secs());
            let words = format!("it ran longer than its {seconds} s (spec.activeDeadlineSeconds)");
            ("deadline-passed", words, "")
        }
        "FailedIndexes" => ("failed-indexes", indexes(), ""),
        "MaxFailedIndexesExceeded" => {
            let most = spec.per_index.and_then(|it| it.max_failed_indexes);
            let most = most.map_or_else(String::new, |most| {
                format!(", and spec.maxFailedIndexes is {most}")
            });
            let words = format!("{}{most}", indexes());
            ("max-failed-indexes", words, "")
        }
        "PodFailurePolicy" => {
            let words = format!("spec.podFailurePolicy ends it: {}", plain(&end.message));
            ("pod-failure-policy", words, "")
        }
        _ => (
            "failed",
            format!("{}: {}", end.reason, plain(&end.message)),
            "",
        ),
    }
}

fn words_of_indexes(number: u32) -> String {
    match number {
        1 => "1 index".to_owned(),
        number => format!("{number} indexes"),
    }
}

/// Trims the full stop at the end of a message.
fn plain(message: &str) -> &str {
    message.trim_end_matches('.')
}

/// Reports a Job with a decided end and Pods that have not ended.
pub(super) fn verdict(sight: &JobSight) -> Option<Reason> {
    let verdict = sight.job.verdict()?;
    let (how, reason) = match verdict.is(ConditionKind::FailureTarget) {
        true => ("Failed", format!(" ({})", verdict.reason)),
        false => ("Complete", String::new()),
    };
    let what = format!("It will be {how}{reason} once its last Pod has ended");
    if let Some(kept) = kept(sight) {
        let what = format!("{what}; {}.", kept.what);
        return Some(Reason { what, ..kept });
    }
    if let Some(refused) = writes::half(sight) {
        let what = format!("{what}; {}.", refused.what);
        return Some(Reason { what, ..refused });
    }
    let AlikePods { count: left, .. } = sight.pods.terminating;
    if left == 0 {
        return Some(Reason::new(
            "ending",
            format!("{what}; none was seen that still runs."),
            "Wait for the controller to write the end.",
        ));
    }
    let last = terminating(&sight.pods.terminating, sight.now);
    Some(Reason::new(
        "pods-terminating",
        format!("{what}; {left} still to end: {last}."),
        "Wait for the Pods' grace periods; where a node does not answer, delete the node.",
    ))
}

/// Describes the Pod with the oldest deletion deadline.
fn terminating(group: &AlikePods, now: Time) -> String {
    let AlikePods {
        example,
        node,
        since,
        ..
    } = group;
    let place = match node.as_str() {
        "" => String::new(),
        node => format!(" on node {node}"),
    };
    let due = since.map_or_else(String::new, |at| {
        let verb = if at > now {
            "has until"
        } else {
            "should be gone since"
        };
        format!(" {verb} {}", moment(at, now))
    });
    format!("Pod {example}{place}{due}")
}

/// Reports Pods that another component's finalizer keeps.
pub(super) fn kept(sight: &JobSight) -> Option<Reason> {
    let kept = sight.pods.kept.iter();
    let (finalizer, group) = kept.max_by_key(|(_, group)| group.count)?;
    let since = group.since.map_or_else(String::new, |at| {
        format!(" since {}", moment(at, sight.now))
    });
    let (pods, example) = (count(group.count as usize, "Pod"), &group.example);
    Some(Reason::new(
        "kept-pods",
        format!("the finalizer {finalizer} keeps {pods}, such as {example}{since}"),
        format!("Whoever set {finalizer} has to take it off; find out why it does not."),
    ))
}
