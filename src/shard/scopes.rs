//! How far the watches of Pods and Jobs have come, in each namespace that is watched by itself, or in all at once.
//!
//! Must not: know objects.

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Scopes(Vec<Scope>);

/// What one watch of each kind covers: all of a namespace, or of the cluster.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) namespace: Option<String>,
    /// How far the watch of Pods has come.
    pub(super) pods_seen: u64,
    /// How far that of Jobs has.
    pub(super) jobs_seen: u64,
}

impl Scopes {
    /// Those of these namespaces (none: of all).
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

    /// Exactly this one.
    pub(super) fn get(&self, namespace: Option<&str>) -> Option<&Scope> {
        let mut all = self.0.iter();
        all.find(|scope| scope.namespace.as_deref() == namespace)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, namespace: Option<&str>) -> Option<&mut Scope> {
        let mut all = self.0.iter_mut();
        all.find(|scope| scope.namespace.as_deref() == namespace)
    }

    /// The one that covers a namespace.
    pub(super) fn covering(&self, namespace: &str) -> Option<&Scope> {
        self.0.iter().find(|scope| {
            let covered = scope.namespace.as_deref();
            covered.is_none_or(|covered| covered == namespace)
        })
    }
}
