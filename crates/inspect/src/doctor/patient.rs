//! Describes the controller to examine, from flags: its Jobs, its account, and its Lease.
//!
//! Must not: hold anything that was read from the cluster.

use std::fmt;

use lakh_core::ownership::{Controllers, Mode};
use lakh_model::DEFAULT_MANAGER;

/// The controller to examine.
#[derive(Clone, Debug)]
pub(super) struct Patient {
    pub(super) mode: Mode,
    pub(super) controllers: Controllers,
    /// It creates Workloads and PodGroups.
    pub(super) gangs: bool,
    /// It serves its UI to clients with a bearer token.
    pub(super) takes_tokens: bool,
    /// The namespaces to examine; all if there are none.
    pub(super) namespaces: Vec<String>,
    /// Its service account, if known.
    pub(super) account: Option<ServiceAccount>,
    /// The possible names of its Lease.
    pub(super) leases: Vec<String>,
    /// The namespace of its Lease.
    pub(super) lease_namespace: String,
}

impl Patient {
    /// Returns the scopes to list: one for all namespaces, or one for each.
    pub(super) fn scopes(&self) -> Vec<Option<&str>> {
        match self.namespaces.as_slice() {
            [] => vec![None],
            some => some.iter().map(|name| Some(name.as_str())).collect(),
        }
    }

    /// Returns its name in `spec.managedBy`.
    pub(super) fn manager(&self) -> &str {
        match &self.mode {
            Mode::Replace | Mode::Both => DEFAULT_MANAGER,
            Mode::ManagedBy(name) => name.as_str(),
        }
    }

    /// Returns true if it manages Jobs with this manager.
    pub(super) fn serves(&self, manager: Option<&str>) -> bool {
        self.mode.manages_name(manager)
    }

    /// Formats the mode.
    pub(super) fn mode_words(&self) -> String {
        self.mode.to_string()
    }
}

/// Formats a scope.
pub(super) fn place(scope: Option<&str>) -> String {
    scope.map_or_else(
        || "all namespaces".to_owned(),
        |name| format!("namespace {name}"),
    )
}

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceAccount {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl ServiceAccount {
    /// Parses `NAMESPACE/NAME`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err("must be NAMESPACE/NAME".to_owned()),
        }
    }

    /// Returns the groups of its tokens.
    pub(super) fn groups(&self) -> [String; 3] {
        [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
            "system:authenticated".to_owned(),
        ]
    }
}

impl fmt::Display for ServiceAccount {
    /// Formats the account's user name at an API server.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_has_a_namespace_and_a_name() {
        let account = ServiceAccount::parse("lakh-system/lakh").expect("a good one");
        assert_eq!(
            account.to_string(),
            "system:serviceaccount:lakh-system:lakh"
        );
        for odd in ["lakh", "/lakh", "a/", "a/b/c", ""] {
            assert!(ServiceAccount::parse(odd).is_err(), "{odd}");
        }
    }
}
