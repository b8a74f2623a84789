//! The options of deletions.

use serde_json::json;

use crate::model::Uid;

/// Options of a deletion of this very object, after its dependents.
pub fn foreground_deletion(uid: Uid) -> Vec<u8> {
    let options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": uid.to_string()},
    });
    options.to_string().into_bytes()
}

/// Options of a deletion whose dependents go after.
pub fn background_deletion() -> Vec<u8> {
    let options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
    });
    options.to_string().into_bytes()
}
