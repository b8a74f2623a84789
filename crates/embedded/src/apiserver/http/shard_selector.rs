//! Parses and matches `shardSelector`: objects whose namespace or UID has a hash in given intervals (KEP-5866).
//!
//! Different from a real server: the parameter is always enabled, and only the literal form of its expressions is
//! accepted, not CEL.
//!
//! Must not: fetch objects.

use lakh_model::stable_hash;

use crate::apiserver::object::{ApiError, Result, Stored};

/// A parsed `shardSelector`. An object matches if the hash of its field is in one of the intervals. All intervals are
/// of the same field.
#[derive(Clone, Debug)]
pub(super) struct ShardSelector {
    field: ShardField,
    /// Half-open intervals of hashes: start included, end excluded.
    intervals: Vec<(u128, u128)>,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShardField {
    Namespace,
    Uid,
}

impl ShardSelector {
    /// Parses a selector; `None` for an empty text.
    pub(super) fn read(text: &str) -> Result<Option<Self>> {
        if text.is_empty() {
            return Ok(None);
        }
        let ranges: std::result::Result<Vec<_>, String> = text.split("||").map(range).collect();
        let refused =
            |why: String| ApiError::new(500, "", format!("invalid shard selector: {why}"));
        let ranges = ranges.map_err(refused)?;
        let field = ranges[0].0;
        if ranges.iter().any(|(other, ..)| *other != field) {
            return Err(refused(
                "all shard ranges must use the same field".to_owned(),
            ));
        }
        Ok(Some(Self {
            field,
            intervals: ranges
                .iter()
                .map(|(_, start, end)| (*start, *end))
                .collect(),
            text: text.to_owned(),
        }))
    }

    /// The text of the parameter.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn matches(&self, object: &Stored) -> bool {
        let hash = match self.field {
            ShardField::Namespace => stable_hash(object.namespace.bytes()),
            ShardField::Uid => stable_hash(object.uid.to_string().bytes()),
        };
        let hash = u128::from(hash);
        let mut intervals = self.intervals.iter();
        intervals.any(|(start, end)| (*start..*end).contains(&hash))
    }
}

/// Parses one `shardRange(field, 'start', 'end')`.
fn range(text: &str) -> std::result::Result<(ShardField, u128, u128), String> {
    let text = text.trim();
    let inner = text.strip_prefix("shardRange(");
    let inner = inner.and_then(|rest| rest.strip_suffix(')'));
    let inner = inner.ok_or_else(|| format!("{text:?} is no shardRange()"))?;
    let arguments: Vec<&str> = inner.split(',').map(str::trim).collect();
    let [field, start, end] = arguments[..] else {
        let count = arguments.len();
        return Err(format!(
            "shardRange() requires exactly 3 arguments, got {count}"
        ));
    };
    let field = match field {
        "object.metadata.namespace" => ShardField::Namespace,
        "object.metadata.uid" => ShardField::Uid,
        _ => {
            return Err(format!(
                "unsupported field path {field:?}; supported: object.metadata.uid, object.metadata.namespace"
            ));
        }
    };
    let (start, end) = (bound(start)?, bound(end)?);
    match start < end {
        true => Ok((field, start, end)),
        false => Err(format!("start {start:#x} must be less than end {end:#x}")),
    }
}

/// Parses a number of 16 hexadecimal digits, or 2^64.
fn bound(text: &str) -> std::result::Result<u128, String> {
    let odd = || format!("{text} must be a 0x-prefixed 16-digit hex value");
    let inner = text
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    let digits = inner
        .and_then(|inner| inner.strip_prefix("0x"))
        .ok_or_else(odd)?;
    let number = u128::from_str_radix(digits, 16).map_err(|_| odd())?;
    let is_good = digits.len() == 16 || (digits.len() == 17 && number == 1 << 64);
    is_good.then_some(number).ok_or_else(odd)
}
