//! Defaults of pod specs.
//!
//! Responsible for: filling in what was left out. Must not: refuse anything.

use serde_json::{Value, json};

use crate::apiserver::object::tree::{self, Tree};

/// Applies the defaults of a pod spec.
#[doc(alias = "SetDefaults_PodSpec")]
pub(crate) fn default_spec(spec: &mut Tree) {
    tree::default(spec, "restartPolicy", "Always");
    tree::default(spec, "terminationGracePeriodSeconds", 30);
    tree::default(spec, "dnsPolicy", "ClusterFirst");
    tree::default(spec, "schedulerName", "default-scheduler");
    tree::default(spec, "securityContext", json!({}));
    for list in ["containers", "initContainers"] {
        let Some(Value::Array(containers)) = spec.get_mut(list) else {
            continue;
        };
        for container in containers {
            if let Value::Object(container) = container {
                default_container(container);
            }
        }
    }
    let account = tree::text(spec, "serviceAccountName").to_owned();
    if !account.is_empty() {
        tree::default(spec, "serviceAccount", account);
    }
    default_volumes(spec);
}

fn default_container(container: &mut Tree) {
    tree::default(container, "terminationMessagePath", "/dev/termination-log");
    tree::default(container, "terminationMessagePolicy", "File");
    tree::default(container, "resources", json!({}));
    let policy = pull_policy(tree::text(container, "image"));
    tree::default(container, "imagePullPolicy", policy);
    if let Some(Value::Array(ports)) = container.get_mut("ports") {
        for port in ports.iter_mut().filter_map(Value::as_object_mut) {
            tree::default(port, "protocol", "TCP");
        }
    }
    if let Some(Value::Array(variables)) = container.get_mut("env") {
        for variable in variables {
            let field = variable
                .pointer_mut("/valueFrom/fieldRef")
                .and_then(Value::as_object_mut);
            if let Some(field) = field {
                tree::default(field, "apiVersion", "v1");
            }
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(Value::Object(probe)) = container.get_mut(probe) {
            tree::default(probe, "timeoutSeconds", 1);
            tree::default(probe, "periodSeconds", 10);
            tree::default(probe, "successThreshold", 1);
            tree::default(probe, "failureThreshold", 3);
            if let Some(Value::Object(request)) = probe.get_mut("httpGet") {
                tree::default(request, "path", "/");
                tree::default(request, "scheme", "HTTP");
            }
        }
    }
}

fn default_volumes(spec: &mut Tree) {
    let Some(Value::Array(volumes)) = spec.get_mut("volumes") else {
        return;
    };
    for volume in volumes.iter_mut().filter_map(Value::as_object_mut) {
        if volume.len() == 1 && volume.contains_key("name") {
            volume.insert("emptyDir".into(), json!({}));
        }
        if let Some(Value::Object(host)) = volume.get_mut("hostPath") {
            tree::default(host, "type", "");
        }
        default_fields(volume.get_mut("downwardAPI"));
        let sources = volume
            .get_mut("projected")
            .and_then(|projected| projected.get_mut("sources")?.as_array_mut());
        for source in sources.into_iter().flatten() {
            if let Some(Value::Object(token)) = source.get_mut("serviceAccountToken") {
                tree::default(token, "expirationSeconds", 3600);
            }
            default_fields(source.get_mut("downwardAPI"));
        }
        for source in ["configMap", "secret", "projected", "downwardAPI"] {
            if let Some(Value::Object(source)) = volume.get_mut(source) {
                tree::default(source, "defaultMode", 0o644);
            }
        }
    }
}

/// Field references of volumes have a version, too.
fn default_fields(source: Option<&mut Value>) {
    let items = source.and_then(|source| source.get_mut("items")?.as_array_mut());
    for item in items.into_iter().flatten() {
        if let Some(Value::Object(field)) = item.get_mut("fieldRef") {
            tree::default(field, "apiVersion", "v1");
        }
    }
}

/// `Always` for a tag of `latest` or none, else `IfNotPresent`.
fn pull_policy(image: &str) -> &'static str {
    if image.contains('@') {
        return "IfNotPresent";
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    match last.split_once(':') {
        None | Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
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
