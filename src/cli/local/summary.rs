//! Prints the outcome of a run.

use std::io::IsTerminal as _;

use serde_json::{Value, json};
use terminal_size::{Width, terminal_size};

use crate::cli::{
    OutputError,
    words::{cut, short_list as short},
};

use super::{
    args::Output,
    bars::wrapped,
    standstill::{list, text},
    watch::{Followed, Following},
};

/// Prints the closing summary to standard output.
pub(super) fn print(following: &Following, output: Output) -> Result<(), OutputError> {
    let text = match output {
        Output::Text => table(following, width()),
        Output::Json => format!("{:#}", json(following)),
    };
    crate::cli::print(&text)
}

/// Returns the width of the terminal, if standard output is one.
fn width() -> Option<usize> {
    let is_terminal = std::io::stdout().is_terminal();
    let (Width(width), _) = is_terminal.then(terminal_size)??;
    Some(usize::from(width))
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

/// Formats a table; `width` is that of the terminal, if it goes to one.
fn table(following: &Following, width: Option<usize>) -> String {
    let head = ["JOB", "RESULT", "SUCCEEDED", "FAILED", "WALL", "PODS/S"].map(str::to_owned);
    let rows = following.jobs.iter().map(|job| {
        let (succeeded, failed) = (job.count("succeeded"), job.count("failed"));
        let wall = job.wall().as_secs_f64();
        [
            format!("{}/{}", job.namespace, job.name),
            result(job).to_owned(),
            format!("{succeeded}/{}", job.wanted),
            failed.to_string(),
            format!("{wall:.2} s"),
            format!("{:.0}", (succeeded + failed) as f64 / wall.max(0.001)),
        ]
    });
    let rows: Vec<[String; 6]> = rows.collect();
    let all = || std::iter::once(&head).chain(&rows);
    let mut widths: [usize; 6] =
        std::array::from_fn(|at| all().map(|row| row[at].chars().count()).max().unwrap_or(0));
    // On a terminal the name is shortened: numbers in the wrong column cannot be read.
    let numbers: usize = widths[1..].iter().map(|width| width + GAP).sum();
    if let Some(width) = width {
        widths[0] = widths[0].min(width.saturating_sub(numbers).max(LEAST_NAME));
    }
    let line = |row: &[String; 6]| {
        let mut line = format!("{:<width$}", cut(&row[0], widths[0]), width = widths[0]);
        line.push_str(&format!("  {:<width$}", row[1], width = widths[1]));
        for (cell, width) in row[2..].iter().zip(&widths[2..]) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        line
    };
    let mut lines = vec![line(&head)];
    for (job, row) in following.jobs.iter().zip(&rows) {
        lines.push(line(row));
        for more in details(job) {
            match width {
                // Below the name, so that long words have room.
                Some(width) => {
                    let broken = wrapped(&more, width.saturating_sub(INDENT));
                    lines.extend(broken.iter().map(|line| format!("{:INDENT$}{line}", "")));
                }
                None => lines.push(format!("{:width$}  {more}", "", width = widths[0])),
            }
        }
    }
    lines.join("\n")
}

/// Between two columns, and before the lines below a Job.
const GAP: usize = 2;
const INDENT: usize = 4;

/// Minimum width of the name column.
const LEAST_NAME: usize = 12;

/// Returns further lines about a Job: why it failed or has not ended, its failed indexes, and the causes of failed
/// Pods.
fn details(job: &Followed) -> Vec<String> {
    let mut lines = Vec::new();
    match job.end {
        Some((_, true)) => {}
        Some((_, false)) => lines.push(why(job)),
        None => lines.extend(job.why.clone()),
    }
    let indexes = job.status["failedIndexes"].as_str();
    if let Some(indexes) = indexes.filter(|indexes| !indexes.is_empty()) {
        lines.push(format!("failed indexes: {}", short(indexes)));
    }
    let more = job.failures.len().saturating_sub(MOST_CAUSES);
    lines.extend(job.failures.iter().take(MOST_CAUSES).cloned());
    if more > 0 {
        lines.push(format!("and {more} more causes"));
    }
    lines
}

/// Maximum number of causes shown for one Job.
const MOST_CAUSES: usize = 5;

/// Returns reason and message of a failed Job.
fn why(job: &Followed) -> String {
    let mut conditions = list(&job.status["conditions"]);
    let failed = conditions.find(|condition| condition["type"] == "Failed");
    let said = |field: &str| failed.map_or("", |condition| text(&condition[field]));
    format!("{}: {}", said("reason"), said("message"))
}
