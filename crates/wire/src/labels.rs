//! Decodes labels and label selectors; [`lakh_model`] matches them.

use std::{fmt, marker::PhantomData};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::{
    Deserializer,
    de::{MapAccess, Visitor},
};

use lakh_model::{Operator, PodLabels, Requirement, Selector};

use super::{
    field::Text,
    protobuf::{Malformed, ProtobufField, Value},
};

/// Decodes a Pod's labels, borrowed from the input; for `deserialize_with`.
pub(super) fn labels<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<PodLabels<'a>, D::Error> {
    struct Pairs<'a>(PhantomData<&'a str>);

    impl<'de: 'a, 'a> Visitor<'de> for Pairs<'a> {
        type Value = PodLabels<'a>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("labels")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(PodLabels::default())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut labels = PodLabels::default();
            while let Some((Text(key), Text(value))) = map.next_entry()? {
                labels.push(key, value);
            }
            Ok(labels)
        }
    }
    deserializer.deserialize_any(Pairs(PhantomData))
}

impl<'a> ProtobufField<'a> for PodLabels<'a> {
    fn take(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        let (key, content) = value.entry()?;
        self.push(key, content);
        Ok(())
    }
}

/// Converts a label selector.
pub fn selector(written: LabelSelector) -> Selector {
    let labels = written.match_labels.into_iter().flatten();
    let expressions = written.match_expressions.into_iter().flatten();
    Selector {
        match_labels: labels
            .map(|(key, value)| (key.into(), value.into()))
            .collect(),
        match_expressions: expressions.map(requirement).collect(),
    }
}

fn requirement(written: LabelSelectorRequirement) -> Requirement {
    let values = written.values.into_iter().flatten();
    Requirement {
        key: written.key.into(),
        operator: match written.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => Operator::Unrecognized,
        },
        values: values.map(Into::into).collect(),
    }
}

/// A selector as a query parameter. An unknown operator selects nothing.
pub fn selector_text(selector: &Selector) -> String {
    let labels = selector.match_labels.iter();
    let labels = labels.map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().map(|it| {
        let (key, values) = (&it.key, it.values.join(","));
        match it.operator {
            Operator::In => format!("{key} in ({values})"),
            Operator::NotIn => format!("{key} notin ({values})"),
            Operator::Exists => key.to_string(),
            Operator::DoesNotExist => format!("!{key}"),
            Operator::Unrecognized => format!("{key},!{key}"),
        }
    });
    labels.chain(expressions).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_of_ones_own_is_asked_for_as_it_is() {
        let requirement = |key: &str, operator, values: &[&str]| Requirement {
            key: key.into(),
            operator,
            values: values.iter().map(|value| (*value).into()).collect(),
        };
        let selector = Selector {
            match_labels: [("app".into(), "x".into())].into(),
            match_expressions: vec![
                requirement("a", Operator::In, &["1", "2"]),
                requirement("b", Operator::NotIn, &["3"]),
                requirement("c", Operator::Exists, &[]),
                requirement("d", Operator::DoesNotExist, &[]),
            ],
        };
        let text = selector_text(&selector);
        assert_eq!(text, "app=x,a in (1,2),b notin (3),c,!d");
    }

    fn matches(selector: &str, labels: &str) -> bool {
        let selector: LabelSelector = serde_json::from_str(selector).expect("a selector");
        let selector = super::selector(selector);
        let labels =
            super::labels(&mut serde_json::Deserializer::from_str(labels)).expect("labels");
        let matches = selector.matches(&labels);
        assert_eq!(selector.matches(&labels.to_labels()), matches);
        matches
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
