//! The command line: parses arguments, runs the command and returns an exit code.
//!
//! Exit codes: 0, success; 1, a Job failed, the time ran out, a part of the controller broke, or the doctor found a
//! problem; 2, invalid arguments or files, and nothing was done; 124, a Job that was watched did not end in time; 141,
//! the reader of the output has gone.
//!
//! Must not: hold anything that a user of the library needs.

mod args;
mod controller;
mod cron;
mod leader_election;
#[cfg(feature = "embedded")]
mod local;
#[cfg(feature = "commands")]
mod manual;
mod open_files;
#[cfg(all(test, feature = "embedded"))]
mod tests;
mod tips;
mod tunables;
mod ui;

use std::process::ExitCode;

use clap::Parser as _;

use lakh_inspect::{
    CLOSED_PIPE, FAILED, Gates, ModeName, OK, OutputError, Problem, Requests, UNUSABLE, VERSION,
    complain, configure, duration, log, mode, print,
};
#[cfg(feature = "commands")]
use lakh_inspect::{doctor, status, top, why};
#[cfg(feature = "embedded")]
use lakh_inspect::{say, words};

use args::{Args, Command};

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    ExitCode::from(match Args::try_parse() {
        Ok(args) => run(args),
        Err(error) => refuse(error),
    })
}

/// Prints help, version or a parser error; returns the exit code.
fn refuse(error: clap::Error) -> u8 {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let error = tips::with_tip(error, &words);
    match error.print() {
        Err(failed) if failed.kind() == std::io::ErrorKind::BrokenPipe => CLOSED_PIPE,
        _ => u8::try_from(error.exit_code()).unwrap_or(UNUSABLE),
    }
}

/// Runs a command line; returns the exit code.
fn run(args: Args) -> u8 {
    log::start(args.verbose, usual_log(&args.command), args.log_format);
    open_files::raise_limit();
    let runtime = match runtime(&args.command) {
        Ok(runtime) => runtime,
        Err(error) => return unusable(&format!("cannot start: {error}")),
    };
    let ended = runtime.block_on(async {
        let requests = Requests::listen()?;
        match args.command {
            Command::Controller(args) => controller::run(*args, requests).await,
            #[cfg(feature = "embedded")]
            Command::Local(args) => local::run(*args, requests).await,
            #[cfg(feature = "commands")]
            Command::Doctor(args) => doctor::run(*args, requests).await,
            #[cfg(feature = "commands")]
            Command::Status(args) => status::run(*args, requests).await,
            #[cfg(feature = "commands")]
            Command::Why(args) => why::run(*args, requests).await,
            #[cfg(feature = "commands")]
            Command::Top(args) => top::run(*args, requests).await,
            Command::Cron(command) => Ok(cron::run(command)?),
            Command::Version => {
                print(&format!("lakh {VERSION}"))?;
                Ok(OK)
            }
            #[cfg(feature = "commands")]
            Command::Completion { shell } => manual::complete(shell),
            #[cfg(feature = "commands")]
            Command::Man { folder } => manual::write_pages(&folder),
        }
    });
    // Tasks that still run are not awaited: they had their time.
    runtime.shutdown_background();
    match ended {
        Ok(code) => code,
        Err(problem) => match problem.downcast_ref::<OutputError>() {
            Some(error) if error.is_closed_pipe() => CLOSED_PIPE,
            _ => unusable(&problem.to_string()),
        },
    }
}

/// Creates the runtime. All commands but `lakh local` use one thread: the controller's work between two calls is so
/// short that handing it to another thread costs more than it gains.
fn runtime(command: &Command) -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = match command {
        #[cfg(feature = "embedded")]
        Command::Local(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    builder.enable_all().build()
}

fn usual_log(command: &Command) -> log::Usual {
    match command {
        Command::Controller(_) => log::Usual::News,
        #[cfg(feature = "commands")]
        Command::Top(_) => log::Usual::Screen,
        _ => log::Usual::Warnings,
    }
}

/// Reports invalid arguments or files; returns the exit code.
fn unusable(message: &str) -> u8 {
    complain(message);
    UNUSABLE
}
