//! Addresses a field during validation: its value, its old value and its path.
//!
//! Responsible for: descending into an object, and recording errors with their paths. Must not: contain rules. The
//! checks in `kinds` use it.

use std::{cell::RefCell, fmt::Display, ops::Deref};

use serde_json::Value;

use super::{
    field_errors::FieldErrors,
    names,
    place::Place,
    tree::{self, Tree},
    view::JsonView,
};

/// A field under validation, set or unset, with its old value. Nothing is copied and no path is formatted until an
/// error is recorded.
#[derive(Clone, Copy)]
pub(crate) struct CheckedField<'a, 'v> {
    place: Place<'a>,
    view: JsonView<'v>,
    old: JsonView<'v>,
    errors: &'a RefCell<FieldErrors>,
}

impl<'v> Deref for CheckedField<'_, 'v> {
    type Target = JsonView<'v>;

    fn deref(&self) -> &JsonView<'v> {
        &self.view
    }
}

/// Validates a new object.
pub(crate) fn check<'v>(tree: &'v Tree, rules: impl FnOnce(&CheckedField<'_, 'v>)) -> FieldErrors {
    check_change(tree, tree::empty(), rules)
}

/// Validates an update of `old` to `tree`.
pub(crate) fn check_change<'v>(
    tree: &'v Tree,
    old: &'v Tree,
    rules: impl FnOnce(&CheckedField<'_, 'v>),
) -> FieldErrors {
    let errors = RefCell::default();
    rules(&CheckedField {
        place: Place::Root,
        view: tree.into(),
        old: old.into(),
        errors: &errors,
    });
    errors.into_inner()
}

