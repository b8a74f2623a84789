//! Formats the report as text: some lines, a table with `-o wide`, or one line of a Job that is watched.
//!
//! Must not: judge, or print anything itself.

use std::fmt::Write as _;

use lakh_model::Time;

use crate::words::{count, cut, harmless, moment, rate, short_list, span};

use super::report::{
    CauseReport, FailureReport, IndexState, Indexes, JobStanding, StatusReport, WaitsReport,
};

/// The number of causes that are printed.
const SHOWN_CAUSES: usize = 5;

/// The length of a message on a line.
const SHOWN_MESSAGE: usize = 100;

/// Formats lines, each with its topic.
pub(super) fn text(report: &StatusReport, now: Time) -> String {
    let mut text = format!(
        "{}/{}: {}, {}\n",
        report.namespace,
        report.name,
        state(report),
        progress(report)
    );
    let mut line = |about: &str, words: String| {
        let _ = writeln!(text, "  {about:<9}  {words}");
    };
    if report.state != JobStanding::New {
        line("Pods", pods(report));
    }
    if let Some(pace) = pace(report) {
        line("pace", pace);
    }
    let conditions = report.conditions.iter();
    // After the end, the announcement of the end adds nothing.
    for condition in conditions.filter(|it| !report.state.is_over() || !it.is_verdict) {
        line("condition", condition.words.clone());
    }
    if let Some(failed) = report.failed_indexes.as_ref().filter(|it| it.count > 0) {
        let gone = report.failed_indexes_without_pods.as_ref();
        let gone = gone
            .filter(|it| it.count > 0)
            .map_or_else(String::new, |gone| {
                format!("; no Pod is left of {}", indexes(gone))
            });
        line("failed", format!("{} for good{gone}", indexes(failed)));
    }
    for cause in report.causes.iter().take(SHOWN_CAUSES) {
        line("failure", failure(cause, now));
    }
    let more = report.causes.len().saturating_sub(SHOWN_CAUSES);
    if more > 0 {
        line(
            "failure",
            format!("and {more} more causes: -o wide shows all"),
        );
    }
    if let Some(recorded) = &report.recorded {
        for cause in recorded.causes.iter().take(SHOWN_CAUSES) {
            let words = format!("{}: last {}", indexes(&cause.indexes), cause.cause);
            line("recorded", words);
        }
        let more = recorded.causes.len().saturating_sub(SHOWN_CAUSES);
        if more > 0 {
            line(
                "recorded",
                format!("and {more} more causes: -o wide shows all"),
            );
        }
        let since = Time::parse_rfc3339(&recorded.since).unwrap_or_default();
        line("recorded", format!("since {}", moment(since, now)));
    }
    if let Some(waits) = &report.waits {
        line("waits", words_of_waits(waits));
    }
    for unseen in &report.unseen {
        line("not seen", unseen.to_string());
    }
    harmless(text.trim_end())
}

/// Describes the state.
pub(crate) fn state(report: &StatusReport) -> String {
    let took = report
        .seconds
        .map(|it| span(std::time::Duration::from_secs(it)));
    match (report.state, took) {
        (JobStanding::New, _) => "no controller has written its status".to_owned(),
        (JobStanding::Running, Some(took)) => format!("running for {took}"),
        (JobStanding::Running, None) => "running".to_owned(),
        (JobStanding::Suspended, _) => "suspended".to_owned(),
        (JobStanding::Ending, _) => "ending".to_owned(),
        (JobStanding::Deleting, _) => "being deleted".to_owned(),
        (JobStanding::Complete, Some(took)) => format!("Complete after {took}"),
        (JobStanding::Complete, None) => "Complete".to_owned(),
        (JobStanding::Failed, Some(took)) => format!("Failed after {took}"),
        (JobStanding::Failed, None) => "Failed".to_owned(),
    }
}

/// Formats the progress.
pub(crate) fn progress(report: &StatusReport) -> String {
    let succeeded = report.succeeded;
    match report.completions {
        None => format!("{succeeded} succeeded"),
        Some(all) => {
            // Rounded down: 100 % means all of them.
            let percent = u64::from(succeeded) * 100 / u64::from(all.max(1));
            format!("{succeeded} of {all} succeeded ({percent} %)")
        }
    }
}

/// Formats the numbers of Pods by their state.
pub(crate) fn pods(report: &StatusReport) -> String {
    let mut parts = vec![format!("{} active", report.active)];
    let ready = report.ready.filter(|_| report.active > 0);
    parts.extend(ready.map(|ready| format!("{ready} ready")));
    let pending = report.pending.filter(|_| report.active > 0);
    parts.extend(pending.map(|pending| format!("{pending} pending")));
    let terminating = report.terminating.filter(|some| *some > 0);
    parts.extend(terminating.map(|some| format!("{some} terminating")));
    let counted = report.failed;
    parts.push(match report.failed_pods {
        Some(seen) if seen > counted => format!("{seen} failed ({counted} counted by now)"),
        _ => format!("{counted} failed"),
    });
    if report.restarts > 0 {
        parts.push(count(report.restarts as usize, "restart"));
    }
    parts.join(", ")
}

