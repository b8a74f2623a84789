//! `lakh why`: explains why a Job makes no progress and how to fix that, in at most three sentences.
//!
//! [`one_job`](super::one_job) reads the Job, [`judge`] finds the reasons, and [`mod@print`] formats them. Nothing is
//! written. `docs/status.md` lists all causes.
//!
//! Exit codes: 0, success; 2, the Job could not be read.

mod judge;
mod print;
mod reason;
#[cfg(test)]
mod tests;

use clap::{Args, ValueEnum};

use super::{
    OK, Problem, UNUSABLE,
    ask::Asker,
    complain,
    finish::Requests,
    formats::{json, yaml},
    one_job::{Depth, JobArgs, JobSight, look, no_job},
    print as tell,
};
use lakh_client::Client;
use lakh_model::JobKey;
use reason::Reason;

/// Explain in one to three sentences why a Job makes no progress, and how to fix it.
///
/// Works on any cluster, whichever controller runs the Job, and only reads from the API server. Exit codes: 0, success;
/// 2, the Job could not be read.
#[derive(Args, Debug)]
pub struct WhyArgs {
    #[command(flatten)]
    job: JobArgs,
    /// Output format.
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
    output: WhyOutput,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum WhyOutput {
    /// Text.
    #[default]
    Text,
    /// A JSON object.
    Json,
    /// The same object as YAML.
    Yaml,
}

/// Reads the Job and prints the reasons.
pub async fn run(args: WhyArgs, mut requests: Requests) -> Result<u8, Problem> {
    tokio::select! {
        told = explain(args) => told,
        () = requests.asked_to_end() => {
            complain("interrupted");
            Ok(UNUSABLE)
        }
    }
}

async fn explain(args: WhyArgs) -> Result<u8, Problem> {
    let (asker, key) = args.job.asker().await?;
    let (sight, reasons) = examine(&asker, &key).await?;
    let unseen = sight.unseen();
    let object = print::object(&sight, &reasons, &unseen);
    tell(&match args.output {
        WhyOutput::Text => print::text(&sight, &reasons, &unseen),
        WhyOutput::Json => json(&object),
        WhyOutput::Yaml => yaml(&object),
    })?;
    Ok(OK)
}

/// Reads a Job and judges it.
async fn examine(asker: &Asker, key: &JobKey) -> Result<(JobSight, Vec<Reason>), Problem> {
    let sight = look(asker, key, Depth::Reasons).await;
    let sight = sight.map_err(|error| no_job(asker, key, &error))?;
    let reasons = judge::judge(&sight);
    Ok((sight, reasons))
}

/// Returns the cause and the text of `lakh why`, for tests; none if the Job cannot be read.
pub async fn explain_by(client: Client, key: &JobKey) -> Option<(&'static str, String)> {
    let (sight, reasons) = examine(&Asker::new(client), key).await.ok()?;
    let cause = reasons.first()?.cause;
    Some((cause, print::text(&sight, &reasons, &sight.unseen())))
}

/// Returns the reasons why a Job makes no progress, in sentences; none if nothing holds it.
pub(super) fn trouble(sight: &JobSight) -> Option<String> {
    let reasons = judge::judge(sight);
    let is_held = reasons.iter().any(|reason| !reason.is_progress());
    is_held.then(|| print::sentences(&reasons))
}
