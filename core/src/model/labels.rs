//! Labels, and label selectors: which Pods a Job's selector matches.

use std::{borrow::Cow, collections::BTreeMap};

use compact_str::CompactString;
use smallvec::SmallVec;

use super::{CONTROLLER_UID, Uid};

/// Something that has labels.
pub trait Labelled {
    /// The value of the label with this key.
    fn label(&self, key: &str) -> Option<&str>;
}

/// An object's labels, to keep.
pub type Labels = BTreeMap<CompactString, CompactString>;

impl Labelled for Labels {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(CompactString::as_str)
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
        let pairs = pairs.map(|(key, value)| (compact(key), compact(value)));
        pairs.collect()
    }

    /// The same, without what they were read from.
    pub fn into_owned(self) -> PodLabels<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let pairs = self.0.into_iter();
        PodLabels(pairs.map(|(key, value)| (own(key), own(value))).collect())
    }

    /// Adds one.
    pub fn push(&mut self, key: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) {
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

/// A label selector. All that it requires must hold; requiring nothing, it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "LabelSelector")]
pub struct Selector {
    /// Labels that must be there with these values.
    pub match_labels: Labels,
    /// What else is required.
    pub match_expressions: Vec<Requirement>,
}

/// What a selector requires of one label.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "LabelSelectorRequirement")]
pub struct Requirement {
    /// The label's key.
    pub key: CompactString,
    /// How its value is looked at.
    pub operator: Operator,
    /// Values to compare it with.
    pub values: Vec<CompactString>,
}

/// How a requirement looks at a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// It is there with one of the values.
    In,
    /// It has none of the values.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
    /// One that nobody knows here: it is not to be acted on.
    Unrecognized,
}

impl Selector {
    /// Whether an object with these labels is meant.
    #[doc(alias = "Matches")]
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
            Operator::Unrecognized => false,
        }
    }
}