impl<'a, 'v> CheckedField<'a, 'v> {
    /// The same field with another object as its value.
    pub(crate) fn holding<'b>(&'b self, tree: &'b Tree) -> CheckedField<'b, 'b> {
        CheckedField {
            view: tree.into(),
            ..*self
        }
    }

    /// A member; `a.b` is the member b of the member a.
    pub(crate) fn at<'b>(&'b self, path: &'b str) -> CheckedField<'b, 'v> {
        self.with(Place::Member(&self.place, path), |whole| whole.at(path))
    }

    /// A member that has the values of another field.
    pub(crate) fn showing<'b>(
        &'b self,
        name: &'b str,
        CheckedField { view, old, .. }: CheckedField<'_, 'v>,
    ) -> CheckedField<'b, 'v> {
        CheckedField {
            view,
            old,
            ..self.at(name)
        }
    }

    /// An entry of a map; its path is `map[key]`.
    pub(crate) fn entry<'b>(&'b self, key: &'b str) -> CheckedField<'b, 'v> {
        self.with(Place::Entry(&self.place, key), |map| map.entry(key))
    }

    /// The items of a list.
    pub(crate) fn items<'b>(&'b self) -> impl Iterator<Item = CheckedField<'b, 'v>> {
        let indexes = 0..self.list().len();
        indexes.map(|index| self.with(Place::Item(&self.place, index), |list| list.item(index)))
    }

    fn with<'b>(
        &'b self,
        place: Place<'b>,
        part: impl Fn(JsonView<'v>) -> JsonView<'v>,
    ) -> CheckedField<'b, 'v> {
        CheckedField {
            place,
            view: part(self.view),
            old: part(self.old),
            errors: self.errors,
        }
    }

    /// The value before the update.
    pub(crate) fn old(&self) -> JsonView<'v> {
        self.old
    }

    /// Returns true if the update changes the value.
    pub(crate) fn has_changed(&self) -> bool {
        self.value() != self.old.value()
    }

    /// The number of errors recorded so far.
    pub(crate) fn found(&self) -> usize {
        self.errors.borrow().0.len()
    }

    /// Records a complete error text for this field.
    pub(crate) fn complain(&self, text: impl Into<String>) {
        let error = (self.place.to_string(), text.into());
        self.errors.borrow_mut().0.push(error);
    }

    /// `Required value[: detail]`.
    pub(crate) fn required(&self, detail: &str) {
        let colon = if detail.is_empty() { "" } else { ": " };
        self.complain(format!("Required value{colon}{detail}"));
    }

    /// Requires a non-empty string; returns true if there is one.
    pub(crate) fn must_be_given(&self) -> bool {
        let is_given = !self.text().is_empty();
        if !is_given {
            self.required("");
        }
        is_given
    }

    /// `Invalid value: <json>: detail`.
    pub(crate) fn invalid(&self, detail: &str) {
        self.invalid_as(self.value(), detail);
    }

    /// The same with another value in the text.
    pub(crate) fn invalid_as(&self, shown: impl Display, detail: &str) {
        self.complain(format!("Invalid value: {shown}: {detail}"));
    }

    /// `Invalid value: <string as JSON>: detail` for each problem with a string.
    pub(crate) fn complain_of(&self, text: &str, problems: impl IntoIterator<Item = String>) {
        for problem in problems {
            self.invalid_as(Value::from(text), &problem);
        }
    }

    /// Requires a DNS label.
    pub(crate) fn must_be_dns_label(&self) {
        if self.must_be_given() {
            self.complain_of(self.text(), names::dns_label_problems(self.text()));
        }
    }

    /// Requires a qualified name.
    pub(crate) fn must_be_qualified_name(&self) {
        self.complain_of(self.text(), names::qualified_name_problems(self.text()));
    }

    /// `Forbidden: detail`.
    pub(crate) fn forbidden(&self, detail: &str) {
        self.complain(format!("Forbidden: {detail}"));
    }

    /// Requires that the string is one of `supported`.
    pub(crate) fn must_be_one_of(&self, supported: &[&str]) {
        if !supported.contains(&self.text()) {
            self.unsupported(Value::from(self.text()), supported);
        }
    }

    /// `Unsupported value: <shown>: supported values: ...`.
    pub(crate) fn unsupported(&self, shown: impl Display, supported: &[&str]) {
        let list: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let list = list.join(", ");
        self.complain(format!(
            "Unsupported value: {shown}: supported values: {list}"
        ));
    }

    /// `Duplicate value: <json>`.
    pub(crate) fn duplicate(&self) {
        self.duplicate_as(self.value());
    }

    /// The same with another value in the text.
    pub(crate) fn duplicate_as(&self, shown: impl Display) {
        self.complain(format!("Duplicate value: {shown}"));
    }

    /// Requires that a list has at most `most` items.
    pub(crate) fn must_have_at_most(&self, most: usize) {
        let have = self.list().len();
        if have > most {
            self.complain(format!("Too many: {have}: must have at most {most} items"));
        }
    }

    /// Requires that `bytes` is at most `most`.
    pub(crate) fn must_be_within(&self, bytes: usize, most: usize) {
        if bytes > most {
            self.complain(format!("Too long: may not be more than {most} bytes"));
        }
    }

    /// Requires that the number, if set, is at least 0.
    pub(crate) fn must_not_be_negative(&self) {
        if self.int().is_some_and(|number| number < 0) {
            self.invalid("must be greater than or equal to 0");
        }
    }

    /// Returns true if the number is set and above `limit`.
    pub(crate) fn is_above(&self, limit: i64) -> bool {
        self.int().is_some_and(|number| number > limit)
    }

    /// Requires that the value has not changed; an unset value is null.
    pub(crate) fn must_not_change(&self) {
        if self.has_changed() {
            self.invalid("field is immutable");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::apiserver::object::Kind;

    #[test]
    fn complaints_name_their_place() {
        let tree = json!({"spec": {"list": [{"a": {"b": -1}}], "labels": {"x.y/z": "v"}}});
        let errors = check(tree.as_object().unwrap(), |object| {
            let spec = object.at("spec");
            for item in spec.at("list").items() {
                item.at("a.b").must_not_be_negative();
                item.at("c").must_be_given();
            }
            spec.at("labels").entry("x.y/z").must_be_one_of(&["w"]);
            let other = object.at("other");
            let other = other.holding(tree["spec"].as_object().unwrap());
            other.at("none").invalid("must be");
        });
        let list = [
            "spec.list[0].a.b: Invalid value: -1: must be greater than or equal to 0",
            "spec.list[0].c: Required value",
            "spec.labels[x.y/z]: Unsupported value: \"v\": supported values: \"w\"",
            "other.none: Invalid value: null: must be",
        ]
        .join(", ");
        let refused = errors.check(Kind::Job, "j").expect_err("it is all wrong");
        let whole = format!("Job.batch \"j\" is invalid: [{list}]");
        assert_eq!(refused.to_string(), whole);
    }
}
