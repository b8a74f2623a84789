//! The arguments of `lakh doctor`.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, ValueEnum};

use lakh_core::ownership::{Controllers, ManagerName, lease_name};
use lakh_model::{SYSTEM_NAMESPACE, names::is_subdomain};

use crate::{Gates, ModeName, Problem, mode};

use super::patient::{Patient, ServiceAccount};

/// Look at a cluster, and say what is wrong with lakh on it and what to do.
///
/// It reads, and writes nothing unless --fix is given. Exit codes: 0, nothing is wrong with what was seen; 1,
/// something is; 2, nothing could be seen.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Kubeconfig of the cluster. Default: $KUBECONFIG, ~/.kube/config, or the Pod's own service account.
    #[arg(long, value_name = "PATH")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use, instead of its current one.
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Namespace to look at; may be given more than once. Default: all.
    #[arg(short, long = "namespace", value_name = "NAME")]
    namespaces: Vec<String>,
    /// The mode of the controller.
    #[arg(long, value_enum, value_name = "MODE", default_value = "managed-by")]
    mode: ModeName,
    /// What spec.managedBy of the controller's Jobs says. Default: lakh.dev/job-controller.
    #[arg(long, value_name = "NAME", value_parser = ManagerName::parse)]
    managed_by_name: Option<ManagerName>,
    /// The controllers that run, as with `lakh controller`.
    #[arg(long, value_name = "NAME,...", value_parser = Controllers::parse, allow_hyphen_values = true)]
    controllers: Option<Controllers>,
    /// The feature gates of the controller.
    #[arg(long, value_name = "NAME=BOOL,...", value_parser = Gates::parse)]
    feature_gates: Vec<Gates>,
    /// Where the controller shows its page to others, if it does: then it needs two more rights. The address is not called.
    #[arg(long, value_name = "ADDRESS")]
    ui_listen: Option<SocketAddr>,
    /// Service account of the controller, whose rights are looked at. Default: your own rights.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = ServiceAccount::parse)]
    service_account: Option<ServiceAccount>,
    /// Name of the controller's Lease, if it was given one.
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// Namespace of the controller's Lease. Default: that of --service-account, or kube-system.
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_namespace: Option<String>,
    /// Free Pods that a finalizer holds although their Job is gone or finished. Nothing else is ever written.
    #[arg(long)]
    pub(super) fix: bool,
    /// The form of what is found.
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
    pub(super) output: DoctorOutput,
}

/// The form of what is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum DoctorOutput {
    /// For people; coloured on a terminal.
    #[default]
    Text,
    /// One object, for programs.
    Json,
}

impl DoctorArgs {
    /// Returns the controller that these flags describe.
    pub(super) fn patient(&self) -> Result<Patient, Problem> {
        let mode = mode(self.mode, self.managed_by_name.clone())?;
        self.check_names()?;
        let leases = match &self.leader_elect_resource_name {
            Some(name) => vec![name.clone()],
            // The controller may work in more namespaces than the one that is examined.
            None => {
                let everywhere = lease_name(&mode, &[]);
                let here = lease_name(&mode, &self.namespaces);
                let is_other = here != everywhere;
                [Some(everywhere), is_other.then_some(here)]
                    .into_iter()
                    .flatten()
                    .collect()
            }
        };
        let of_account = self.service_account.as_ref();
        let lease_namespace = self
            .leader_elect_resource_namespace
            .clone()
            .or_else(|| of_account.map(|account| account.namespace.clone()));
        Ok(Patient {
            controllers: self.controllers.unwrap_or(Controllers::of_mode(&mode)),
            mode,
            gangs: Gates::workload_with_job(&self.feature_gates),
            takes_tokens: self.ui_listen.is_some(),
            namespaces: self.namespaces.clone(),
            account: self.service_account.clone(),
            leases,
            lease_namespace: lease_namespace.unwrap_or_else(|| SYSTEM_NAMESPACE.to_owned()),
        })
    }

    /// Rejects invalid names, because each becomes a part of a path.
    fn check_names(&self) -> Result<(), Problem> {
        let account = self.service_account.iter();
        let names = [
            ("--namespace", self.namespaces.iter().collect::<Vec<_>>()),
            (
                "--service-account",
                account.flat_map(|it| [&it.namespace, &it.name]).collect(),
            ),
            (
                "--leader-elect-resource-name",
                self.leader_elect_resource_name.iter().collect(),
            ),
            (
                "--leader-elect-resource-namespace",
                self.leader_elect_resource_namespace.iter().collect(),
            ),
        ];
        for (flag, names) in names {
            if let Some(odd) = names.into_iter().find(|name| !is_subdomain(name)) {
                return Err(format!("{flag} {odd}: is no name of an object").into());
            }
        }
        Ok(())
    }
}
