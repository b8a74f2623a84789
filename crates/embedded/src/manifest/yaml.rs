//! Parses a YAML document to a JSON value, and prints values as YAML.
//!
//! Responsible for: the parser's settings and limits, and its errors in this loader's form and lines.
//! Must not: know the purpose of the value.

use std::borrow::Cow;

use serde_json::Value;
use serde_saphyr::{
    DuplicateKeyPolicy, Error, Localizer, Location, MergeKeyPolicy, Options, RenderOptions,
    SnippetMode, UserMessageFormatter,
};

use super::{ManifestError, SourceLocation, split::Piece};

/// Parses a document. JSON is read as YAML, of which it is a subset.
pub(super) fn parse(piece: &Piece<'_>, location: &SourceLocation) -> Result<Value, ManifestError> {
    match serde_saphyr::from_str_with_options::<Value>(piece.text, options()) {
        Ok(mut value) => {
            shorten_floats(&mut value);
            Ok(value)
        }
        Err(error) => Err(in_our_words(&error, piece, location)),
    }
}

/// Prints objects, one document each. Long texts are block scalars, line by line.
pub fn print(objects: &[Value]) -> String {
    let options = serde_saphyr::ser_options! {
        prefer_block_scalars: true,
        compact_list_indent: true,
        min_fold_chars: usize::MAX,
    };
    serde_saphyr::to_string_multiple_with_options(objects, options).expect("JSON is YAML")
}

/// Returns the parser's options. The limits are far above a list of ten thousand Jobs as `kubectl get` prints it.
/// Aliases, which can expand a small text to a large one, have limits of their own.
fn options() -> Options {
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        strict_booleans: false,
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Merge,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
            max_replay_stack_depth: 16,
        },
        budget: serde_saphyr::budget! {
            max_depth: 64,
            max_documents: 1,
            max_nodes: 20_000_000,
            max_aliases: 10_000,
            max_anchors: 1_000,
            max_total_scalar_bytes: 512 * 1024 * 1024,
        },
    }
}

/// Turns floats without a fraction into integers, as a conversion through JSON text does.
fn shorten_floats(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number
                .as_f64()
                .filter(|f| f.fract() == 0.0 && f.abs() < EXACT_BELOW);
            if let Some(whole) = whole {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(shorten_floats),
        Value::Object(fields) => fields.values_mut().for_each(shorten_floats),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn in_our_words(error: &Error, piece: &Piece<'_>, location: &SourceLocation) -> ManifestError {
    let lines_before = piece.text_line - 1;
    let formatter = UserMessageFormatter.with_localizer(&WithoutPlace);
    let mut rendering = RenderOptions::new(&formatter);
    rendering.snippets = SnippetMode::Off;
    rendering.line_offset = lines_before as u64;
    let mut location = location.clone();
    if let Some(found) = error.location() {
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        location.line = lines_before.saturating_add(number(found.line()));
        location.column = Some(number(found.column()));
    }
    ManifestError::NotYaml {
        location,
        message: error.render_with_options(rendering),
    }
}

/// Omits the position from the parser's messages; the error already begins with it.
struct WithoutPlace;

impl Localizer for WithoutPlace {
    fn attach_location<'a>(&self, base: Cow<'a, str>, _: Location) -> Cow<'a, str> {
        base
    }
}

/// Below this, a float holds every integer exactly.
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;
