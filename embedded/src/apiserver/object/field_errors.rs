//! Collected field errors and the 422 they become.
//!
//! Responsible for: formats of single errors and of the whole answer. Must not: check anything.

use std::fmt::Display;

use serde_json::{Value, json};

use super::{
    error::{ApiError, cause_reason, object_details},
    kind::Kind,
};

/// Errors about fields, in check order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "ErrorList")]
pub(crate) struct FieldErrors(Vec<(String, String)>);

impl FieldErrors {
    /// No errors yet.
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Whether nothing is wrong.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an error whose text is already complete.
    pub(crate) fn push(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.0.push((path.into(), text.into()));
    }

    /// `Required value[: detail]`.
    pub(crate) fn required(&mut self, path: impl Into<String>, detail: &str) {
        self.push(path, with_detail("Required value", detail));
    }

    /// `Invalid value: <json>: detail`.
    pub(crate) fn invalid(&mut self, path: impl Into<String>, value: impl Display, detail: &str) {
        self.push(path, format!("Invalid value: {value}: {detail}"));
    }

    /// `Invalid value: detail`, for errors that show no value.
    pub(crate) fn wrong(&mut self, path: impl Into<String>, detail: &str) {
        self.push(path, format!("Invalid value: {detail}"));
    }

    /// `Forbidden: detail`.
    pub(crate) fn forbidden(&mut self, path: impl Into<String>, detail: &str) {
        self.push(path, format!("Forbidden: {detail}"));
    }

    /// `Unsupported value: <json>: supported values: ...`.
    pub(crate) fn unsupported(
        &mut self,
        path: impl Into<String>,
        value: impl Display,
        supported: &[&str],
    ) {
        let list: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let list = list.join(", ");
        self.push(
            path,
            format!("Unsupported value: {value}: supported values: {list}"),
        );
    }

    /// `Duplicate value: <json>`.
    pub(crate) fn duplicate(&mut self, path: impl Into<String>, value: impl Display) {
        self.push(path, format!("Duplicate value: {value}"));
    }

    /// `Too many: n: must have at most m items`.
    pub(crate) fn too_many(&mut self, path: impl Into<String>, have: usize, most: usize) {
        self.push(
            path,
            format!("Too many: {have}: must have at most {most} items"),
        );
    }

    /// `Too long: may not be more than n bytes`.
    pub(crate) fn too_long(&mut self, path: impl Into<String>, most: usize) {
        self.push(path, format!("Too long: may not be more than {most} bytes"));
    }

    /// Adds an error unless `number` is at least 0.
    pub(crate) fn not_negative(&mut self, path: impl Into<String>, number: Option<i64>) {
        if let Some(number) = number.filter(|number| *number < 0) {
            self.invalid(path, number, "must be greater than or equal to 0");
        }
    }

    /// Adds `field is immutable` if the two values differ.
    pub(crate) fn immutable(
        &mut self,
        path: impl Into<String>,
        new: Option<&Value>,
        old: Option<&Value>,
    ) {
        if new.filter(|value| !value.is_null()) != old.filter(|value| !value.is_null()) {
            self.invalid(path, shown(new), "field is immutable");
        }
    }

    /// Takes over the errors of another collection.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Takes over the errors of another collection, about what lies below `prefix`.
    pub(crate) fn append_under(&mut self, prefix: &str, other: Self) {
        let below = |(path, text)| (format!("{prefix}{path}"), text);
        self.0.extend(other.0.into_iter().map(below));
    }

    /// The errors as `path: text`.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|(path, text)| format!("{path}: {text}"))
            .collect()
    }

    /// Nothing, or the 422.
    pub(crate) fn check(self, kind: Kind, name: &str) -> Result<(), ApiError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(self.into_error(kind, name))
        }
    }

    fn into_error(self, kind: Kind, name: &str) -> ApiError {
        let mut texts: Vec<String> = Vec::new();
        for text in self.texts() {
            // The message names an error once; the causes below repeat it.
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let causes: Vec<Value> = self
            .0
            .iter()
            .map(|(path, text)| {
                json!({"reason": cause_reason(text), "message": text, "field": path})
            })
            .collect();
        let mut details = object_details(kind, name, kind.info().name);
        details["causes"] = causes.into();
        let message = format!("{} {name:?} is invalid: {list}", kind.qualified_name());
        ApiError::new(422, "Invalid", message).with_details(details)
    }
}

/// A value as error texts show it; missing is `null`.
pub(crate) fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "null".to_owned(), Value::to_string)
}

fn with_detail(text: &str, detail: &str) -> String {
    if detail.is_empty() {
        text.to_owned()
    } else {
        format!("{text}: {detail}")
    }
}
