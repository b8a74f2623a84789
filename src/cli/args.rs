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

/// A Kubernetes Job controller for Jobs with up to a hundred thousand Pods and more.
#[derive(Debug, Parser)]
#[command(version = VERSION, max_term_width = 100)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
    /// Log more; give it twice for debug lines. RUST_LOG overrides it.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(super) verbose: u8,
    /// Format of the log.
    #[arg(long, value_enum, value_name = "FORM", default_value_t, global = true)]
    pub(super) log_format: LogFormat,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the controller for a cluster.
    Controller(Box<ControllerArgs>),
    /// Run Jobs on an embedded cluster in this process.
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
    /// Evaluate the schedules of CronJobs.
    #[command(subcommand)]
    Cron(CronCommand),
    /// Print the version.
    Version,
    #[cfg(feature = "commands")]
    /// Print a shell completion script.
    Completion {
        /// Shell to print the script for.
        shell: Shell,
    },
    #[cfg(feature = "commands")]
    /// Write the manual pages.
    Man {
        /// Folder to write the pages to.
        folder: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum CronCommand {
    /// Print the next times of a schedule in its time zone.
    Next {
        /// Schedule: five fields, or a macro such as @hourly.
        expression: String,
        /// Time zone, as in spec.timeZone of the CronJob. Default: UTC.
        #[arg(long, value_name = "TZ")]
        time_zone: Option<String>,
        /// Number of times to print.
        #[arg(long, value_name = "N", default_value_t = 5)]
        count: usize,
    },
    /// Describe in words when a schedule runs.
    Explain {
        /// Schedule: five fields, or a macro such as @hourly.
        expression: String,
    },
}

#[derive(ClapArgs, Debug)]
pub(super) struct ControllerArgs {
    /// Path of the cluster's kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the Pod's own ServiceAccount.
    #[arg(long, value_name = "PATH")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Default: its current context.
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Address that serves /readyz, /livez and /metrics, and /debug/jobs to clients on this machine.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(super) listen: SocketAddr,
    /// Serve /debug/jobs to all clients that reach --listen. It has the names, indexes and Events of all Jobs.
    #[arg(long)]
    pub(super) expose_debug: bool,
    #[command(flatten)]
    pub(super) ui: UiArgs,
    /// Take over Jobs that another controller still works on, for a planned hand-over. Without this flag, lakh creates
    /// no Pods for such a Job until the other controller has stopped.
    #[arg(long)]
    pub(super) takeover: bool,
    #[command(flatten)]
    pub(super) election: LeaderElectionArgs,
    #[command(flatten)]
    pub(super) tunables: Tunables,
}
