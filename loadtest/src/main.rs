//! Measures lakh and other Job controllers under load, writes and compares reports, and adds hollow nodes to any
//! cluster.
//!
//! Read first: `scenario` (the load scenarios), `run` (how they run), `seen` (the measurements), `report` (the
//! results).

mod child;
mod drive;
mod follow;
mod kubelet;
mod latency;
mod metrics;
mod process;
mod report;
mod run;
mod sampler;
mod scenario;
mod seen;
mod stages;
mod target;
mod write;

use std::{error::Error, process::ExitCode};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use mimalloc::MiMalloc;

use scenario::Scenario;

/// lakh's own allocator, since the embedded cluster runs in this process.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Load tests and reports for lakh and other Job controllers, and hollow nodes for any cluster.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Load(Box<Scenario>),
    /// Compare two reports side by side, with ratios.
    Compare(report::CompareArgs),
    /// Run hollow nodes on a cluster until interrupted: they play the course of Pods without running containers.
    Kubelet(kubelet::KubeletArgs),
    /// Convert stage files to Stage objects for kwok, including those of nodes and of Pods without a stage.
    Stages(stages::StagesArgs),
    /// The process behind the scenario `writer`.
    #[command(hide = true)]
    Write(write::WriteArgs),
}

fn main() -> ExitCode {
    let matches = Args::command().get_matches();
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match run(matches.subcommand_name().unwrap_or_default(), args.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lakh-loadtest: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(name: &str, command: Command) -> Result<ExitCode, Box<dyn Error>> {
    let runtime = tokio::runtime::Runtime::new()?;
    match command {
        Command::Load(scenario) => {
            let report = runtime.block_on(run::run(name, &scenario))?;
            let page = report.write(&scenario.load().out)?;
            println!("{report}\n{}", page.display());
            return Ok(ExitCode::from(u8::from(!report.is_good())));
        }
        Command::Compare(args) => println!("{}", report::compare(&args)?),
        Command::Kubelet(args) => runtime.block_on(kubelet::run(args))?,
        Command::Stages(args) => print!("{}", stages::render(&args)?),
        Command::Write(args) => runtime.block_on(write::run(args))?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents with commands of this program. `tests/cluster/guides` runs their other commands.
    const DOCUMENTS: &[&str] = &[
        "CONTRIBUTING.md",
        "docs/load-tests.md",
        "loadtest/kwok/README.md",
    ];

    /// Returns the arguments of a line that runs this program.
    fn arguments(line: &str) -> Option<Vec<String>> {
        let starts = [
            "lakh-loadtest ",
            "target/release/lakh-loadtest ",
            "cargo run --release -p lakh-loadtest -- ",
        ];
        let mut rest = starts
            .iter()
            .find_map(|start| line.strip_prefix(start))?
            .to_owned();
        // The shell substitutes a process ID.
        while let Some((before, after)) = rest.split_once("$(") {
            let (_, after) = after.split_once(')')?;
            rest = format!("{before}1{after}");
        }
        let words = rest.split_whitespace().map(str::to_owned);
        Some(words.filter(|word| word != "&").collect())
    }

    #[test]
    fn documented_commands_are_parsed() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut count = 0;
        for document in DOCUMENTS {
            let text = std::fs::read_to_string(root.join(document)).expect("it can be read");
            let text = text.replace("\\\n", " ");
            for words in text.lines().filter_map(arguments) {
                let line = ["lakh-loadtest".to_owned()]
                    .into_iter()
                    .chain(words.clone());
                if let Err(error) = Args::try_parse_from(line) {
                    panic!("{document}: {words:?}: {error}");
                }
                count += 1;
            }
        }
        assert!(count > 7, "only {count} commands found");
    }
}
