//! A field of an object that is being checked: its value, and where it stands.
//!
//! Responsible for: the way down into an object, and complaints that name the place they are about. Must not: know
//! rules. The checks of `kinds` are written with it.

use std::{
    cell::RefCell,
    fmt::{self, Display},
};

use serde_json::Value;

use super::{
    field_errors::FieldErrors,
    names,
    tree::{self, Tree},
};

static NULL: Value = Value::Null;

/// A field under check, whether it is set or not. Nothing is copied, and no path written, before something is wrong.
#[derive(Clone, Copy)]
#[doc(alias = "field.Path")]
pub(crate) struct CheckedField<'a, 'v> {
    place: Place<'a, 'v>,
    value: &'v Value,
    members: Option<&'v Tree>,
    errors: &'a RefCell<FieldErrors>,
}

/// Where a field stands.
#[derive(Clone, Copy)]
enum Place<'a, 'v> {
    /// The object itself; paths of its members begin with this.
    Root(&'a str),
    /// A member, or a member's member by a path with dots.
    Member(&'a CheckedField<'a, 'v>, &'a str),
    Item(&'a CheckedField<'a, 'v>, usize),
    Entry(&'a CheckedField<'a, 'v>, &'a str),
}

/// Checks an object by these rules.
pub(crate) fn check<'v>(tree: &'v Tree, rules: impl FnOnce(&CheckedField<'_, 'v>)) -> FieldErrors {
    let errors = RefCell::default();
    rules(&CheckedField {
        place: Place::Root(""),
        value: &NULL,
        members: Some(tree),
        errors: &errors,
    });
    errors.into_inner()
}

impl<'a, 'v> CheckedField<'a, 'v> {
    /// The same checks go on about another object, whose paths begin with a text.
    pub(crate) fn go_on_with<'b>(
        &'b self,
        tree: &'b Tree,
        prefix: &'b str,
    ) -> CheckedField<'b, 'b> {
        CheckedField {
            place: Place::Root(prefix),
            value: &NULL,
            members: Some(tree),
            errors: self.errors,
        }
    }

