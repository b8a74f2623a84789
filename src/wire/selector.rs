//! Label selectors: which Pods a Job's selector means.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use compact_str::CompactString;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use smallvec::SmallVec;

use crate::model::Uid;

use super::{CONTROLLER_UID, json::Text};

/// Something that has labels.
pub trait Labelled {
    /// The value of the label with this key.
    fn label(&self, key: &str) -> Option<&str>;
}

/// An object's labels, to keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(BTreeMap<CompactString, CompactString>);

impl Labelled for BTreeMap<CompactString, CompactString> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(CompactString::as_str)
    }
}

impl Labelled for Labels {
    fn label(&self, key: &str) -> Option<&str> {
        self.0.label(key)
    }
}

/// A Pod's labels where they came, to look at: most Pods' are looked at once and not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLabels<'a>(SmallVec<[(Cow<'a, str>, Cow<'a, str>); 6]>);

impl<'a> PodLabels<'a> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same, to keep.
    pub fn to_labels(&self) -> Labels {
        let compact = |text: &Cow<'a, str>| CompactString::new(text);
        let pairs = self.0.iter();
        Labels(
            pairs
                .map(|(key, value)| (compact(key), compact(value)))
                .collect(),
        )
    }

    /// The same, without what they were read from.
    pub fn into_owned(self) -> PodLabels<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let pairs = self.0.into_iter();
        PodLabels(pairs.map(|(key, value)| (own(key), own(value))).collect())
    }

    pub(super) fn push(&mut self, key: &'a str, value: &'a str) {
        self.0.push((key.into(), value.into()));
    }
}

impl Labelled for PodLabels<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        // Of several the last counts, as in a map.
        let mut pairs = self.0.iter().rev();
        let (_, value) = pairs.find(|(found, _)| found == key)?;
        Some(value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for PodLabels<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
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
                    labels.0.push((key, value));
                }
                Ok(labels)
            }
        }
        deserializer.deserialize_any(Pairs(PhantomData))
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
    pub fn matches(&self, labels: &impl Labelled) -> bool {
        let mut equal = self.match_labels.iter();
        equal.all(|(key, value)| labels.label(key) == Some(value))
            && self.match_expressions.iter().all(|one| one.holds(labels))
    }

    /// Whether it asks for the label with this Job's UID ([`wears_uid`]) and for nothing else.
    pub fn means_wearers_of(&self, job: Uid) -> bool {
        self.match_expressions.is_empty()
            && self.match_labels.len() == 1
            && wears_uid(&self.match_labels, job)
    }
}

/// Whether an object has the label that the server gives the Pods of the Job with this UID.
pub fn wears_uid(labels: &impl Labelled, job: Uid) -> bool {
    labels.label(CONTROLLER_UID).and_then(Uid::parse) == Some(job)
}

impl Requirement {
    fn holds(&self, labels: &impl Labelled) -> bool {
        let value = labels.label(&self.key);
        let listed = value.is_some_and(|value| self.values.iter().any(|one| one == value));
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
        let labels: PodLabels<'_> = serde_json::from_str(labels).expect("labels");
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
