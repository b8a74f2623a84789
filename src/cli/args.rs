//! Defines the arguments of `lakh`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Parser, Subcommand};
use clap_complete::Shell;

use crate::model::parse_go_duration;

#[cfg(feature = "embedded")]
use super::local::LocalArgs;
use super::{
    doctor::DoctorArgs, leader_election::LeaderElectionArgs, log::LogFormat, status::StatusArgs,
    top::TopArgs, tunables::Tunables, ui::UiArgs, why::WhyArgs,
};

/// The version, with the commit of a release build.
pub(super) const VERSION: &str = env!("LAKH_VERSION");

/// A Kubernetes Job controller for Jobs of a hundred thousand Pods.
#[derive(Debug, Parser)]
#[command(version = VERSION, max_term_width = 100)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
    /// Log more; twice for even more. RUST_LOG overrides it.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(super) verbose: u8,
    /// The form of the log's lines.
    #[arg(long, value_enum, value_name = "FORM", default_value_t, global = true)]
    pub(super) log_format: LogFormat,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the controller against a cluster.
    Controller(Box<ControllerArgs>),
    /// Run Jobs on an embedded cluster, in this process.
    #[cfg(feature = "embedded")]
    Local(Box<LocalArgs>),
    /// Look at a cluster, and say what is wrong with lakh on it and what to do.
    ///
    /// It reads, and writes nothing unless --fix is given. Exit codes: 0, nothing is wrong with what was seen; 1,
    /// something is; 2, nothing could be seen.
    Doctor(Box<DoctorArgs>),
    /// Say how a Job stands: progress, pace, Pods, failures by cause, and what waits until when.
    ///
    /// It works on any cluster, whichever controller runs the Job, and reads the API server only. With --watch it
    /// follows the Job to its end. Exit codes: 0, it was told, and a Job that was watched is Complete; 1, a Job that was
    /// watched is Failed or was deleted; 2, the Job could not be seen; 124, --timeout ran out.
    Status(Box<StatusArgs>),
    /// Say in one to three sentences why a Job does not go on, and what to do.
    ///
    /// It works on any cluster, whichever controller runs the Job, and reads the API server only. Exit codes: 0, it was
    /// told; 2, the Job could not be seen.
    Why(Box<WhyArgs>),
    /// Show all Jobs on the terminal as they go on, and of one all its indexes, failures and Events.
    ///
    /// It works on any cluster, whichever controller runs the Jobs, and reads the API server only. All is done by keys: ?
    /// shows which. Exit codes: 0, it was left by a key; 2, there is no terminal, or a signal ended it.
    Top(Box<TopArgs>),
    /// Look at schedules of CronJobs.
    #[command(subcommand)]
    Cron(CronCommand),
    /// Print the version.
    Version,
    /// Print the script by which a shell completes commands and flags.
    Completion {
        /// For which shell.
        shell: Shell,
    },
    /// Write the manual pages.
    Man {
        /// The folder to write them to.
        folder: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum CronCommand {
    /// Print the next times of a schedule, by the clocks of its zone.
    Next {
        /// The schedule: five fields, or @hourly and the like.
        expression: String,
        /// What spec.timeZone of the CronJob says. Default: UTC.
        #[arg(long, value_name = "TZ")]
        time_zone: Option<String>,
        /// How many times to print.
        #[arg(long, value_name = "N", default_value_t = 5)]
        count: usize,
    },
    /// Say in words when a schedule runs.
    Explain {
        /// The schedule: five fields, or @hourly and the like.
        expression: String,
    },
}

#[derive(ClapArgs, Debug)]
pub(super) struct ControllerArgs {
    /// Kubeconfig of the cluster. Default: $KUBECONFIG, ~/.kube/config, or the Pod's own service
    /// account.
    #[arg(long, value_name = "PATH")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use, instead of its current one.
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Where to answer /readyz, /livez, /metrics and, to who asks from this machine, /debug/jobs.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(super) listen: SocketAddr,
    /// Answer /debug/jobs to everybody who reaches that address. It tells names, indexes and Events of all Jobs.
    #[arg(long)]
    pub(super) expose_debug: bool,
    #[command(flatten)]
    pub(super) ui: UiArgs,
    /// Work on Jobs on which another controller works, too, for a hand-over on purpose. Without it, no Pods of such
    /// Jobs are created until this controller is alone.
    #[arg(long)]
    pub(super) takeover: bool,
    #[command(flatten)]
    pub(super) election: LeaderElectionArgs,
    #[command(flatten)]
    pub(super) tunables: Tunables,
}

/// Reads a duration as Kubernetes writes it: `200ms`, `1m30s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_go_duration(text)
        .ok_or_else(|| "must be a duration such as 200ms, 10s or 1m30s".to_owned())
}
