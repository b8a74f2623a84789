//! Builds the paths of the REST API that the controller uses.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use lakh_model::{CONTROLLER_UID, Selector, Uid};

use super::selector_text;

/// The characters that need no escape in a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// Escapes a text for a path or a query.
pub fn escaped(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// Jobs of all namespaces, or of one.
pub fn jobs(namespace: Option<&str>) -> String {
    collection("/apis/batch/v1", namespace, "jobs")
}

/// One Job.
pub fn job(namespace: &str, name: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
}

/// The status of a Job.
pub fn job_status(namespace: &str, name: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs/{name}/status")
}

/// CronJobs of all namespaces, or of one.
pub fn cron_jobs(namespace: Option<&str>) -> String {
    collection("/apis/batch/v1", namespace, "cronjobs")
}

/// One CronJob.
pub fn cron_job(namespace: &str, name: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/cronjobs/{name}")
}

/// The status of a CronJob.
pub fn cron_job_status(namespace: &str, name: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/cronjobs/{name}/status")
}

/// Pods of all namespaces, or of one.
pub fn pods(namespace: Option<&str>) -> String {
    collection("/api/v1", namespace, "pods")
}

/// The Pods of a Job, by its selector, if any, and a field selector. A selector may also match Pods of other Jobs; only
/// a Pod's owner reference is decisive.
pub fn pods_of_job(namespace: &str, uid: Uid, selector: Option<&Selector>, fields: &str) -> String {
    let labels = match selector {
        Some(selector) => selector_text(selector),
        None => format!("{CONTROLLER_UID}={uid}"),
    };
    format!(
        "{}?labelSelector={}&fieldSelector={}",
        pods(Some(&escaped(namespace))),
        escaped(&labels),
        escaped(fields)
    )
}

/// A page of at most `limit` Pods of a Job, by its selector, if any. An empty token requests the first page. The list
/// is as recent as the API server's data.
pub fn pods_of_job_page(
    namespace: &str,
    uid: Uid,
    selector: Option<&Selector>,
    (limit, token): (usize, &str),
) -> String {
    let labels = match selector {
        Some(selector) => selector_text(selector),
        None => format!("{CONTROLLER_UID}={uid}"),
    };
    let (pods, labels) = (pods(Some(namespace)), escaped(&labels));
    let from = match token {
        "" => String::new(),
        token => format!("&continue={}", escaped(token)),
    };
    format!("{pods}?labelSelector={labels}&limit={limit}{from}")
}

/// One Pod.
pub fn pod(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

/// A path for a write with a known-valid body. The server checks for unknown and duplicate fields unless the request
/// disables it. For a patch, the check is a twentieth of the server's cost.
pub fn unchecked(mut path: String) -> String {
    path.push_str("?fieldValidation=Ignore");
    path
}

/// One Event.
pub fn event(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/events/{name}")
}

/// Events of one namespace.
pub fn events(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/events")
}

/// Leases of one namespace.
pub fn leases(namespace: &str) -> String {
    collection("/apis/coordination.k8s.io/v1", Some(namespace), "leases")
}

/// One Lease.
pub fn lease(namespace: &str, name: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
}

/// All objects of a kind in an API version, in all namespaces or in one.
pub fn collection(api: &str, namespace: Option<&str>, plural: &str) -> String {
    match namespace {
        None => format!("{api}/{plural}"),
        Some(namespace) => format!("{api}/namespaces/{namespace}/{plural}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_escaped() {
        assert_eq!(escaped("a in (1)"), "a%20in%20%281%29");
        let path = pods_of_job("n", Uid::default(), None, "status.phase=Failed");
        let uid = Uid::default();
        let expected = format!(
            "/api/v1/namespaces/n/pods?labelSelector=batch.kubernetes.io%2Fcontroller-uid%3D{uid}\
             &fieldSelector=status.phase%3DFailed"
        );
        assert_eq!(path, expected);
    }
}
