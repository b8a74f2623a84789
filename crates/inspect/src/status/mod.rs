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

/// Say how a Job stands: progress, pace, Pods, failures by cause, and what waits until when.
///
/// It works on any cluster, whichever controller runs the Job, and reads the API server only. With --watch it
/// follows the Job to its end. Exit codes: 0, it was told, and a Job that was watched is Complete; 1, a Job that was
/// watched is Failed or was deleted; 2, the Job could not be seen; 124, --timeout ran out.
#[derive(Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    job: JobArgs,
    /// The form of the answer. With --watch, JSON comes a line for each change, YAML a document.
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
    output: StatusOutput,
    /// Follow the Job to its end: redrawn in place on a terminal, elsewhere a line for each change.
    #[arg(short, long)]
    watch: bool,
    /// How long to follow it; exit code 124 if it has not ended by then. Default: for ever.
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "watch")]
    timeout: Option<Duration>,
    /// Ask the controller, too, where it answers --listen, such as http://127.0.0.1:8080 by kubectl port-forward: for what
    /// it has recorded of indexes whose last Pod failed and is gone, if the Job has the annotation lakh.dev/index-record.
    #[arg(long, value_name = "URL")]
    controller: Option<String>,
}

/// The form of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum StatusOutput {
    /// Some lines.
    #[default]
    Text,
    /// The same, and a line for each index, or Pod, that has failed.
    Wide,
    /// One object, for programs.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Prints the state of the Job, once or until it has ended.
pub async fn run(args: StatusArgs, mut requests: Requests) -> Result<u8, Problem> {
    tokio::select! {
        told = tell_status(args) => told,
        () = requests.asked_to_end() => {
            complain("interrupted");
            Ok(UNUSABLE)
        }
    }
}

async fn tell_status(args: StatusArgs) -> Result<u8, Problem> {
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
