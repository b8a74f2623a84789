//! Says how it all ended.

use serde_json::{Value, json};

use crate::cli::words::short_list as short;

use super::{
    args::Output,
    standstill::{list, text},
    watch::{Followed, Following},
};

/// Prints the closing summary to standard output.
pub(super) fn print(following: &Following, output: Output) {
    let text = match output {
        Output::Text => table(following),
        Output::Json => format!("{:#}", json(following)),
    };
    crate::cli::print(&text);
}

fn result(job: &Followed) -> &'static str {
    match job.end {
        Some((_, true)) => "Complete",
        Some((_, false)) => "Failed",
        None => "Unfinished",
    }
}

fn json(following: &Following) -> Value {
    let jobs = following.jobs.iter().map(|job| {
        json!({
            "namespace": job.namespace,
            "name": job.name,
            "result": result(job),
            "wallSeconds": (job.wall().as_secs_f64() * 1000.0).round() / 1000.0,
            "status": job.status,
            "waitsFor": job.why,
            "failures": job.failures,
        })
    });
    json!({"jobs": jobs.collect::<Vec<_>>()})
}

fn table(following: &Following) -> String {
    let name = |job: &Followed| format!("{}/{}", job.namespace, job.name);
    let names = following.jobs.iter().map(|job| name(job).len());
    let width = names.max().unwrap_or(0).max("JOB".len());
    let mut lines = vec![format!(
        "{:width$}  {:10}  {:>13}  {:>6}  {:>8}  {:>8}",
        "JOB", "RESULT", "SUCCEEDED", "FAILED", "WALL", "PODS/S"
    )];
    for job in &following.jobs {
        let succeeded = job.count("succeeded");
        let wall = job.wall().as_secs_f64();
        lines.push(format!(
            "{:width$}  {:10}  {:>13}  {:>6}  {:>6.2} s  {:>8.0}",
            name(job),
            result(job),
            format!("{succeeded}/{}", job.wanted),
            job.count("failed"),
            wall,
            (succeeded + job.count("failed")) as f64 / wall.max(0.001),
        ));
        for more in details(job) {
            lines.push(format!("{:width$}  {more}", ""));
        }
    }
    lines.join("\n")
}

/// What is worth a line of its own: why it failed or has not ended, which indexes, and how its Pods ended.
fn details(job: &Followed) -> Vec<String> {
    let mut lines = Vec::new();
    match job.end {
        Some((_, true)) => {}
        Some((_, false)) => lines.push(why(job)),
        None => lines.extend(job.why.clone()),
    }
    if let Some(indexes) = job.status["failedIndexes"].as_str() {
        lines.push(format!("failed indexes: {}", short(indexes)));
    }
    let more = job.failures.len().saturating_sub(MOST_CAUSES);
    lines.extend(job.failures.iter().take(MOST_CAUSES).cloned());
    if more > 0 {
        lines.push(format!("and {more} more ways to fail"));
    }
    lines
}

/// The most kinds of failure that are shown for one Job.
const MOST_CAUSES: usize = 5;

/// Reason and message of a failed Job.
fn why(job: &Followed) -> String {
    let mut conditions = list(&job.status["conditions"]);
    let failed = conditions.find(|condition| condition["type"] == "Failed");
    let said = |field: &str| failed.map_or("", |condition| text(&condition[field]));
    format!("{}: {}", said("reason"), said("message"))
}
