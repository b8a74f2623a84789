//! Defines the flags of leader election, with kube-controller-manager's names, and their defaults.

use std::{collections::hash_map::RandomState, fs, hash::BuildHasher as _, time::Duration};

use clap::Args;

use crate::{
    model::{Division, Partition, SYSTEM_NAMESPACE, format_go_duration, names::is_subdomain},
    ownership::lease_name,
    runtime::{LeaderElection, LeaseTimings, Options},
};

use super::{Problem, duration};

/// File with the namespace of this Pod.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Each range is a shard in each replica, and a replica's loop polls all of them each time.
const MAX_RANGES: u32 = 64;

/// Flags of leader election.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Leader election")]
pub(super) struct LeaderElectionArgs {
    /// Use leader election: of several replicas, the holder of a Lease writes, and the others stand by with synced
    /// caches.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    leader_elect: bool,
    /// Time after which standby replicas take over a Lease that was not renewed. Whole seconds.
    #[arg(long, value_name = "D", default_value = format_go_duration(usual().lease_duration), value_parser = duration)]
    leader_elect_lease_duration: Duration,
    /// Time after which a leader that could not renew its Lease stops writing.
    #[arg(long, value_name = "D", default_value = format_go_duration(usual().renew_deadline), value_parser = duration)]
    leader_elect_renew_deadline: Duration,
    /// Time between attempts to acquire or renew the Lease.
    #[arg(long, value_name = "D", default_value = format_go_duration(usual().retry_period), value_parser = duration)]
    leader_elect_retry_period: Duration,
    /// Let all replicas work at once: the namespaces are divided into N ranges, and one replica at a time writes each
    /// range. All replicas need the same N; a few times the number of replicas is a good value. Default: only the
    /// leader works.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=i64::from(MAX_RANGES)))]
    replicas_share: Option<u32>,
    /// Request only the replica's own ranges from the API server, by shardSelector (feature gate ShardedListAndWatch of
    /// the API server, alpha in Kubernetes 1.36). An API server without it sends everything, as without this flag. The
    /// ranges are then intervals of the server's hash: namespaces whose names differ only at the end are in the same
    /// range. Set it on all replicas or on none.
    #[arg(long, requires = "replicas_share")]
    shard_selector: bool,
    /// Name of the Lease. Default: derived from --mode, --managed-by-name and --namespace, so that only controllers of
    /// the same Jobs exclude each other.
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// Namespace of the Lease. Default: the namespace of the controller's Pod, or kube-system.
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_namespace: Option<String>,
}

fn usual() -> LeaseTimings {
    LeaseTimings::default()
}

impl LeaderElectionArgs {
    /// Returns the election of a controller with these options, if there is to be one.
    pub(super) fn election(self, options: &Options) -> Result<Option<LeaderElection>, Problem> {
        if let Some(ranges) = self.replicas_share {
            if !self.leader_elect {
                return Err(
                    "--replicas-share needs --leader-elect: the replicas share namespaces by a Lease".into(),
                );
            }
            if options.shards > 1 {
                let why = "each range already is a shard";
                return Err(format!(
                    "--replicas-share {ranges} cannot be combined with --shards: {why}"
                )
                .into());
            }
        }
        if !self.leader_elect {
            return Ok(None);
        }
        let timings = LeaseTimings {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        };
        timings
            .check()
            .map_err(|error| format!("--leader-elect-*: {error}"))?;
        let named = |name: &Option<String>, flag: &str| match name.as_deref() {
            Some(name) if !is_subdomain(name) => Err(format!(
                "{flag} {name}: must be a valid object name (DNS subdomain)"
            )),
            name => Ok(name.map(str::to_owned)),
        };
        let name = named(
            &self.leader_elect_resource_name,
            "--leader-elect-resource-name",
        )?;
        let namespace = named(
            &self.leader_elect_resource_namespace,
            "--leader-elect-resource-namespace",
        )?;
        let own = || fs::read_to_string(OWN_NAMESPACE).map(|text| text.trim().to_owned());
        Ok(Some(LeaderElection {
            namespace: namespace
                .or_else(|| own().ok())
                .unwrap_or_else(|| SYSTEM_NAMESPACE.to_owned()),
            name: name.unwrap_or_else(|| lease_name(&options.mode, &options.namespaces)),
            identity: identity(),
            timings,
            partition: self.replicas_share.map(|ranges| Partition {
                ranges,
                by: match self.shard_selector {
                    true => Division::Interval,
                    false => Division::Remainder,
                },
            }),
        }))
    }
}