    /// A member; `a.b` is the member b of the member a.
    pub(crate) fn at<'b>(&'b self, path: &'b str) -> CheckedField<'b, 'v> {
        let mut names = path.split('.');
        let first = names.next().and_then(|name| self.members?.get(name));
        let found = names.fold(first, |value, name| value?.get(name));
        self.with(Place::Member(self, path), found)
    }

    /// A member that shows the value of another field.
    pub(crate) fn showing<'b>(
        &'b self,
        name: &'b str,
        other: &CheckedField<'_, 'v>,
    ) -> CheckedField<'b, 'v> {
        self.with(Place::Member(self, name), Some(other.value))
    }

    /// An entry of a map, whose path is `map[key]`.
    pub(crate) fn entry<'b>(&'b self, key: &'b str) -> CheckedField<'b, 'v> {
        let found = self.members.and_then(|members| members.get(key));
        self.with(Place::Entry(self, key), found)
    }

    /// The items of a list.
    pub(crate) fn items<'b>(&'b self) -> impl Iterator<Item = CheckedField<'b, 'v>> {
        let items = self.list().iter().enumerate();
        items.map(|(index, item)| self.with(Place::Item(self, index), Some(item)))
    }

    fn with<'b>(&'b self, place: Place<'b, 'v>, value: Option<&'v Value>) -> CheckedField<'b, 'v> {
        let value = value.unwrap_or(&NULL);
        CheckedField {
            place,
            value,
            members: value.as_object(),
            errors: self.errors,
        }
    }

    /// The value; null if there is none.
    pub(crate) fn value(&self) -> &'v Value {
        self.value
    }

    /// Whether there is a value.
    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// The text, if it is one.
    pub(crate) fn as_text(&self) -> Option<&'v str> {
        self.value.as_str()
    }

    /// The text; empty if there is none.
    pub(crate) fn text(&self) -> &'v str {
        self.as_text().unwrap_or_default()
    }

    /// The integer, if it is one.
    pub(crate) fn int(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// Whether it is true.
    pub(crate) fn flag(&self) -> bool {
        self.value == true
    }

    /// The members; none if it is no object.
    pub(crate) fn tree(&self) -> &'v Tree {
        self.members.unwrap_or(tree::empty())
    }

    /// The items; none if it is no list.
    pub(crate) fn list(&self) -> &'v [Value] {
        self.value.as_array().map_or(&[], Vec::as_slice)
    }

    /// How much has been found wrong so far.
    pub(crate) fn found(&self) -> usize {
        self.errors.borrow().len()
    }

    /// Says what is wrong here, in a text that is complete.
    pub(crate) fn complain(&self, text: impl Into<String>) {
        self.errors.borrow_mut().push(self.to_string(), text);
    }

    /// `Required value[: detail]`.
    pub(crate) fn required(&self, detail: &str) {
        let colon = if detail.is_empty() { "" } else { ": " };
        self.complain(format!("Required value{colon}{detail}"));
    }

    /// Checks that there is a text, and that it is not empty; gives whether that is so.
    pub(crate) fn must_be_given(&self) -> bool {
        let is_given = !self.text().is_empty();
        if !is_given {
            self.required("");
        }
        is_given
    }

    /// `Invalid value: <json>: detail`.
    pub(crate) fn invalid(&self, detail: &str) {
        self.invalid_as(self.value, detail);
    }

    /// The same, where another value is shown.
    pub(crate) fn invalid_as(&self, shown: impl Display, detail: &str) {
        self.complain(format!("Invalid value: {shown}: {detail}"));
    }

    /// `Invalid value: <text as json>: detail` for each problem with the text.
    pub(crate) fn complain_of(&self, problems: impl IntoIterator<Item = String>) {
        for problem in problems {
            self.invalid_as(Value::from(self.text()), &problem);
        }
    }

    /// Checks that the text is a DNS label, which must be there.
    pub(crate) fn must_be_dns_label(&self) {
        if self.must_be_given() {
            self.complain_of(names::dns_label_problem(self.text()));
        }
    }

    /// Checks that the text is a qualified name.
    pub(crate) fn must_be_qualified_name(&self) {
        self.complain_of(names::qualified_name_problems(self.text()));
    }

    /// `Forbidden: detail`.
    pub(crate) fn forbidden(&self, detail: &str) {
        self.complain(format!("Forbidden: {detail}"));
    }

    /// Checks that the text is one of these.
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
        self.duplicate_as(self.value);
    }

    /// The same, where another value is shown.
    pub(crate) fn duplicate_as(&self, shown: impl Display) {
        self.complain(format!("Duplicate value: {shown}"));
    }

    /// Checks that a list has so many items at most.
    pub(crate) fn must_have_at_most(&self, most: usize) {
        let have = self.list().len();
        if have > most {
            self.complain(format!("Too many: {have}: must have at most {most} items"));
        }
    }

    /// Checks that so many bytes are not too many.
    pub(crate) fn must_be_within(&self, bytes: usize, most: usize) {
        if bytes > most {
            self.complain(format!("Too long: may not be more than {most} bytes"));
        }
    }

    /// Checks that a number that is given is at least 0.
    pub(crate) fn must_not_be_negative(&self) {
        if self.int().is_some_and(|number| number < 0) {
            self.invalid("must be greater than or equal to 0");
        }
    }

    /// Whether a number that is given is above a limit.
    pub(crate) fn is_above(&self, limit: i64) -> bool {
        self.int().is_some_and(|number| number > limit)
    }

    /// Checks that the value is what it was; an unset one is null.
    pub(crate) fn must_not_change(&self, old: Option<&Value>) {
        if self.value != old.unwrap_or(&NULL) {
            self.invalid("field is immutable");
        }
    }
}

impl Display for CheckedField<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Root(prefix) => f.write_str(prefix),
            Place::Member(parent, name) => {
                let is_root = matches!(parent.place, Place::Root(_));
                write!(f, "{parent}{}{name}", if is_root { "" } else { "." })
            }
            Place::Item(list, index) => write!(f, "{list}[{index}]"),
            Place::Entry(map, key) => write!(f, "{map}[{key}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            let other = object.go_on_with(tree["spec"].as_object().unwrap(), "other.");
            other.at("none").invalid("must be");
        });
        assert_eq!(
            errors.texts(),
            [
                "spec.list[0].a.b: Invalid value: -1: must be greater than or equal to 0",
                "spec.list[0].c: Required value",
                "spec.labels[x.y/z]: Unsupported value: \"v\": supported values: \"w\"",
                "other.none: Invalid value: null: must be",
            ]
        );
    }
}
