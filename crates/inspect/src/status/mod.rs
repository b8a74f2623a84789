//! `lakh status`: prints the state of a Job, on any cluster, whichever controller runs it.
//!
//! [`one_job`](super::one_job) reads the Job, [`report`] builds an object from it, [`mod@print`] formats it as text,
//! and [`follow`] watches the Job to its end. Nothing is written. `docs/status.md` lists the requests.
//!
//! Exit codes: 0, success, and a watched Job is Complete; 1, a watched Job is Failed or gone; 2, the Job could not be
//! read; 124, the timeout has expired.

mod follow;
pub(super) mod print;
mod recorded;
mod report;
#[cfg(test)]
mod tests;

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{
    OK, Problem, UNUSABLE, complain, duration,
    finish::Requests,
    formats::{json, yaml},
    one_job::{Depth, JobArgs, JobPace, JobSight, look, no_job},
    print as tell,
};
pub(super) use report::{JobStanding, StatusReport};

/// Show the state of a Job: progress, rate, Pods, failures by cause, and pending waits.
///
/// Works on any cluster, whichever controller runs the Job, and only reads from the API server. With --watch it follows
/// the Job to its end. Exit codes: 0, success, and a watched Job is Complete; 1, a watched Job is Failed or was
/// deleted; 2, the Job could not be read; 124, --timeout expired.
#[derive(Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    job: JobArgs,
    /// Output format. With --watch, json prints a line for each change, and yaml a document.
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
    output: StatusOutput,
    /// Follow the Job to its end: updates in place on a terminal, otherwise prints a line for each change.
    #[arg(short, long)]
    watch: bool,
    /// Time limit for --watch; the exit code is 124 when it expires. Default: none.
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "watch")]
    timeout: Option<Duration>,
    /// Also query the controller at its --listen address, such as http://127.0.0.1:8080 with kubectl port-forward, for
    /// recorded failures of indexes whose last Pod is gone. The Job needs the annotation lakh.dev/index-record.
    #[arg(long, value_name = "URL")]
    controller: Option<String>,
}

/// Output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum StatusOutput {
    /// Text.
    #[default]
    Text,
    /// Text, with a line for each failed index, or for each failed Pod of a Job without indexes.
    Wide,
    /// A JSON object.
    Json,
    /// The same object as YAML.
    Yaml,
}

/// Prints the state of the Job, once or until it has ended.
pub async fn run(args: StatusArgs, mut requests: Requests) -> Result<u8, Problem> {
    tokio::select! {
        told = print_status(args) => told,
        () = requests.asked_to_end() => {
            complain("interrupted");
            Ok(UNUSABLE)
        }
    }
}

async fn print_status(args: StatusArgs) -> Result<u8, Problem> {
    let controller = args.controller.as_deref().map(recorded::controller);
    let controller = controller.transpose()?;
    let (asker, key) = args.job.asker().await?;
    if args.watch {
        let follower = follow::Follower::begin(&asker, &key, args.output, controller);
        return follow::follow(follower.await?, args.timeout).await;
    }
    let sight = look(&asker, &key, Depth::Pods).await;
    let sight = sight.map_err(|error| no_job(&asker, &key, &error))?;
    let mut report = StatusReport::of(&sight, JobPace::of(&sight.job, sight.now));
    if let Some(controller) = &controller {
        report.add(recorded::look(&sight, controller).await);
    }
    tell(&form(&report, &sight, args.output))?;
    Ok(OK)
}

/// Formats the report in the requested form.
fn form(report: &StatusReport, sight: &JobSight, output: StatusOutput) -> String {
    match output {
        StatusOutput::Text => print::text(report, sight.now),
        StatusOutput::Wide => print::wide(report, sight.now),
        StatusOutput::Json => json(report),
        StatusOutput::Yaml => yaml(report),
    }
}
