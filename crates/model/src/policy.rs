//! Models the policies of a Job: failures, successes, and limits per index.
//!
//! Upstream evaluates these rules in `matchPodFailurePolicy` and `matchSuccessPolicy`. They are parsed once. An unknown
//! value (an action of a newer API, invalid indexes) becomes a variant of its own that never matches.
//!
//! Must not: evaluate rules; `decide` does.

use compact_str::CompactString;

use super::{IndexSet, api_text::api_text};

/// `spec.podFailurePolicy`: rules for failed Pods. The first rule that matches applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFailurePolicy {
    /// The rules in order. Messages refer to a rule by its position.
    pub rules: Vec<FailureRule>,
}

/// An action for the failed Pods that match a test.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "PodFailurePolicyRule")]
pub struct FailureRule {
    /// The action.
    pub action: FailureAction,
    /// The test that selects the Pods.
    pub test: FailureTest,
}

/// The action for a failed Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "PodFailurePolicyAction")]
pub enum FailureAction {
    /// The failure does not count.
    Ignore,
    /// The failure counts, as without a policy.
    Count,
    /// The Pod's index fails for good.
    FailIndex,
    /// The Job fails.
    FailJob,
    /// An action of a newer API: the rule is skipped.
    Unrecognized,
}

api_text!(FailureAction {
    Ignore = "Ignore",
    Count = "Count",
    FailIndex = "FailIndex",
    FailJob = "FailJob",
    Unrecognized = "Unrecognized",
} else Unrecognized);

/// The test that selects failed Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureTest {
    /// Matches Pods with a container that failed with certain exit codes.
    ExitCodes {
        /// Restricts the test to this container, if set.
        container: Option<CompactString>,
        /// Requires the code to be in `codes`, or not to be.
        operator: CodeOperator,
        /// The exit codes.
        codes: Vec<i32>,
    },
    /// Matches Pods that have one of these conditions (type and status).
    Conditions(Vec<(CompactString, CompactString)>),
    /// The rule has no test that lakh can read. It matches no Pod.
    Nothing,
}

/// The comparison of an exit code with a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "PodFailurePolicyOnExitCodesOperator")]
pub enum CodeOperator {
    /// The code is in the list.
    In,
    /// The code is not in the list.
    NotIn,
    /// An operator of a newer API. It matches no code.
    Unrecognized,
}

/// `spec.backoffLimitPerIndex` and `spec.maxFailedIndexes`, of Indexed Jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "backoffLimitPerIndex")]
pub struct PerIndexLimit {
    /// The number of failures tolerated per index.
    pub backoff_limit: u32,
    /// The number of failed indexes tolerated, if limited.
    pub max_failed_indexes: Option<u32>,
}

/// `spec.successPolicy` of an Indexed Job. The first rule that is met completes the Job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuccessPolicy {
    /// The rules in order. Messages refer to a rule by its position.
    pub rules: Vec<SuccessRule>,
}

/// A condition on the successful indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "SuccessPolicyRule")]
pub enum SuccessRule {
    /// A number of successes among these indexes.
    Among {
        /// The indexes; never empty.
        indexes: IndexSet,
        /// The number required; at most the number of indexes.
        enough: u32,
    },
    /// A number of successes, of any indexes.
    Any(u32),
    /// The rule is empty or names no index of the Job. It is never met.
    Never,
}

impl SuccessRule {
    /// Parses a rule of a Job with `completions` indexes.
    pub fn new(indexes: Option<&str>, count: Option<u32>, completions: u32) -> Self {
        let Some(text) = indexes else {
            return count.map_or(Self::Never, Self::Any);
        };
        let indexes = IndexSet::parse(text, completions);
        let enough = count.unwrap_or(u32::MAX).min(indexes.len());
        match indexes.is_empty() {
            true => Self::Never,
            false => Self::Among { indexes, enough },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_rule_asks_for_no_more_than_there_is() {
        let enough = |indexes, count| match SuccessRule::new(Some(indexes), count, 5) {
            SuccessRule::Among { indexes, enough } => Some((indexes.to_string(), enough)),
            SuccessRule::Any(_) | SuccessRule::Never => None,
        };
        assert_eq!(enough("0-2", None), Some(("0-2".into(), 3)));
        assert_eq!(enough("3-9", Some(1)), Some(("3,4".into(), 1)));
        assert_eq!(enough("3-9", Some(7)), Some(("3,4".into(), 2)));
        assert_eq!(enough("7", Some(1)), None);
        assert_eq!(enough("invalid-form", Some(1)), None);
        assert_eq!(SuccessRule::new(None, Some(3), 5), SuccessRule::Any(3));
        assert_eq!(SuccessRule::new(None, None, 5), SuccessRule::Never);
    }
}