/// Returns the host's name with a unique suffix, as client-go's programs identify themselves.
fn identity() -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let random = RandomState::new();
    let (high, low) = (random.hash_one(0_u8), random.hash_one(1_u8));
    format!("{host}_{high:016x}{low:016x}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        election: LeaderElectionArgs,
    }

    fn election(flags: &[&str]) -> Result<Option<LeaderElection>, String> {
        let flags = [&["lakh"], flags].concat();
        let flags = Flags::try_parse_from(flags).map_err(|error| error.to_string())?;
        let found = flags.election.election(&Options::default());
        found.map_err(|problem| problem.to_string())
    }

    #[test]
    fn flags_are_kube_controller_managers() {
        let usual = election(&[]).expect("good flags").expect("an election");
        assert_eq!(usual.timings, LeaseTimings::default());
        assert_eq!(usual.name, "lakh-replace");
        assert_eq!(election(&["--leader-elect=false"]), Ok(None));
        assert!(election(&["--leader-elect"]).is_ok_and(|found| found.is_some()));
        let set = [
            "--leader-elect-lease-duration=60s",
            "--leader-elect-renew-deadline=40s",
            "--leader-elect-retry-period=5s",
            "--leader-elect-resource-name=mine",
            "--leader-elect-resource-namespace=batch",
        ];
        let set = election(&set).expect("good flags").expect("an election");
        assert_eq!(
            (set.name.as_str(), set.namespace.as_str()),
            ("mine", "batch")
        );
        assert_eq!(set.timings.lease_duration, Duration::from_secs(60));
        let short = election(&["--leader-elect-lease-duration=10s"]);
        assert!(short.is_err_and(|error| error.contains("longer than the renew deadline")));
        let odd = election(&["--leader-elect-resource-name=A/b"]);
        assert!(odd.is_err_and(|error| error.contains("--leader-elect-resource-name A/b")));
    }

    #[test]
    fn sharing_needs_a_lease_and_excludes_shards() {
        let partition = |by| Partition { ranges: 8, by };
        let shared = election(&["--replicas-share=8"]).expect("good flags");
        let shared = shared.expect("an election");
        assert_eq!(
            (shared.partition, shared.name.as_str()),
            (Some(partition(Division::Remainder)), "lakh-replace")
        );
        let selecting = election(&["--replicas-share=8", "--shard-selector"]);
        let selecting = selecting.expect("good flags").expect("an election");
        assert_eq!(selecting.partition, Some(partition(Division::Interval)));
        assert!(Flags::try_parse_from(["lakh", "--shard-selector"]).is_err());
        let refused = |flags: &[&str]| election(flags).expect_err("bad flags");
        let alone = refused(&["--replicas-share=8", "--leader-elect=false"]);
        assert!(alone.contains("needs --leader-elect"), "{alone}");
        for number in ["1", "65", "many"] {
            let odd = refused(&["--replicas-share", number]);
            assert!(
                odd.contains(number) && odd.contains("--replicas-share"),
                "{odd}"
            );
        }
        let flags = Flags::try_parse_from(["lakh", "--replicas-share=8"]).expect("good flags");
        let options = Options {
            shards: 2,
            ..Options::default()
        };
        let both = flags.election.election(&options);
        assert!(both.is_err_and(|error| error.to_string().contains("combined with --shards")));
    }

    #[test]
    fn no_two_have_one_identity() {
        assert_ne!(identity(), identity());
    }
}
