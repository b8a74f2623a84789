//! `kubectl-lakh`: once it is on the PATH, `kubectl lakh status JOB` and the like work.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lakh_inspect::{
    CLOSED_PIPE, OutputError, Problem, Requests, UNUSABLE, VERSION, complain,
    doctor::{self, DoctorArgs},
    log::{self, LogFormat, Usual},
    status::{self, StatusArgs},
    top::{self, TopArgs},
    why::{self, WhyArgs},
};

/// Show Jobs of any cluster: their state, why they make no progress, and problems of their controller.
#[derive(Debug, Parser)]
#[command(name = "kubectl lakh", version = VERSION, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// Log more; give it twice for debug lines. RUST_LOG overrides it.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
    /// Format of the log.
    #[arg(long, value_enum, value_name = "FORM", default_value_t, global = true)]
    log_format: LogFormat,
}

#[derive(Debug, Subcommand)]
enum Command {
    Doctor(Box<DoctorArgs>),
    Status(Box<StatusArgs>),
    Why(Box<WhyArgs>),
    Top(Box<TopArgs>),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let usual = match args.command {
        Command::Top(_) => Usual::Screen,
        _ => Usual::Warnings,
    };
    log::start(args.verbose, usual, args.log_format);
    let ended = match runtime() {
        Ok(runtime) => runtime.block_on(run(args.command)),
        Err(error) => Err(error.into()),
    };
    ExitCode::from(match ended {
        Ok(code) => code,
        Err(problem) => match problem.downcast_ref::<OutputError>() {
            Some(error) if error.is_closed_pipe() => CLOSED_PIPE,
            _ => {
                complain(&problem.to_string());
                UNUSABLE
            }
        },
    })
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

async fn run(command: Command) -> Result<u8, Problem> {
    let requests = Requests::listen()?;
    match command {
        Command::Doctor(args) => doctor::run(*args, requests).await,
        Command::Status(args) => status::run(*args, requests).await,
        Command::Why(args) => why::run(*args, requests).await,
        Command::Top(args) => top::run(*args, requests).await,
    }
}
