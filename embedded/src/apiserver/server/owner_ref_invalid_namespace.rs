//! The Event `OwnerRefInvalidNamespace` on a dependent whose owner is in another namespace, as the real garbage
//! collector records it.
//!
//! Must not: decide what happens to the dependent.

use serde_json::{Value, json};

use super::state::ApiServer;
use crate::{
    apiserver::object::{Kind, Stored, Tree, names, tree},
    model::Time,
};

/// The Event's source.
const COMPONENT: &str = "garbage-collector-controller";

impl ApiServer {
    /// Records that the object refers to the owner with this UID, which is in another namespace.
    pub(crate) fn report_owner_ref_invalid_namespace(
        &mut self,
        object: &Stored,
        owner: &str,
        now: Time,
    ) {
        let tree = object.tree();
        let owners = tree::items(&tree, "metadata.ownerReferences");
        let Some(owner) = owners.iter().find(|it| it["uid"] == owner) else {
            return;
        };
        // The Event of a cluster-scoped object is in the default namespace.
        let namespace = match &*object.namespace {
            "" => "default",
            namespace => namespace,
        };
        let home = self.store.get(Kind::Namespace, "", namespace);
        if home.is_none_or(|home| home.deletion.is_some()) {
            return;
        }
        let name = format!("{}.{:016x}", object.name, self.rng.next());
        let event = event(
            object,
            (namespace, &name),
            names::new_uid(&mut self.rng),
            owner,
            now,
        );
        self.store_put(Kind::Event, &event);
    }
}

fn event(
    object: &Stored,
    (namespace, name): (&str, &str),
    uid: String,
    owner: &Value,
    now: Time,
) -> Tree {
    let info = object.kind.info();
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    let message = format!(
        "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace {:?}",
        text("apiVersion"),
        text("kind"),
        object.namespace,
        text("name"),
        text("uid"),
        object.namespace
    );
    let now = now.to_rfc3339();
    let involved = tree::of_texts([
        ("apiVersion", info.api_version),
        ("kind", info.name),
        ("name", &object.name),
        ("namespace", &object.namespace),
        ("uid", &object.uid),
    ]);
    let event = json!({
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "creationTimestamp": now,
        },
        "involvedObject": involved,
        "type": "Warning",
        "reason": "OwnerRefInvalidNamespace",
        "message": message,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    });
    match event {
        Value::Object(tree) => tree,
        _ => Tree::new(),
    }
}
