//! Defines the flags for the settings of the controller.

use std::time::Duration;

use clap::Args;

use crate::{
    model::{Exponential, Limits, format_go_duration},
    runtime::{Controllers, ManagerName, Options, Rate},
};

use super::{Gates, ModeName, Problem, duration, mode};

/// Flags of every command that runs the controller.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Controller")]
pub(super) struct Tunables {
    /// Controllers to run: job, cronjob, ttl, or * for all; -NAME excludes one, as in *,-ttl. Default: *; with --mode
    /// managed-by *,-cronjob, because the built-in CronJob controller runs all CronJobs.
    #[arg(long, value_name = "NAME,...", value_parser = Controllers::parse, allow_hyphen_values = true)]
    controllers: Option<Controllers>,
    /// Jobs to manage. Default: managed-by on a cluster; on an embedded cluster the Jobs of both modes.
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<ModeName>,
    /// With --mode managed-by: the value of spec.managedBy that selects this controller. Default:
    /// lakh.dev/job-controller.
    #[arg(long, value_name = "NAME", value_parser = ManagerName::parse)]
    managed_by_name: Option<ManagerName>,
    /// Namespace to watch; may be given more than once. Default: all namespaces.
    #[arg(long = "namespace", value_name = "NAME")]
    pub(super) namespaces: Vec<String>,
    /// Feature gates. WorkloadWithJob=true gives each Indexed Job that runs all its Pods at once a Workload and a
    /// PodGroup, so that the scheduler starts all of its Pods or none.
    #[arg(long, value_name = "NAME=BOOL,...", value_parser = Gates::parse)]
    feature_gates: Vec<Gates>,
    /// Minimum time between two status updates of a Job that only carry the progress of Pods.
    #[arg(long, value_name = "D", default_value = format_go_duration(defaults().limits.sync_batch_period), value_parser = duration)]
    sync_batch_period: Duration,
    /// Backoff of a Job after its first failed Pod; doubled with each further consecutive failure.
    #[arg(long, value_name = "D", default_value = format_go_duration(defaults().limits.pod_failure_backoff.base), value_parser = duration)]
    pod_failure_backoff_base: Duration,
    /// Maximum backoff of a Job after failed Pods.
    #[arg(long, value_name = "D", default_value = format_go_duration(defaults().limits.pod_failure_backoff.max), value_parser = duration)]
    pod_failure_backoff_max: Duration,
    /// Maximum number of Pods that a status may list in uncountedTerminatedPods.
    #[arg(long, value_name = "N", default_value_t = defaults().limits.max_uncounted_pods, value_parser = at_least_one())]
    max_uncounted_pods: u32,
    /// Maximum number of Pod creations that one Job may have in flight; the same limit applies to deletions and to
    /// removals of finalizers.
    #[arg(long, value_name = "N", default_value_t = defaults().limits.max_pod_writes, value_parser = at_least_one())]
    max_pod_writes_per_sync: u32,
    /// Requests per second to the API server, on average; 0 for no limit.
    #[arg(
        long,
        value_name = "N",
        default_value_t = defaults().rate.qps,
        allow_negative_numbers = true
    )]
    qps: u32,
    /// Burst of requests above --qps. Default: the value of --qps.
    #[arg(
        long,
        value_name = "N",
        default_value_t = defaults().rate.burst,
        allow_negative_numbers = true
    )]
    burst: u32,
    /// Maximum number of writes to the API server in flight at once.
    #[arg(long, value_name = "N", default_value_t = defaults().max_in_flight as u32, value_parser = at_least_one())]
    max_in_flight: u32,
    /// Number of threads that share the Jobs by namespace; one is enough for most clusters.
    #[arg(long, value_name = "N", default_value_t = defaults().shards as u32, value_parser = at_least_one())]
    shards: u32,
    /// Number of CronJobs that are synced concurrently. A sync waits for each of its requests.
    #[arg(long, value_name = "N", default_value_t = defaults().concurrent_cron_job_syncs as u32, value_parser = at_least_one())]
    concurrent_cron_job_syncs: u32,
    /// Number of finished Jobs that are deleted concurrently after their TTL. Each deletion takes two requests.
    #[arg(long, value_name = "N", default_value_t = defaults().concurrent_ttl_syncs as u32, value_parser = at_least_one())]
    concurrent_ttl_after_finished_syncs: u32,
    /// Summarize the failed Pods of each Job in one Event, by cause. A Job overrides this flag with the annotation
    /// lakh.dev/failure-summary. Without this flag, only Jobs with that annotation get a summary.
    #[arg(long)]
    failure_summaries: bool,
    /// Memory for index records, in MiB: the outcome of each index, for Jobs that request it with the annotation
    /// lakh.dev/index-record. 0 disables them.
    #[arg(long, value_name = "MIB", default_value_t = (defaults().index_record_bytes >> 20) as u32, value_parser = clap::value_parser!(u32).range(..=65_536))]
    index_record_memory: u32,
    /// Memory for the Pod templates of Jobs and CronJobs, in MiB; one namespace may use half of it. A template that is
    /// not in memory is read from the API server when needed.
    #[arg(long, value_name = "MIB", default_value_t = (defaults().template_bytes >> 20) as u32, value_parser = clap::value_parser!(u32).range(..=65_536))]
    template_memory: u32,
}

