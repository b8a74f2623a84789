//! Evaluates a Job's podFailurePolicy for a failed Pod.
//!
//! Source: docs/rules/jobs.md, 6.1. A Pod in phase Failed is evaluated at each change until it is counted or released,
//! because a condition may follow the end. Any such Pod can fail the Job, counted or not. The first Pod that does keeps
//! its message until the Job has ended.

use crate::model::{
    CodeOperator, FailedContainer, FailureAction, FailureFacts, FailureTest, JobKey,
    PodFailurePolicy, PodRecord,
};

use super::pod::Ruling;

/// The matching rule, and its cause in the Pod.
#[derive(Debug, PartialEq)]
struct Match<'a> {
    rule: usize,
    action: FailureAction,
    cause: Cause<'a>,
}

#[derive(Debug, PartialEq)]
enum Cause<'a> {
    Container(&'a FailedContainer),
    Condition(&'a str),
}

/// Returns the first matching rule with a recognized action.
fn judge<'a>(policy: &PodFailurePolicy, facts: &'a FailureFacts) -> Option<Match<'a>> {
    let rules = policy.rules.iter().enumerate();
    rules
        .filter(|(_, rule)| rule.action != FailureAction::Unrecognized)
        .find_map(|(at, rule)| {
            Some(Match {
                rule: at,
                action: rule.action,
                cause: find(&rule.test, facts)?,
            })
        })
}

fn find<'a>(test: &FailureTest, facts: &'a FailureFacts) -> Option<Cause<'a>> {
    match test {
        FailureTest::ExitCodes {
            container,
            operator,
            codes,
        } => {
            let is_meant = |found: &&FailedContainer| {
                let named = container.as_ref().is_none_or(|name| *name == found.name);
                named && holds(*operator, codes, found.exit_code)
            };
            facts.containers.iter().find(is_meant).map(Cause::Container)
        }
        FailureTest::Conditions(patterns) => {
            let mut conditions = facts.conditions.iter();
            let found = conditions.find(|condition| patterns.contains(condition))?;
            Some(Cause::Condition(&found.0))
        }
        FailureTest::Nothing => None,
    }
}

fn holds(operator: CodeOperator, codes: &[i32], code: i32) -> bool {
    match operator {
        CodeOperator::In => codes.contains(&code),
        CodeOperator::NotIn => !codes.contains(&code),
        CodeOperator::Unrecognized => false,
    }
}

/// Returns the policy's decision on a Pod, and the message if the Job fails for it.
#[doc(alias = "matchPodFailurePolicy")]
pub(super) fn rule_on(
    policy: Option<&PodFailurePolicy>,
    job: &JobKey,
    pod: &PodRecord,
) -> (Ruling, Option<String>) {
    let facts = policy.zip(pod.failure.as_deref());
    let Some(found) = facts.and_then(|(policy, facts)| judge(policy, facts)) else {
        return (Ruling::NoRule, None);
    };
    let fails_job = found.action == FailureAction::FailJob;
    let why = fails_job.then(|| fail_job_message(job, pod, &found));
    (Ruling::By(found.action), why)
}

fn fail_job_message(job: &JobKey, pod: &PodRecord, found: &Match<'_>) -> String {
    let namespace = &job.namespace;
    let name = pod.name.full(&job.name);
    let rule = format!("matching FailJob rule at index {}", found.rule);
    match found.cause {
        Cause::Container(FailedContainer {
            name: container,
            exit_code,
        }) => format!(
            "Container {container} for pod {namespace}/{name} failed with exit code {exit_code} {rule}"
        ),
        Cause::Condition(kind) => {
            format!("Pod {namespace}/{name} has condition {kind} {rule}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::FailureRule;

    fn facts() -> FailureFacts {
        let container = |name: &str, exit_code| FailedContainer {
            name: name.into(),
            exit_code,
        };
        FailureFacts {
            containers: vec![
                container("a", 2),
                container("b", 6),
                container("init", -1_073_741_510),
            ],
            conditions: vec![
                ("Ready".into(), "False".into()),
                ("DisruptionTarget".into(), "True".into()),
            ],
            ..FailureFacts::default()
        }
    }

    fn codes(container: Option<&str>, operator: CodeOperator, codes: &[i32]) -> FailureTest {
        FailureTest::ExitCodes {
            container: container.map(Into::into),
            operator,
            codes: codes.to_vec(),
        }
    }

    fn found(rules: &[(FailureAction, FailureTest)]) -> Option<String> {
        let rules = rules.iter().map(|(action, test)| FailureRule {
            action: *action,
            test: test.clone(),
        });
        let policy = PodFailurePolicy {
            rules: rules.collect(),
        };
        let facts = facts();
        let found = judge(&policy, &facts)?;
        let cause = match found.cause {
            Cause::Container(container) => format!("{} {}", container.name, container.exit_code),
            Cause::Condition(kind) => kind.to_owned(),
        };
        Some(format!("{} {:?} {cause}", found.rule, found.action))
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        use CodeOperator::{In, NotIn};
        use FailureAction::{Count, FailJob, Ignore, Unrecognized};
        let check = |rules: &[(FailureAction, FailureTest)], expect: &str| {
            assert_eq!(found(rules).as_deref(), Some(expect));
        };
        let ignore = (Ignore, codes(None, In, &[1, 2, 3]));
        let fail = (FailJob, codes(None, In, &[5, 6, 7]));
        check(&[ignore.clone(), fail.clone()], "0 Ignore a 2");
        check(&[fail.clone(), ignore.clone()], "0 FailJob b 6");
        check(&[(Unrecognized, ignore.1.clone()), fail], "1 FailJob b 6");
        check(&[(Count, codes(None, NotIn, &[2]))], "0 Count b 6");
        check(&[(Count, codes(Some("b"), NotIn, &[2]))], "0 Count b 6");
        check(
            &[(FailJob, codes(None, In, &[-1_073_741_510]))],
            "0 FailJob init -1073741510",
        );
    }

    #[test]
    fn conditions_are_held_against_patterns() {
        let patterns = |kind: &str, status: &str| {
            let test = FailureTest::Conditions(vec![(kind.into(), status.into())]);
            found(&[(FailureAction::FailJob, test)])
        };
        assert_eq!(
            patterns("DisruptionTarget", "True").as_deref(),
            Some("0 FailJob DisruptionTarget")
        );
        assert_eq!(patterns("DisruptionTarget", "False"), None);
        assert_eq!(patterns("Other", "True"), None);
    }

    #[test]
    fn an_unknown_operator_never_matches() {
        let odd = codes(None, CodeOperator::Unrecognized, &[2]);
        let missed = codes(Some("c"), CodeOperator::In, &[2]);
        for test in [FailureTest::Nothing, odd, missed] {
            assert_eq!(found(&[(FailureAction::FailJob, test)]), None);
        }
    }
}
