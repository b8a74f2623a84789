//! Tracks the resourceVersions that the watches of Pods and Jobs have reached, per watched namespace or for all.
//!
//! Must not: know objects.

/// The watched scopes of a shard: one for each configured namespace, or one for the cluster.
#[derive(Debug, Default)]
pub(super) struct Scopes(Vec<Scope>);

/// The scope of one watch of each kind: a namespace, or the cluster.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) namespace: Option<String>,
    /// The resourceVersion that the Pod watch has reached.
    pub(super) pods_seen: u64,
    /// The resourceVersion that the Job watch has reached.
    pub(super) jobs_seen: u64,
}

impl Scopes {
    /// Creates the scopes of these namespaces; no namespaces means all.
    pub(super) fn new(namespaces: &[String]) -> Self {
        let scope = |namespace| Scope {
            namespace,
            ..Scope::default()
        };
        Self(match namespaces {
            [] => vec![scope(None)],
            some => some.iter().map(|name| scope(Some(name.clone()))).collect(),
        })
    }

    /// Returns exactly this scope.
    pub(super) fn get(&self, namespace: Option<&str>) -> Option<&Scope> {
        let mut all = self.0.iter();
        all.find(|scope| scope.namespace.as_deref() == namespace)
    }

    /// Returns exactly this scope.
    pub(super) fn get_mut(&mut self, namespace: Option<&str>) -> Option<&mut Scope> {
        let mut all = self.0.iter_mut();
        all.find(|scope| scope.namespace.as_deref() == namespace)
    }

    /// Returns the scope that covers a namespace.
    pub(super) fn covering(&self, namespace: &str) -> Option<&Scope> {
        self.0.iter().find(|scope| {
            let covered = scope.namespace.as_deref();
            covered.is_none_or(|covered| covered == namespace)
        })
    }
}
