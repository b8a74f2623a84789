//! Finds the resources of a ResourceQuota that are used up, so that Pods are refused.

use k8s_openapi::{api::core::v1::ResourceQuota, apimachinery::pkg::api::resource::Quantity};

use lakh_model::{Suffix, WrittenQuantity};

/// Resources that every Pod needs.
const OF_PODS: [&str; 2] = ["pods", "count/pods"];

/// Compute resources. A quota that is used up refuses Pods that request them. The same holds for [`OF_CONTAINERS`].
const OF_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Prefixes of quotas for the containers' resources, except [`OF_CLAIMS`].
const OF_CONTAINERS: [&str; 2] = ["requests.", "limits."];

/// A quota for PersistentVolumeClaims.
const OF_CLAIMS: &str = "requests.storage";

/// Returns true if no Pod at all can be created once this resource is used up.
pub(crate) fn is_of_all_pods(resource: &str) -> bool {
    OF_PODS.contains(&resource)
}

/// Returns the resources of a quota that are used up: resource, used, limit.
pub(crate) fn used_up(quota: &ResourceQuota) -> Vec<(&str, &str, &str)> {
    let Some(status) = &quota.status else {
        return Vec::new();
    };
    let used = |resource: &str| status.used.as_ref()?.get(resource);
    let hard = status.hard.iter().flatten();
    let matters = hard.filter(|(resource, _)| {
        let resource = resource.as_str();
        let mut starts = OF_CONTAINERS.iter();
        let is_of_containers = starts.any(|start| resource.starts_with(start));
        let is_of_resources = OF_RESOURCES.contains(&resource) || is_of_containers;
        OF_PODS.contains(&resource) || (is_of_resources && resource != OF_CLAIMS)
    });
    let used_up = matters.filter_map(|(resource, Quantity(hard))| {
        let Quantity(used) = used(resource)?;
        let is_used_up = amount(used)? >= amount(hard)?;
        is_used_up.then_some((resource.as_str(), used.as_str(), hard.as_str()))
    });
    used_up.collect()
}

/// Converts a quantity to a number, for comparison. Digits beyond the sixteenth are lost.
fn amount(text: &str) -> Option<f64> {
    let WrittenQuantity {
        digits,
        fraction,
        suffix,
    } = WrittenQuantity::read(text)?;
    let tens = |power: i32| 10_f64.powi(power);
    let factor = match suffix {
        Suffix::Decimal(power) | Suffix::Exponent(power) => tens(power),
        Suffix::Binary(power) => 2_f64.powi(i32::try_from(power).ok()?),
    };
    Some(digits as f64 * factor / tens(i32::try_from(fraction).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_compared_by_value() {
        let at_least = |one, other| amount(one).zip(amount(other)).map(|(a, b)| a >= b);
        for (one, other) in [
            ("2", "2"),
            ("2000m", "2"),
            ("1Gi", "1G"),
            ("1.5k", "1500"),
            ("1e3", "1k"),
        ] {
            assert_eq!(at_least(one, other), Some(true), "{one} {other}");
        }
        assert_eq!(at_least("1999m", "2"), Some(false));
        assert_eq!(at_least("much", "2"), None);
    }
}
