//! Decodes the policies of a Job's spec.
//!
//! This is more lenient than the API server: an unknown rule keeps its position and never matches, because messages
//! name rules by position.

use compact_str::CompactString;
use k8s_openapi::api::batch::v1 as written;

use lakh_model::{
    CodeOperator, FailureAction, FailureRule, FailureTest, PodFailurePolicy, SuccessPolicy,
    SuccessRule,
};

/// Converts `spec.podFailurePolicy`.
pub(super) fn failure_policy(policy: &written::PodFailurePolicy) -> PodFailurePolicy {
    PodFailurePolicy {
        rules: policy.rules.iter().map(failure_rule).collect(),
    }
}

fn failure_rule(rule: &written::PodFailurePolicyRule) -> FailureRule {
    FailureRule {
        action: FailureAction::parse(&rule.action),
        test: match (&rule.on_exit_codes, &rule.on_pod_conditions) {
            (Some(codes), _) => exit_codes(codes),
            (None, Some(conditions)) => {
                FailureTest::Conditions(conditions.iter().map(condition).collect())
            }
            (None, None) => FailureTest::Nothing,
        },
    }
}

fn exit_codes(codes: &written::PodFailurePolicyOnExitCodesRequirement) -> FailureTest {
    FailureTest::ExitCodes {
        container: codes.container_name.as_deref().map(CompactString::new),
        operator: match codes.operator.as_str() {
            "In" => CodeOperator::In,
            "NotIn" => CodeOperator::NotIn,
            _ => CodeOperator::Unrecognized,
        },
        codes: codes.values.clone(),
    }
}

/// The type and status of a condition.
fn condition(
    pattern: &written::PodFailurePolicyOnPodConditionsPattern,
) -> (CompactString, CompactString) {
    let status = pattern
        .status
        .as_deref()
        .filter(|status| !status.is_empty());
    (
        pattern.type_.as_str().into(),
        status.unwrap_or("True").into(),
    )
}

/// Converts the `spec.successPolicy` of a Job with `completions` indexes.
pub(super) fn success_policy(policy: &written::SuccessPolicy, completions: u32) -> SuccessPolicy {
    let rules = policy.rules.iter().map(|rule| {
        let indexes = rule.succeeded_indexes.as_deref();
        let count = rule.succeeded_count;
        // The API accepts no negative count.
        let count = count.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        SuccessRule::new(indexes, count, completions)
    });
    SuccessPolicy {
        rules: rules.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_rules_keep_their_positions() {
        let policy: written::PodFailurePolicy = serde_json::from_str(
            r#"{"rules":[
                {"action":"Retry","onExitCodes":{"operator":"In","values":[1]}},
                {"action":"FailJob","onPodConditions":[],
                 "onExitCodes":{"containerName":"main","operator":"NotIn","values":[-1073741510]}},
                {"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget"},
                                                      {"type":"Ready","status":"False"}]},
                {"action":"Count","onExitCodes":{"operator":"Near","values":[1]}},
                {"action":"FailIndex"}]}"#,
        )
        .expect("JSON");
        let rules = failure_policy(&policy).rules;
        let actions: Vec<FailureAction> = rules.iter().map(|rule| rule.action).collect();
        assert_eq!(
            actions,
            [
                FailureAction::Unrecognized,
                FailureAction::FailJob,
                FailureAction::Ignore,
                FailureAction::Count,
                FailureAction::FailIndex
            ]
        );
        let codes = |container: Option<&str>, operator, codes: &[i32]| FailureTest::ExitCodes {
            container: container.map(Into::into),
            operator,
            codes: codes.to_vec(),
        };
        let main = codes(Some("main"), CodeOperator::NotIn, &[-1_073_741_510]);
        assert_eq!(rules[1].test, main);
        let conditions = vec![
            ("DisruptionTarget".into(), "True".into()),
            ("Ready".into(), "False".into()),
        ];
        assert_eq!(rules[2].test, FailureTest::Conditions(conditions));
        assert_eq!(rules[3].test, codes(None, CodeOperator::Unrecognized, &[1]));
        assert_eq!(rules[4].test, FailureTest::Nothing);
    }

    #[test]
    fn an_empty_policy_is_a_policy() {
        let policy: written::PodFailurePolicy =
            serde_json::from_str(r#"{"rules":null}"#).expect("JSON");
        assert_eq!(failure_policy(&policy), PodFailurePolicy::default());
    }
}