/// Formats the completion rate and the time left.
pub(crate) fn pace(report: &StatusReport) -> Option<String> {
    let rate = rate(report.rate?);
    let left = report.seconds_left.map_or_else(String::new, |left| {
        format!(
            ", about {} left",
            span(std::time::Duration::from_secs(left))
        )
    });
    Some(format!("{rate}{left}"))
}

/// Formats `3 indexes (0,4,7)`.
fn indexes(indexes: &Indexes) -> String {
    let Indexes { count, list } = indexes;
    let noun = if *count == 1 { "index" } else { "indexes" };
    format!("{count} {noun} ({})", short_list(list))
}

/// Formats a cause of failures, with the last Pod.
pub(crate) fn failure(cause: &CauseReport, now: Time) -> String {
    let of = cause
        .indexes
        .as_ref()
        .map_or_else(String::new, |some| format!(" of {}", indexes(some)));
    let last = &cause.last;
    let who = match last.index {
        Some(index) => format!("index {index}"),
        None => format!("Pod {}", last.pod),
    };
    let node = match last.node.as_str() {
        "" => String::new(),
        node => format!(" on {node}"),
    };
    let tries = match last.index {
        Some(_) if last.tries > 1 => format!(" at try {}", last.tries),
        _ => String::new(),
    };
    let at = Time::parse_rfc3339(&last.at).unwrap_or_default();
    let message = message(last).map_or_else(String::new, |message| format!(": {message}"));
    format!(
        "{}{of}: {}; last {who}{node}{tries}, {}{message}",
        count(cause.pods as usize, "Pod"),
        cause.cause,
        moment(at, now)
    )
}

/// Shortens a message to a line.
fn message(failure: &FailureReport) -> Option<String> {
    let mut lines = failure.message.as_deref()?.lines();
    let first = lines.next()?;
    match lines.next() {
        // The ellipsis stands for the remaining lines.
        Some(_) => Some(cut(&format!("{first}…"), SHOWN_MESSAGE)),
        None => Some(cut(first, SHOWN_MESSAGE)),
    }
}

/// Formats the backoffs after failures.
pub(crate) fn words_of_waits(waits: &WaitsReport) -> String {
    match &waits.indexes {
        None => waits.words.clone(),
        Some(some) => format!("{}: {}", indexes(some), waits.words),
    }
}

/// Formats the same, and a line for each index that has failed; without indexes, for each failed Pod.
pub(super) fn wide(report: &StatusReport, now: Time) -> String {
    let mut lines = vec![text(report, now)];
    let recorded = report.recorded.iter().flat_map(|it| &it.failures);
    let mut failures: Vec<&FailureReport> = report.failures.iter().chain(recorded).collect();
    if failures.is_empty() {
        return lines.remove(0);
    }
    if report.indexed {
        failures.sort_by_key(|failure| failure.index);
    }
    let head = match report.indexed {
        true => [
            "INDEX", "STATE", "TRIES", "CAUSE", "NODE", "ENDED", "MESSAGE",
        ],
        false => ["POD", "STATE", "TRIES", "CAUSE", "NODE", "ENDED", "MESSAGE"],
    };
    let rows = failures.into_iter().map(|it| row(it, now));
    let rows: Vec<[String; 7]> = std::iter::once(head.map(str::to_owned))
        .chain(rows)
        .collect();
    let widths: Vec<usize> = (0..7)
        .map(|at| {
            rows.iter()
                .map(|row| row[at].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    lines.push(String::new());
    for row in &rows {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        lines.push(cells.join("  ").trim_end().to_owned());
    }
    harmless(&lines.join("\n"))
}

fn row(failure: &FailureReport, now: Time) -> [String; 7] {
    let at = Time::parse_rfc3339(&failure.at).unwrap_or_default();
    let until = failure.until.as_deref().and_then(Time::parse_rfc3339);
    let state = match (failure.state, until) {
        (Some(IndexState::Waiting), Some(until)) => format!("until {}", moment(until, now)),
        (Some(IndexState::Failed), _) | (None, _) => "failed".to_owned(),
        (Some(IndexState::Succeeded), _) => "succeeded".to_owned(),
        (Some(IndexState::Waiting), None) => "waiting".to_owned(),
        (Some(IndexState::Retried), _) => "retried".to_owned(),
        (Some(IndexState::Unfinished), _) => "unfinished".to_owned(),
    };
    let who = failure
        .index
        .map_or_else(|| failure.pod.clone(), |index| index.to_string());
    [
        who,
        state,
        failure.tries.to_string(),
        failure.cause.clone(),
        failure.node.clone(),
        if failure.at.is_empty() {
            String::new()
        } else {
            moment(at, now)
        },
        message(failure).unwrap_or_default(),
    ]
}

/// Formats one line, for a Job that is watched.
pub(super) fn line(report: &StatusReport) -> String {
    let mut parts = vec![progress(report), pods(report)];
    let waiting = report.waits.as_ref();
    parts.extend(waiting.map(|waits| format!("waits: {}", words_of_waits(waits))));
    parts.extend(pace(report));
    format!("{}/{}: {}", report.namespace, report.name, parts.join("; "))
}
