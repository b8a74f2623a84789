//! Models labels and label selectors, and matches them.

use std::{borrow::Cow, collections::BTreeMap};

use compact_str::CompactString;
use smallvec::SmallVec;

use super::{CONTROLLER_UID, Uid};

/// An object with labels.
pub trait Labelled {
    /// The value of the label with this key.
    fn label(&self, key: &str) -> Option<&str>;
}

/// An object's labels, owned.
pub type Labels = BTreeMap<CompactString, CompactString>;

impl Labelled for Labels {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(CompactString::as_str)
    }
}

/// A Pod's labels, borrowed from the input: most are looked up once and not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLabels<'a>(SmallVec<[(Cow<'a, str>, Cow<'a, str>); 6]>);

impl<'a> PodLabels<'a> {
    /// Returns true if there is no label.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Copies the labels into an owned map.
    pub fn to_labels(&self) -> Labels {
        let compact = |text: &Cow<'a, str>| CompactString::new(text);
        let pairs = self.0.iter();
        let pairs = pairs.map(|(key, value)| (compact(key), compact(value)));
        pairs.collect()
    }

    /// Returns the same labels without borrowed data.
    pub fn into_owned(self) -> PodLabels<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let pairs = self.0.into_iter();
        PodLabels(pairs.map(|(key, value)| (own(key), own(value))).collect())
    }

    /// Adds a label.
    pub fn push(&mut self, key: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) {
        self.0.push((key.into(), value.into()));
    }
}

impl Labelled for PodLabels<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        // The last of equal keys counts, as in a map.
        let mut pairs = self.0.iter().rev();
        let (_, value) = pairs.find(|(found, _)| found == key)?;
        Some(value)
    }
}

/// A label selector. All requirements must hold; an empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "LabelSelector")]
pub struct Selector {
    /// Labels that must be present with these values.
    pub match_labels: Labels,
    /// Further requirements.
    pub match_expressions: Vec<Requirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "LabelSelectorRequirement")]
pub struct Requirement {
    /// The label's key.
    pub key: CompactString,
    /// The comparison.
    pub operator: Operator,
    /// The values to compare with.
    pub values: Vec<CompactString>,
}

/// The comparison that a requirement makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// An unknown operator. It matches nothing.
    Unrecognized,
}

impl Selector {
    /// Returns true if an object with these labels is selected.
    #[doc(alias = "Matches")]
    pub fn matches(&self, labels: &impl Labelled) -> bool {
        let mut equal = self.match_labels.iter();
        equal.all(|(key, value)| labels.label(key) == Some(value))
            && self.match_expressions.iter().all(|one| one.holds(labels))
    }

    /// Returns true if it requires only the label with this Job's UID ([`wears_uid`]).
    pub fn means_wearers_of(&self, job: Uid) -> bool {
        self.match_expressions.is_empty()
            && self.match_labels.len() == 1
            && wears_uid(&self.match_labels, job)
    }
}

/// Returns true if an object has the label that the server gives the Pods of the Job with this UID.
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
            Operator::Unrecognized => false,
        }
    }
}