/// Returns the defaults.
fn defaults() -> Options {
    Options::default()
}

fn at_least_one() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

impl Tunables {
    /// Returns the controller's options, with probes answered at `listen`; `usual` is the default mode.
    pub(super) fn options(
        self,
        usual: ModeName,
        listen: Option<std::net::SocketAddr>,
    ) -> Result<Options, Problem> {
        let mode = mode(self.mode.unwrap_or(usual), self.managed_by_name)?;
        Ok(Options {
            controllers: self.controllers.unwrap_or(Controllers::of_mode(&mode)),
            mode,
            limits: Limits {
                sync_batch_period: self.sync_batch_period,
                pod_failure_backoff: Exponential {
                    base: self.pod_failure_backoff_base,
                    max: self.pod_failure_backoff_max,
                },
                max_uncounted_pods: self.max_uncounted_pods,
                max_pod_writes: self.max_pod_writes_per_sync,
                ..Limits::default()
            },
            workload_with_job: Gates::workload_with_job(&self.feature_gates),
            rate: Rate {
                qps: self.qps,
                burst: self.burst,
            },
            max_in_flight: self.max_in_flight as usize,
            shards: self.shards as usize,
            concurrent_cron_job_syncs: self.concurrent_cron_job_syncs as usize,
            concurrent_ttl_syncs: self.concurrent_ttl_after_finished_syncs as usize,
            namespaces: self.namespaces,
            summarizes_failures: self.failure_summaries,
            index_record_bytes: (self.index_record_memory as usize) << 20,
            template_bytes: (self.template_memory as usize) << 20,
            listen,
            expose_debug: false,
            ui: None,
            ..Options::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{model::OWN_MANAGER, runtime::Mode};

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        tunables: Tunables,
    }

    #[test]
    fn the_default_mode_avoids_the_built_in_controller() {
        let modes = |flags: &[&str]| {
            let flags = [&["lakh"], flags].concat();
            let flags = Flags::try_parse_from(flags).expect("good flags").tunables;
            [ModeName::ManagedBy, ModeName::Replace].map(|usual| {
                let options = flags.clone().options(usual, None).ok()?;
                let manager = match options.mode {
                    Mode::Replace | Mode::Both => None,
                    Mode::ManagedBy(name) => Some(name.to_string()),
                };
                Some((manager, options.controllers.cronjob))
            })
        };
        let beside = Some((Some(OWN_MANAGER.to_owned()), false));
        let instead = Some((None, true));
        assert_eq!(modes(&[]), [beside.clone(), instead.clone()]);
        assert_eq!(modes(&["--mode=managed-by"]), [beside.clone(), beside]);
        assert_eq!(modes(&["--mode=replace"]), [instead.clone(), instead]);
        let named = Some((Some("a.b/c".to_owned()), false));
        assert_eq!(modes(&["--managed-by-name=a.b/c"]), [named, None]);
        assert_eq!(
            modes(&["--controllers=*"])[0].as_ref().map(|found| found.1),
            Some(true)
        );
    }

    #[test]
    fn concurrent_syncs_default_to_upstreams_numbers() {
        let workers = |flags: &[&str]| {
            let flags = [&["lakh"], flags].concat();
            let flags = Flags::try_parse_from(flags).expect("good flags");
            let options = flags.tunables.options(ModeName::Replace, None);
            let options = options.expect("good flags");
            (
                options.concurrent_cron_job_syncs,
                options.concurrent_ttl_syncs,
            )
        };
        assert_eq!(workers(&[]), (5, 5));
        let flags = [
            "--concurrent-cron-job-syncs=7",
            "--concurrent-ttl-after-finished-syncs=9",
        ];
        assert_eq!(workers(&flags), (7, 9));
        let none = ["lakh", "--concurrent-cron-job-syncs=0"];
        assert!(Flags::try_parse_from(none).is_err());
    }
}
