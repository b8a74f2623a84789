//! Reads the policies of a Job's spec.
//!
//! More lenient than the API server: an unknown rule keeps its place and never matches, because messages name
//! rules by their position.

use compact_str::CompactString;
use serde::Deserialize;

use crate::model::{
    CodeOperator, FailureAction, FailureRule, FailureTest, PodFailurePolicy, SuccessPolicy,
    SuccessRule,
};

/// `spec.podFailurePolicy`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawFailurePolicy {
    rules: Option<Vec<RawFailureRule>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawFailureRule {
    action: CompactString,
    on_exit_codes: Option<RawExitCodes>,
    on_pod_conditions: Option<Vec<RawPodConditionPattern>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawExitCodes {
    container_name: Option<CompactString>,
    operator: CompactString,
    values: Option<Vec<i32>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPodConditionPattern {
    #[serde(rename = "type")]
    kind: CompactString,
    status: Option<CompactString>,
}

/// `spec.successPolicy`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawSuccessPolicy {
    rules: Option<Vec<RawSuccessRule>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSuccessRule {
    succeeded_indexes: Option<String>,
    succeeded_count: Option<u32>,
}

impl RawFailurePolicy {
    pub(super) fn read(&self) -> PodFailurePolicy {
        let rules = self.rules.iter().flatten();
        PodFailurePolicy {
            rules: rules.map(RawFailureRule::read).collect(),
        }
    }
}

impl RawFailureRule {
    fn read(&self) -> FailureRule {
        FailureRule {
            action: match self.action.as_str() {
                "Ignore" => FailureAction::Ignore,
                "Count" => FailureAction::Count,
                "FailIndex" => FailureAction::FailIndex,
                "FailJob" => FailureAction::FailJob,
                _ => FailureAction::Unrecognized,
            },
            test: match (&self.on_exit_codes, &self.on_pod_conditions) {
                (Some(codes), _) => codes.read(),
                (None, Some(conditions)) => FailureTest::Conditions(
                    conditions
                        .iter()
                        .map(RawPodConditionPattern::read)
                        .collect(),
                ),
                (None, None) => FailureTest::Nothing,
            },
        }
    }
}

impl RawExitCodes {
    fn read(&self) -> FailureTest {
        FailureTest::ExitCodes {
            container: self.container_name.clone(),
            operator: match self.operator.as_str() {
                "In" => CodeOperator::In,
                "NotIn" => CodeOperator::NotIn,
                _ => CodeOperator::Unrecognized,
            },
            codes: self.values.clone().unwrap_or_default(),
        }
    }
}

impl RawPodConditionPattern {
    fn read(&self) -> (CompactString, CompactString) {
        let status = self.status.clone().filter(|status| !status.is_empty());
        (self.kind.clone(), status.unwrap_or_else(|| "True".into()))
    }
}

impl RawSuccessPolicy {
    /// The policy of a Job with `completions` indexes.
    pub(super) fn read(&self, completions: u32) -> SuccessPolicy {
        let rules = self.rules.iter().flatten().map(|rule| {
            let indexes = rule.succeeded_indexes.as_deref();
            SuccessRule::new(indexes, rule.succeeded_count, completions)
        });
        SuccessPolicy {
            rules: rules.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_keep_their_places_even_if_nobody_knows_them() {
        let policy: RawFailurePolicy = serde_json::from_str(
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
        let rules = policy.read().rules;
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
        let policy: RawFailurePolicy = serde_json::from_str(r#"{"rules":null}"#).expect("JSON");
        assert_eq!(policy.read(), PodFailurePolicy::default());
    }
}
