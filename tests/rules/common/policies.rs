//! Parses and prints the words of golden cases for policies: in a Job's spec, of Pods, and in creations.
//!
//! ```text
//! failure=FailJob/In/5,6,7;Ignore/DisruptionTarget   rules: action, then codes or a condition
//! failure=FailJob/NotIn/5/main  failure=empty        codes of one container; no rule at all
//! blpi=1 maxfailed=2                                 limits by index
//! success=0,1/1;3-6;/2                               rules: indexes, count
//! 0:Failed code=5 code=side:6 init=1 cond=DisruptionTarget failures=1 ignored=2
//! create 0(1) 3(1+2)                                 failures before, and ignored ones
//! ```

use lakh::{
    decide::NewPod,
    model::{
        CodeOperator, FailedContainer, FailureAction, FailureFacts, FailureRule, FailureTest,
        JobSpec, PerIndexLimit, PodFailurePolicy, PodReplacement, SuccessPolicy, SuccessRule,
    },
};

/// Prints a creation as in the cases.
pub(crate) fn creation(new: &NewPod) -> String {
    let index = new.index.map_or("-".to_owned(), |index| index.to_string());
    match new.failures {
        None => index,
        Some(failures) if failures.ignored == 0 => format!("{index}({})", failures.counted),
        Some(failures) => format!("{index}({}+{})", failures.counted, failures.ignored),
    }
}

/// Applies a word to a Job's spec.
pub(crate) fn set_spec(spec: &mut JobSpec, word: &str, value: &str) {
    let number = || value.parse::<u32>().expect(word);
    match word {
        "failure" => {
            let rules = value.split(';').filter(|rule| *rule != "empty");
            spec.pod_failure = Some(PodFailurePolicy {
                rules: rules.map(failure_rule).collect(),
            });
            spec.pod_replacement = PodReplacement::Failed;
        }
        "blpi" => {
            spec.per_index = Some(PerIndexLimit {
                backoff_limit: number(),
                max_failed_indexes: None,
            });
        }
        "maxfailed" => {
            let limit = spec.per_index.as_mut().expect("blpi stands before");
            limit.max_failed_indexes = Some(number());
        }
        "success" => {
            let completions = spec.completions.expect("c stands before");
            let rules = value.split(';').map(|rule| {
                let (indexes, count) = rule.split_once('/').unwrap_or((rule, ""));
                let count = count.parse().ok();
                let indexes = (!indexes.is_empty() || count.is_none()).then_some(indexes);
                SuccessRule::new(indexes, count, completions)
            });
            spec.success = Some(SuccessPolicy {
                rules: rules.collect(),
            });
        }
        other => panic!("job word {other}"),
    }
}

fn failure_rule(text: &str) -> FailureRule {
    let parts: Vec<&str> = text.split('/').collect();
    let (action, what, rest) = (parts[0], parts[1], &parts[2..]);
    let operator = match what {
        "In" => Some(CodeOperator::In),
        "NotIn" => Some(CodeOperator::NotIn),
        _ => None,
    };
    FailureRule {
        action: match action {
            "Ignore" => FailureAction::Ignore,
            "Count" => FailureAction::Count,
            "FailIndex" => FailureAction::FailIndex,
            "FailJob" => FailureAction::FailJob,
            _ => FailureAction::Unrecognized,
        },
        test: match operator {
            None => FailureTest::Conditions(vec![(what.into(), "True".into())]),
            Some(operator) => FailureTest::ExitCodes {
                container: rest.get(1).map(|name| (*name).into()),
                operator,
                codes: rest[0]
                    .split(',')
                    .map(|code| code.parse().expect("a code"))
                    .collect(),
            },
        },
    }
}

/// Applies a word about the failure of a Pod.
pub(crate) fn set_facts(facts: &mut FailureFacts, word: &str, value: &str) {
    let number = || value.parse().expect(word);
    match word {
        "code" | "init" => {
            let default = if word == "init" { "init" } else { "main" };
            let (name, code) = value.split_once(':').unwrap_or((default, value));
            facts.containers.push(FailedContainer {
                name: name.into(),
                exit_code: code.parse().expect(word),
            });
        }
        "cond" => facts.conditions.push((value.into(), "True".into())),
        "failures" => facts.counts.counted = number(),
        "ignored" => facts.counts.ignored = number(),
        other => panic!("pod word {other}"),
    }
}
