//! Label selectors: which Pods a Job's selector means.

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde::Deserialize;
use serde_json::value::RawValue;

/// An object's labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Labels(BTreeMap<CompactString, CompactString>);

impl Labels {
    /// Reads `metadata.labels`; none if it is not what labels are.
    pub fn read(json: &RawValue) -> Self {
        serde_json::from_str(json.get()).unwrap_or_default()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A label selector. All that it requires must hold; requiring nothing, it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Selector {
    match_labels: BTreeMap<CompactString, CompactString>,
    match_expressions: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Requirement {
    key: CompactString,
    operator: Operator,
    #[serde(default)]
    values: Vec<CompactString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    #[serde(other)]
    Unrecognized,
}

impl Selector {
    /// Whether an object with these labels is meant.
    pub fn matches(&self, labels: &Labels) -> bool {
        let mut equal = self.match_labels.iter();
        equal.all(|(key, value)| labels.0.get(key) == Some(value))
            && self.match_expressions.iter().all(|one| one.holds(labels))
    }
}

impl Requirement {
    fn holds(&self, labels: &Labels) -> bool {
        let value = labels.0.get(&self.key);
        let listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            Operator::In => listed,
            Operator::NotIn => !listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            // What is not understood is not to be acted on.
            Operator::Unrecognized => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &str) -> bool {
        let selector: Selector = serde_json::from_str(selector).expect("a selector");
        selector.matches(&serde_json::from_str(labels).expect("labels"))
    }

    #[test]
    fn all_requirements_must_hold() {
        let labels = r#"{"a":"1","b":"2"}"#;
        let expression = |key: &str, operator: &str, values: &str| {
            format!(
                r#"{{"matchExpressions":[{{"key":"{key}","operator":"{operator}","values":{values}}}]}}"#
            )
        };
        assert!(matches("{}", labels));
        assert!(matches(r#"{"matchLabels":{"a":"1"}}"#, labels));
        assert!(!matches(r#"{"matchLabels":{"a":"1","c":"1"}}"#, labels));
        assert!(matches(&expression("a", "In", r#"["0","1"]"#), labels));
        assert!(!matches(&expression("c", "In", r#"["1"]"#), labels));
        assert!(!matches(&expression("a", "NotIn", r#"["1"]"#), labels));
        assert!(matches(&expression("c", "NotIn", r#"["1"]"#), labels));
        assert!(matches(&expression("a", "Exists", "[]"), labels));
        assert!(!matches(&expression("a", "DoesNotExist", "[]"), labels));
        assert!(!matches(&expression("a", "Near", r#"["1"]"#), labels));
    }
}
