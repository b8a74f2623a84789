//! The arguments of `lakh doctor`.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, ValueEnum};

use lakh_core::ownership::{Controllers, ManagerName, lease_name};
use lakh_model::{SYSTEM_NAMESPACE, names::is_subdomain};

use crate::{Gates, ModeName, Problem, mode};

use super::patient::{Patient, ServiceAccount};

/// Check a cluster for problems with lakh, and suggest fixes.
///
/// Only reads from the API server, unless --fix is given. Exit codes: 0, no problem was found; 1, a problem was found;
/// 2, nothing could be read.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Path of the cluster's kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the Pod's own ServiceAccount.
    #[arg(long, value_name = "PATH")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Default: its current context.
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Namespace to check; may be given more than once. Default: all namespaces.
    #[arg(short, long = "namespace", value_name = "NAME")]
    namespaces: Vec<String>,
    /// Mode of the controller to check.
    #[arg(long, value_enum, value_name = "MODE", default_value = "managed-by")]
    mode: ModeName,
    /// Value of spec.managedBy that selects the controller. Default: lakh.dev/job-controller.
    #[arg(long, value_name = "NAME", value_parser = ManagerName::parse)]
    managed_by_name: Option<ManagerName>,
    /// Value of --controllers of the controller.
    #[arg(long, value_name = "NAME,...", value_parser = Controllers::parse, allow_hyphen_values = true)]
    controllers: Option<Controllers>,
    /// Value of --feature-gates of the controller.
    #[arg(long, value_name = "NAME=BOOL,...", value_parser = Gates::parse)]
    feature_gates: Vec<Gates>,
    /// Value of --ui-listen of the controller, if it has that flag: it then needs two more rights. The address is not
    /// contacted.
    #[arg(long, value_name = "ADDRESS")]
    ui_listen: Option<SocketAddr>,
    /// ServiceAccount of the controller, whose rights are checked. Default: your own rights are checked.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = ServiceAccount::parse)]
    service_account: Option<ServiceAccount>,
    /// Value of --leader-elect-resource-name of the controller, if it has that flag.
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// Namespace of the controller's Lease. Default: the namespace of --service-account, or kube-system.
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_namespace: Option<String>,
    /// Remove lakh's finalizer from Pods whose Job is gone or finished. Nothing else is ever written.
    #[arg(long)]
    pub(super) fix: bool,
    /// Output format.
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
    pub(super) output: DoctorOutput,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum DoctorOutput {
    /// Text, with colours on a terminal.
    #[default]
    Text,
    /// A JSON object.
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
                return Err(
                    format!("{flag} {odd}: must be a valid object name (DNS subdomain)").into(),
                );
            }
        }
        Ok(())
    }
}
