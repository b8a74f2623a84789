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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn options(body: &[u8]) -> Value {
        serde_json::from_slice(body).expect("JSON")
    }

    #[test]
    fn nothing_is_asked_for_but_how_dependents_go_and_of_whom() {
        let uid = Uid::from_u128(7);
        assert_eq!(
            options(&foreground_deletion(uid)),
            json!({
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "propagationPolicy": "Foreground",
                "preconditions": {"uid": uid.to_string()},
            })
        );
        assert_eq!(
            options(&background_deletion()),
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"})
        );
    }
}
