//! Defines the arguments of `lakh`.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args as ClapArgs, Parser, Subcommand};
#[cfg(feature = "commands")]
use clap_complete::Shell;

#[cfg(feature = "embedded")]
use super::local::LocalArgs;
use super::{
    VERSION, leader_election::LeaderElectionArgs, log::LogFormat, tunables::Tunables, ui::UiArgs,
};
#[cfg(feature = "commands")]
use super::{doctor::DoctorArgs, status::StatusArgs, top::TopArgs, why::WhyArgs};

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
    #[cfg(feature = "commands")]
    Doctor(Box<DoctorArgs>),
    #[cfg(feature = "commands")]
    Status(Box<StatusArgs>),
    #[cfg(feature = "commands")]
    Why(Box<WhyArgs>),
    #[cfg(feature = "commands")]
    Top(Box<TopArgs>),
    /// Look at schedules of CronJobs.
    #[command(subcommand)]
    Cron(CronCommand),
    /// Print the version.
    Version,
    #[cfg(feature = "commands")]
    /// Print the script by which a shell completes commands and flags.
    Completion {
        /// For which shell.
        shell: Shell,
    },
    #[cfg(feature = "commands")]
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
