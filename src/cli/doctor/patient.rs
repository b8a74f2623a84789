//! The controller that the doctor looks after, as flags describe it: which Jobs it works on, and as whom.
//!
//! Must not: hold anything that was seen on the cluster.

use std::fmt;

use crate::{
    model::DEFAULT_MANAGER,
    runtime::{Controllers, Mode},
};

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Patient {
    pub(super) mode: Mode,
    pub(super) controllers: Controllers,
    /// Whether it makes Workloads and PodGroups.
    pub(super) gangs: bool,
    /// Whether it shows its page to who brings a token.
    pub(super) takes_tokens: bool,
    /// Where to look; everywhere if there are none.
    pub(super) namespaces: Vec<String>,
    /// As whom it calls, if that is known.
    pub(super) account: Option<ServiceAccount>,
    /// What its Lease may be called.
    pub(super) leases: Vec<String>,
    /// Where its Lease is to be.
    pub(super) lease_namespace: String,
}

impl Patient {
    /// What to ask for: one list of everything, or one for each namespace.
    pub(super) fn scopes(&self) -> Vec<Option<&str>> {
        match self.namespaces.as_slice() {
            [] => vec![None],
            some => some.iter().map(|name| Some(name.as_str())).collect(),
        }
    }

    /// The name that its Jobs have for it.
    pub(super) fn manager(&self) -> &str {
        match &self.mode {
            Mode::Replace | Mode::Both => DEFAULT_MANAGER,
            Mode::ManagedBy(name) => name.as_str(),
        }
    }

    /// Whether it is to work on Jobs that say this of their manager.
    pub(super) fn serves(&self, manager: Option<&str>) -> bool {
        self.mode.manages_name(manager)
    }

    /// The mode, for people.
    pub(super) fn mode_words(&self) -> String {
        self.mode.to_string()
    }
}

/// Where things are, for people.
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
    /// Reads `NAMESPACE/NAME`.
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

    /// The groups that its tokens are in.
    pub(super) fn groups(&self) -> [String; 3] {
        [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
            "system:authenticated".to_owned(),
        ]
    }
}

impl fmt::Display for ServiceAccount {
    /// The name of the user that it is to an API server.
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
