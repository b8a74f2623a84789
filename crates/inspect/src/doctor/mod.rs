//! `lakh doctor`: finds problems of lakh on a cluster, and recommends remedies.
//!
//! [`look`] reads all facts, [`judge`] makes one diagnosis for each check, and [`mod@print`] formats them. [`fix`] is
//! the only part that writes, and only with `--fix`. `docs/doctor.md` describes each check.
//!
//! Exit codes: 0, no problem found; 1, a problem found; 2, nothing could be read.

mod args;
mod facts;
mod fix;
mod judge;
mod look;
mod patient;
mod print;
mod report;
mod rights;
#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;

use super::{
    FAILED, OK, Problem, UNUSABLE,
    ask::Asker,
    complain,
    connect::{configure, server_problem},
    finish::Requests,
    print as tell,
};
use print::Examination;
pub use report::Verdict;

pub use args::DoctorArgs;
use args::DoctorOutput;

/// Examines the cluster and prints the problems.
pub async fn run(args: DoctorArgs, mut requests: Requests) -> Result<u8, Problem> {
    tokio::select! {
        examined = examine(args) => examined,
        () = requests.asked_to_end() => {
            complain("interrupted");
            Ok(UNUSABLE)
        }
    }
}

async fn examine(args: DoctorArgs) -> Result<u8, Problem> {
    let patient = args.patient()?;
    let client = configure(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let url = client.url().to_owned();
    let asker = Asker::new(client);
    let facts = look::look(&asker, &patient).await;
    let mut facts = facts.map_err(|error| server_problem(&url, &error))?;
    let fixed = match args.fix {
        true => Some(fix::fix(&asker, &patient, &mut facts).await),
        false => None,
    };
    let diagnoses = judge::judge(&patient, &facts);
    let examination = Examination {
        url: &url,
        patient: &patient,
        facts: &facts,
        diagnoses: &diagnoses,
        fixed: fixed.as_ref(),
    };
    match args.output {
        DoctorOutput::Json => tell(&print::json(examination))?,
        DoctorOutput::Text => tell(&print::text(examination, is_colourful()))?,
    }
    let is_found = |verdict| matches!(verdict, Verdict::Warning | Verdict::Failed);
    let mut verdicts = diagnoses.iter().map(|diagnosis| diagnosis.verdict());
    Ok(if verdicts.any(is_found) { FAILED } else { OK })
}

/// Returns the checks of `lakh doctor` with these arguments that find something, with their verdicts, and its text, for
/// tests.
pub async fn examine_by(
    client: lakh_client::Client,
    arguments: &[&str],
) -> (Vec<(&'static str, Verdict)>, String) {
    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        doctor: DoctorArgs,
    }
    let flags = <Flags as clap::Parser>::parse_from([&["doctor"], arguments].concat());
    let patient = flags.doctor.patient().expect("good flags");
    let facts = look::look(&Asker::new(client), &patient).await;
    let facts = facts.expect("the server answers");
    let diagnoses = judge::judge(&patient, &facts);
    let examination = Examination {
        url: "",
        patient: &patient,
        facts: &facts,
        diagnoses: &diagnoses,
        fixed: None,
    };
    let text = print::text(examination, false);
    let found = diagnoses.iter().map(|it| (it.check, it.verdict()));
    let found = found.filter(|(_, it)| matches!(it, Verdict::Warning | Verdict::Failed));
    (found.collect(), text)
}

fn is_colourful() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    std::io::stdout().is_terminal() && !unwanted
}
