//! Builds the options of deletions.

use serde_json::json;

use lakh_model::Uid;

/// Options that delete exactly this object, with the default propagation of its kind. They are sent once per Pod, so
/// they are short: the server infers their kind from the path.
pub fn exact_deletion(uid: Uid) -> Vec<u8> {
    format!(r#"{{"preconditions":{{"uid":"{uid}"}}}}"#).into_bytes()
}

/// Options that delete exactly this object, after its dependents.
pub fn foreground_deletion(uid: Uid) -> Vec<u8> {
    deletion(uid, "Foreground")
}

/// Options that delete exactly this object, before its dependents.
pub fn background_deletion(uid: Uid) -> Vec<u8> {
    deletion(uid, "Background")
}

fn deletion(uid: Uid, policy: &str) -> Vec<u8> {
    let options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": policy,
        "preconditions": {"uid": uid.to_string()},
    });
    options.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_pod_is_deleted_by_its_uid() {
        let uid = Uid::from_u128(7);
        let options: Value = serde_json::from_slice(&exact_deletion(uid)).expect("JSON");
        assert_eq!(options, json!({"preconditions": {"uid": uid.to_string()}}));
    }

    #[test]
    fn options_have_only_propagation_policy_and_preconditions() {
        let uid = Uid::from_u128(7);
        for (policy, body) in [
            ("Foreground", foreground_deletion(uid)),
            ("Background", background_deletion(uid)),
        ] {
            let options: Value = serde_json::from_slice(&body).expect("JSON");
            assert_eq!(
                options,
                json!({
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "propagationPolicy": policy,
                    "preconditions": {"uid": uid.to_string()},
                })
            );
        }
    }
}
