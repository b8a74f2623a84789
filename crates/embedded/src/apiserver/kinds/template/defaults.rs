//! Applies the defaults of pod specs.
//!
//! Responsible for: setting missing fields. Must not: reject anything.

use serde_json::json;

use crate::apiserver::{
    kinds::defaults,
    object::{Tree, tree},
};

/// Applies the defaults of a pod spec.
#[doc(alias = "SetDefaults_PodSpec")]
pub(crate) fn default_spec(spec: &mut Tree) {
    defaults::fill(spec, "podSpec");
    for list in ["containers", "initContainers"] {
        for container in tree::objects_mut(spec, list) {
            let policy = pull_policy(tree::text(container, "image"));
            tree::default(container, "imagePullPolicy", policy);
        }
    }
    let account = tree::text(spec, "serviceAccountName").to_owned();
    if !account.is_empty() {
        tree::default(spec, "serviceAccount", account);
    }
    for volume in tree::objects_mut(spec, "volumes") {
        if volume.len() == 1 && volume.contains_key("name") {
            volume.insert("emptyDir".into(), json!({}));
        }
    }
}

/// `Always` for the tag `latest` or no tag, otherwise `IfNotPresent`.
fn pull_policy(image: &str) -> &'static str {
    let last = image.rsplit('/').next().unwrap_or(image);
    match last.split_once(':') {
        None | Some((_, "latest")) if !image.contains('@') => "Always",
        _ => "IfNotPresent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_policies() {
        let check = |image: &str, expected: &str| assert_eq!(pull_policy(image), expected);
        check("busybox", "Always");
        check("busybox:latest", "Always");
        check("host:5000/busybox", "Always");
        check("busybox:1.36", "IfNotPresent");
        check("busybox@sha256:00", "IfNotPresent");
    }
}
