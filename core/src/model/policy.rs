//! The policies of a Job: failures, successes, and limits per index.
//!
//! Upstream evaluates these rules in `matchPodFailurePolicy` and `matchSuccessPolicy`. They are parsed once, so that
//! an unknown value (an action of a newer API, invalid indexes) is a value of its own and never matches.
//!
//! Must not: judge; `decide` does.

use compact_str::CompactString;

use super::IndexSet;

/// `spec.podFailurePolicy`: rules for failed Pods; the first that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFailurePolicy {
    /// The rules, in their order; a message names a rule by its place.
    pub rules: Vec<FailureRule>,
}

/// What to do with the failed Pods that a test holds for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "PodFailurePolicyRule")]
pub struct FailureRule {
    /// What to do.
    pub action: FailureAction,
    /// With which Pods.
    pub test: FailureTest,
}

/// What to do with a failed Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "PodFailurePolicyAction")]
pub enum FailureAction {
    /// It does not count.
    Ignore,
    /// It counts, as without a policy.
    Count,
    /// Its index has failed for good.
    FailIndex,
    /// The Job has failed.
    FailJob,
    /// An action of a newer API: the rule is skipped.
    Unrecognized,
}

/// Which failed Pods a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureTest {
    /// Those of which a container failed with certain exit codes.
    ExitCodes {
        /// Only this container counts, if one is named.
        container: Option<CompactString>,
        /// Whether the code must be one of `codes` or none of them.
        operator: CodeOperator,
        /// The exit codes.
        codes: Vec<i32>,
    },
    /// Those that have one of these conditions: type and status.
    Conditions(Vec<(CompactString, CompactString)>),
    /// The rule says nothing that lakh can read: it is for no Pod.
    Nothing,
}

/// How an exit code is held against a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "PodFailurePolicyOnExitCodesOperator")]
pub enum CodeOperator {
    /// It is in the list.
    In,
    /// It is not.
    NotIn,
    /// An operator of a newer API: it holds for no code.
    Unrecognized,
}

/// `spec.backoffLimitPerIndex` and `spec.maxFailedIndexes`, of Indexed Jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "backoffLimitPerIndex")]
pub struct PerIndexLimit {
    /// How many failures of one index are borne.
    pub backoff_limit: u32,
    /// How many failed indexes are borne, if there is a limit.
    pub max_failed_indexes: Option<u32>,
}

/// `spec.successPolicy` of an Indexed Job: the first rule that is met ends it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuccessPolicy {
    /// The rules, in their order; a message names a rule by its place.
    pub rules: Vec<SuccessRule>,
}

/// Which successes are enough.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "SuccessPolicyRule")]
pub enum SuccessRule {
    /// So many of these indexes.
    Among {
        /// The indexes; never none.
        indexes: IndexSet,
        /// How many of them; never more than there are.
        enough: u32,
    },
    /// So many indexes, whichever.
    Any(u32),
    /// The rule names nothing that the Job has: it is never met.
    Never,
}

impl SuccessRule {
    /// Reads a rule of a Job with `completions` indexes.
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
