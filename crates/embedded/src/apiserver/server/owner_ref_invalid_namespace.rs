//! Records the Event `OwnerRefInvalidNamespace` on a dependent with an owner in another namespace, as the real garbage
//! collector does.
//!
//! Must not: decide about the dependent.

use serde_json::{Value, json};

use super::state::ApiServer;
use crate::{
    apiserver::object::{Kind, Stored, names, tree},
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
        let said = ["apiVersion", "kind", "name", "uid"];
        let [api_version, kind, name, uid] =
            said.map(|field| owner[field].as_str().unwrap_or_default());
        let own = &object.namespace;
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {own}, name: {name}, uid: {uid}] does not exist in \
             namespace {own:?}"
        );
        let now = now.to_rfc3339();
        let event = json!({
            "metadata": {
                "name": format!("{}.{:016x}", object.name, self.rng.next()),
                "namespace": namespace,
                "uid": names::new_uid(&mut self.rng),
                "creationTimestamp": now,
            },
            "involvedObject": tree::of_texts([
                ("apiVersion", object.kind.info().api_version),
                ("kind", object.kind.info().name),
                ("name", &object.name),
                ("namespace", own),
                ("uid", &object.uid),
            ]),
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
        if let Value::Object(event) = event {
            self.store_put(Kind::Event, &event);
        }
    }
}
