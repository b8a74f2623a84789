//! Implements sets of field paths, as managers own them.
//!
//! Responsible for: set operations, and the JSON format `FieldsV1`. Must not: know types or managers.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::apiserver::object::Tree;

/// A set of paths, stored as a tree: a node can be in the set itself and have members below it.
///
/// Path elements have the form of `FieldsV1`: `f:name` is a field, `k:{..}` a list item by its keys, `v:..` a member of
/// a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fieldpath.Set")]
pub(super) struct FieldSet {
    pub(super) here: bool,
    pub(super) below: BTreeMap<String, Self>,
}

impl FieldSet {
    /// Parses `FieldsV1`; `None` if it is invalid.
    pub(super) fn read(fields: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (element, value) in fields.as_object()? {
            match element.get(..2) {
                Some("f:" | "k:" | "v:" | "i:") => {
                    let mut node = Self::read(value)?;
                    node.here |= node.below.is_empty();
                    set.below.insert(element.clone(), node);
                }
                None if element == "." => set.here = true,
                _ => return None,
            }
        }
        Some(set)
    }

    /// Returns true if the set contains no path.
    pub(super) fn is_empty(&self) -> bool {
        !self.here && self.below.is_empty()
    }

    /// Adds a path.
    pub(super) fn insert(&mut self, path: &[String]) {
        let mut node = self;
        for element in path {
            node = node.below.entry(element.clone()).or_default();
        }
        node.here = true;
    }

    /// Returns true if the set contains a path.
    pub(super) fn has(&self, path: &[String]) -> bool {
        let mut node = self;
        for element in path {
            match node.below.get(element) {
                Some(next) => node = next,
                None => return false,
            }
        }
        node.here
    }

    /// Adds all paths of another set.
    pub(super) fn add(&mut self, other: Self) {
        self.here |= other.here;
        for (element, node) in other.below {
            self.below.entry(element).or_default().add(node);
        }
    }

    /// Removes all paths of another set.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.here &= !other.here;
        for (element, node) in &other.below {
            if let Some(mine) = self.below.get_mut(element) {
                mine.subtract(node);
                if mine.is_empty() {
                    self.below.remove(element);
                }
            }
        }
    }

    /// This set without the paths of another set.
    pub(super) fn without(mut self, other: &Self) -> Self {
        self.subtract(other);
        self
    }

    /// The intersection of both sets.
    pub(super) fn common(&self, other: &Self) -> Self {
        let both = |(element, node): (&String, &Self)| {
            let common = node.common(other.below.get(element)?);
            (!common.is_empty()).then(|| (element.clone(), common))
        };
        Self {
            here: self.here && other.here,
            below: self.below.iter().filter_map(both).collect(),
        }
    }

    /// Removes a path and all paths below it.
    pub(super) fn cut(&mut self, path: &[&str]) {
        let [first, rest @ ..] = path else { return };
        if rest.is_empty() {
            self.below.remove(*first);
        } else if let Some(node) = self.below.get_mut(*first) {
            node.cut(rest);
            if node.is_empty() {
                self.below.remove(*first);
            }
        }
    }

    /// All paths; at each level, paths that end there come before longer ones.
    pub(super) fn paths(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), &mut found);
        found
    }

    fn collect(&self, prefix: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
        for (element, node) in &self.below {
            if node.here {
                found.push(prefix.iter().chain([element]).cloned().collect());
            }
        }
        for (element, node) in &self.below {
            prefix.push(element.clone());
            node.collect(prefix, found);
            prefix.pop();
        }
    }
}

/// Formats as `FieldsV1`.
impl From<FieldSet> for Value {
    fn from(set: FieldSet) -> Self {
        let mut tree = Tree::new();
        if set.here && !set.below.is_empty() {
            tree.insert(".".to_owned(), Self::Object(Tree::new()));
        }
        let members = set.below.into_iter();
        tree.extend(members.map(|(element, node)| (element, node.into())));
        Self::Object(tree)
    }
}

/// A path as error texts print it: `.spec.containers[name="a"].image`.
pub(super) fn shown(path: &[impl AsRef<str>]) -> String {
    let mut text = String::new();
    for element in path {
        match element.as_ref().split_at(2) {
            ("f:", name) => text.push_str(&format!(".{name}")),
            ("v:", value) => text.push_str(&format!("[={value}]")),
            ("k:", keys) => {
                let keys: Tree = serde_json::from_str(keys).unwrap_or_default();
                let keys: Vec<String> = keys
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                text.push_str(&format!("[{}]", keys.join(",")));
            }
            (_, index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(fields: &Value) -> FieldSet {
        FieldSet::read(fields).unwrap()
    }

    #[test]
    fn sets_are_added_subtracted_and_compared() {
        let a = json!({"f:spec": {".": {}, "f:a": {}, "f:b": {"v:\"x\"": {}}}});
        let b = json!({"f:spec": {"f:a": {}, "f:c": {}}});
        assert_eq!(Value::from(set(&a)), a);
        assert_eq!(
            Value::from(set(&a).without(&set(&b))),
            json!({"f:spec": {".": {}, "f:b": {"v:\"x\"": {}}}})
        );
        assert_eq!(
            Value::from(set(&a).common(&set(&b))),
            json!({"f:spec": {"f:a": {}}})
        );
        let mut sum = set(&b);
        sum.add(set(&json!({"f:spec": {"f:c": {"f:d": {}}}})));
        assert_eq!(
            Value::from(sum),
            json!({"f:spec": {"f:a": {}, "f:c": {".": {}, "f:d": {}}}})
        );
        assert!(set(&a).without(&set(&a)).is_empty());
        assert!(FieldSet::read(&json!({"spec": {}})).is_none());
        let mut cut = set(&a);
        cut.cut(&["f:spec"]);
        assert!(cut.is_empty());
    }

    #[test]
    fn paths_are_shown_as_in_messages() {
        let path = [
            "f:spec",
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}",
            "v:\"x\"",
        ];
        assert_eq!(
            shown(&path),
            ".spec[containerPort=80,protocol=\"TCP\"][=\"x\"]"
        );
    }
}
