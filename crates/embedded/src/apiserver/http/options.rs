//! Parses the options of writes from the query and from `DeleteOptions` bodies.
//!
//! Responsible for: parsing and rejecting options. Must not: act on them.

use serde_json::{Value, json};

use super::query::Query;
use crate::apiserver::object::{ApiError, JsonView, Result, Tree, tree};

/// The longest name of a field manager, in bytes.
pub(crate) const MAX_MANAGER: usize = 128;

/// The handling of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Not set by the client: warns, but skips expensive checks for kinds with many writes.
    #[default]
    Unset,
    Ignore,
    Warn,
    Strict,
}

/// Options of create, update and patch.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) validation: FieldValidation,
    pub(crate) field_manager: Option<String>,
    pub(crate) force: Option<bool>,
}

/// The handling of an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// Options of delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) grace: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    /// The client sent `orphanDependents: false` explicitly; some responses are 202 then.
    pub(crate) explicit_dependents: bool,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
}

/// Parses the options of a create, update or patch; `type_name` is for error texts.
pub(crate) fn write(query: &Query, type_name: &str) -> Result<WriteOptions> {
    let invalid = |field: &str, error: &str| ApiError::invalid_option(type_name, field, error);
    let validation = match query.get("fieldValidation") {
        None | Some("") => FieldValidation::Unset,
        Some("Ignore") => FieldValidation::Ignore,
        Some("Warn") => FieldValidation::Warn,
        Some("Strict") => FieldValidation::Strict,
        Some(other) => {
            let error = format!(
                "Unsupported value: {other:?}: supported values: \"\", \"Ignore\", \"Strict\", \
                 \"Warn\""
            );
            return Err(invalid("fieldValidation", &error));
        }
    };
    let manager = query.text("fieldManager");
    if manager.len() > MAX_MANAGER {
        let error = "Too long: may not be more than 128 bytes";
        return Err(invalid("fieldManager", error));
    }
    let odd = |letter: &char| letter.is_control() || letter.is_whitespace() && *letter != ' ';
    if let Some((at, letter)) = manager.char_indices().find(|(_, letter)| odd(letter)) {
        let error = format!(
            "Invalid value: {manager:?}: invalid character U+{:04X} (at position {at})",
            u32::from(letter)
        );
        return Err(invalid("fieldManager", &error));
    }
    Ok(WriteOptions {
        dry_run: dry_run(query.all("dryRun"), type_name)?,
        validation,
        field_manager: (!manager.is_empty()).then(|| manager.to_owned()),
        force: query.flag_if_given("force"),
    })
}

/// Parses delete options from the query and from a `DeleteOptions` body, which takes precedence.
pub(crate) fn delete(query: &Query, body: &Tree) -> Result<DeleteOptions> {
    check_options_kind(body)?;
    if let Some(Value::String(_)) = body.get("gracePeriodSeconds") {
        return Err(ApiError::bad_request(
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of \
             type int64",
        ));
    }
    let body = JsonView::from(body);
    let given = |name: &str| query.get(name).filter(|text| !text.is_empty());
    let grace = body.at("gracePeriodSeconds").int();
    let grace = match (grace, given("gracePeriodSeconds")) {
        (None, Some(text)) => Some(parse_int(text)?),
        (grace, _) => grace,
    };
    let policy = body.at("propagationPolicy").as_text();
    let policy = policy.or_else(|| given("propagationPolicy"));
    let orphan = body.at("orphanDependents").value().as_bool();
    let orphan = orphan.or_else(|| query.flag_if_given("orphanDependents"));
    let in_query = dry_run(query.all("dryRun"), "DeleteOptions")?;
    let in_body = body.at("dryRun").items().map(JsonView::text);
    let in_body = dry_run(in_body, "DeleteOptions")?;
    let text = |name: &str| body.at(name).as_text().map(str::to_owned);
    Ok(DeleteOptions {
        dry_run: in_query | in_body,
        // A negative period means 1 second, the shortest graceful period.
        grace: grace.map(|grace| if grace < 0 { 1 } else { grace }),
        propagation: propagation(policy, orphan)?,
        explicit_dependents: orphan == Some(false),
        uid: text("preconditions.uid"),
        version: text("preconditions.resourceVersion"),
    })
}

fn propagation(policy: Option<&str>, orphan: Option<bool>) -> Result<Option<Propagation>> {
    let field = "propagationPolicy";
    let invalid = |error: String| Err(ApiError::invalid_option("DeleteOptions", field, &error));
    if let (Some(policy), Some(_)) = (policy, orphan) {
        return invalid(format!(
            "Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot be both \
             set"
        ));
    }
    match (policy, orphan) {
        (None, None) => Ok(None),
        (Some("Orphan"), _) | (None, Some(true)) => Ok(Some(Propagation::Orphan)),
        (Some("Background"), _) | (None, Some(false)) => Ok(Some(Propagation::Background)),
        (Some("Foreground"), _) => Ok(Some(Propagation::Foreground)),
        (Some(other), _) => invalid(format!(
            "Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \
             \"Orphan\", \"nil\""
        )),
    }
}

fn dry_run<'a>(values: impl Iterator<Item = &'a str>, type_name: &str) -> Result<bool> {
    let values: Vec<&str> = values.collect();
    if values.iter().all(|value| *value == "All") {
        return Ok(!values.is_empty());
    }
    let error = format!(
        "Unsupported value: {}: supported values: \"All\"",
        json!(values)
    );
    Err(ApiError::invalid_option(type_name, "dryRun", &error))
}

fn check_options_kind(body: &Tree) -> Result<()> {
    let name = tree::text(body, "kind");
    let api_version = tree::text(body, "apiVersion");
    if matches!(name, "" | "DeleteOptions") {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "no kind {name:?} is registered for version {api_version:?} in scheme \
         \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
    )))
}

/// Parses an integer parameter; the error text is that of a real server.
pub(crate) fn parse_int(text: &str) -> Result<i64> {
    text.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "strconv.ParseInt: parsing {text:?}: invalid syntax"
        ))
    })
}
