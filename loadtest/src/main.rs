//! Measures lakh under load on the embedded cluster, and brings hollow nodes to any other cluster.

mod kubelet;
mod load;
mod process;
mod scenario;

use std::error::Error;

use clap::{Parser, Subcommand};

use scenario::Scenario;

/// Load scenarios for lakh on the embedded cluster, and hollow nodes for any other cluster.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Load(Scenario),
    /// Give the Pods of a cluster their lives, on nodes that run nothing; until interrupted.
    Kubelet(kubelet::Args),
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let runtime = tokio::runtime::Runtime::new()?;
    match args.command {
        Command::Load(scenario) => {
            let report = runtime.block_on(load::run(&scenario))?;
            println!("{report:#}");
            Ok(())
        }
        Command::Kubelet(args) => runtime.block_on(kubelet::run(args)),
    }
}
