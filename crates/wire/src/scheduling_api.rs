//! Selects the version of `scheduling.k8s.io` that a server serves, and covers the differences between versions.
//!
//! Workload and PodGroup are young, and each release may serve them only in a different version. lakh uses the newest
//! version that has both.

use serde::Deserialize;
use serde_json::{Value, json};

use super::paths;

/// The group.
const GROUP: &str = "scheduling.k8s.io";

/// The resources that gangs need.
const NEEDED: [&str; 2] = ["workloads", "podgroups"];

/// The stability of a version, then its numbers: `v1beta2` is 1, 1, 2.
type Rank = (u8, u32, u32);

/// The oldest version that has both kinds, `v1alpha2`.
const FIRST: Rank = (0, 1, 2);

/// One version of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulingApi {
    version: String,
    rank: Rank,
}

#[derive(Deserialize)]
struct RawApiGroup {
    versions: Vec<RawGroupVersion>,
}

#[derive(Deserialize)]
struct RawGroupVersion {
    version: String,
}

#[derive(Deserialize)]
struct RawApiResourceList {
    resources: Vec<RawApiResource>,
}

#[derive(Deserialize)]
struct RawApiResource {
    name: String,
}

impl SchedulingApi {
    /// The path of the group; a GET lists its versions.
    pub fn group_path() -> String {
        format!("/apis/{GROUP}")
    }

    /// Decodes the response to that: the versions that may have both kinds, newest first.
    pub fn offered(body: &[u8]) -> Result<Vec<Self>, serde_json::Error> {
        let group: RawApiGroup = serde_json::from_slice(body)?;
        let versions = group.versions.into_iter().map(|found| found.version);
        let mut offered: Vec<Self> = versions.filter_map(Self::new).collect();
        offered.sort_by_key(|api| std::cmp::Reverse(api.rank));
        Ok(offered)
    }

    fn new(version: String) -> Option<Self> {
        let rank = rank(&version).filter(|rank| *rank >= FIRST)?;
        Some(Self { version, rank })
    }

    /// The path of the version; a GET lists its resources.
    pub fn path(&self) -> String {
        format!("/apis/{}", self.api_version())
    }

    /// Decodes the response to that. Returns true if both kinds are among them.
    pub fn serves_gangs(body: &[u8]) -> Result<bool, serde_json::Error> {
        let found: RawApiResourceList = serde_json::from_slice(body)?;
        let serves = |name: &str| found.resources.iter().any(|resource| resource.name == name);
        Ok(NEEDED.into_iter().all(serves))
    }

    /// Group and version, as in `apiVersion`.
    pub fn api_version(&self) -> String {
        format!("{GROUP}/{}", self.version)
    }

    /// Workloads of all namespaces, or of one.
    pub fn workloads(&self, namespace: Option<&str>) -> String {
        paths::collection(&self.path(), namespace, "workloads")
    }

    /// PodGroups of all namespaces, or of one.
    pub fn pod_groups(&self, namespace: Option<&str>) -> String {
        paths::collection(&self.path(), namespace, "podgroups")
    }

    /// The field of a PodGroup's spec that refers to a Workload and its template. It has another name after the first
    /// version.
    pub(super) fn reference(&self, workload: &str, template: &str) -> (&'static str, Value) {
        if self.rank == FIRST {
            let reference = json!({"workloadName": workload, "podGroupTemplateName": template});
            ("podGroupTemplateRef", json!({"workload": reference}))
        } else {
            let reference = json!({"workloadName": workload, "templateName": template});
            ("workloadRef", reference)
        }
    }
}

/// Parses a version; `None` if it does not follow Kubernetes' scheme.
fn rank(version: &str) -> Option<Rank> {
    let numbers = version.strip_prefix('v')?;
    for (stage, word) in [(0, "alpha"), (1, "beta")] {
        if let Some((major, minor)) = numbers.split_once(word) {
            return Some((stage, major.parse().ok()?, minor.parse().ok()?));
        }
    }
    Some((2, numbers.parse().ok()?, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(versions: &[&str]) -> Vec<String> {
        let versions = versions.iter().map(|name| json!({"version": name}));
        let body = json!({"kind": "APIGroup", "versions": versions.collect::<Vec<_>>()});
        let offered = SchedulingApi::offered(body.to_string().as_bytes()).expect("a group");
        offered.into_iter().map(|api| api.version).collect()
    }

    #[test]
    fn the_newest_version_comes_first_and_too_old_ones_not_at_all() {
        assert_eq!(
            offered(&[
                "v1alpha1", "v1alpha2", "v1", "v1beta1", "odd", "v1alpha3", "v2alpha1"
            ]),
            ["v1", "v1beta1", "v2alpha1", "v1alpha3", "v1alpha2"]
        );
        assert!(offered(&["v1alpha1"]).is_empty());
    }

    #[test]
    fn both_kinds_must_be_there() {
        let serves = |names: &[&str]| {
            let resources = names.iter().map(|name| json!({"name": name}));
            let body = json!({"resources": resources.collect::<Vec<_>>()});
            SchedulingApi::serves_gangs(body.to_string().as_bytes()).expect("a list")
        };
        assert!(serves(&["podgroups", "podgroups/status", "workloads"]));
        assert!(!serves(&["priorityclasses", "workloads"]));
    }

    #[test]
    fn a_pod_group_refers_to_its_workload_as_its_version_has_it() {
        let reference = |version: &str| {
            let api = SchedulingApi::new(version.into()).expect("new enough");
            api.reference("w", "t")
        };
        let first = json!({"workload": {"workloadName": "w", "podGroupTemplateName": "t"}});
        assert_eq!(reference("v1alpha2"), ("podGroupTemplateRef", first));
        let later = json!({"workloadName": "w", "templateName": "t"});
        assert_eq!(reference("v1alpha3"), ("workloadRef", later.clone()));
        assert_eq!(reference("v1beta1"), ("workloadRef", later));
    }

    #[test]
    fn paths() {
        let api = SchedulingApi::new("v1alpha2".into()).expect("new enough");
        let group = "/apis/scheduling.k8s.io/v1alpha2";
        assert_eq!(api.workloads(None), format!("{group}/workloads"));
        assert_eq!(
            api.pod_groups(Some("ml")),
            format!("{group}/namespaces/ml/podgroups")
        );
    }
}
