//! Creates a server: new, or from the objects of an earlier one.
//!
//! Responsible for: the initial objects, and loading saved objects. Must not: know where they were saved.

use serde_json::Value;

use super::{
    compute_use::ComputeUse,
    dependents::{Garbage, Work},
    state::{ApiServer, Limits},
};
use crate::{
    apiserver::{
        kinds::namespace,
        object::{Kind, Stored, tree},
        store::Store,
    },
    model::Time,
    rng::Rng,
};

/// The gap in versions after a restore. Clients may have seen changes that were not saved. Versions of such changes are
/// not reused, as long as there are no more of them than this.
const VERSIONS_LEFT_OUT: u64 = 1_000_000;

impl ApiServer {
    /// A new server with the four initial namespaces.
    pub fn new(seed: u64, limits: Limits, now: Time) -> Self {
        let mut server = Self::empty(limits, seed);
        for name in namespace::INITIAL {
            server.create_namespace(name, now);
        }
        server
    }

    fn empty(limits: Limits, seed: u64) -> Self {
        Self {
            store: Store::new(limits.log_capacity),
            garbage: Garbage::default(),
            rng: Rng::new(seed),
            compute: ComputeUse::default(),
            root_ca: String::new(),
            pod_output: None,
        }
    }

    /// Starts another sequence of UIDs and names: a server that continues from a copy must not reuse those generated
    /// after the copy was made.
    pub fn reseed(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
    }

    /// Restores a server from objects in the form of [`Stored::bytes`]. All new versions are above `version`. Watches
    /// from earlier versions get 410.
    ///
    /// # Errors
    ///
    /// The start of the first invalid object, and the reason.
    pub fn restore(
        seed: u64,
        limits: Limits,
        version: u64,
        objects: impl IntoIterator<Item = (Kind, Vec<u8>)>,
    ) -> Result<Self, String> {
        let version = version + VERSIONS_LEFT_OUT;
        // Yields other UIDs and names than those generated before.
        let mut server = Self::empty(limits, seed ^ version.rotate_left(32));
        for (kind, bytes) in objects {
            let object = read(kind, &bytes)?;
            let object = server.store.load(object);
            server.garbage.stored(&object);
            if kind == Kind::Namespace && object.deletion.is_some() {
                server.garbage.push(Work::namespace(&object.name));
            }
        }
        server.store.resume(version);
        Ok(server)
    }
}

fn read(kind: Kind, bytes: &[u8]) -> Result<Stored, String> {
    let broken = |why: &dyn std::fmt::Display| {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
        format!(
            "cannot read one of the {}: {why}: {start}",
            kind.qualified()
        )
    };
    let tree = match serde_json::from_slice(bytes) {
        Ok(Value::Object(tree)) => tree,
        Ok(_) => return Err(broken(&"not an object")),
        Err(error) => return Err(broken(&error)),
    };
    let metadata = tree::metadata(&tree);
    let version = tree::text(metadata, "resourceVersion").parse();
    let version = version.map_err(|_| broken(&"metadata.resourceVersion is not a number"))?;
    let object = Stored::encode(kind, version, &tree);
    if object.name.is_empty() || object.uid.is_empty() {
        return Err(broken(&"metadata.name or metadata.uid is missing"));
    }
    Ok(object)
}
