//! `shardSelector`: those objects whose namespaces or UIDs have hashes in some intervals (KEP-5866).
//!
//! Different from a real server: it is always there, and its expressions are read by the letter, not as CEL.
//!
//! Must not: fetch objects.

use lakh_core::model::stable_hash;

use crate::apiserver::object::{ApiError, Result, Stored};

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct ShardSelector {
    field: ShardField,
    /// From a hash to before another.
    intervals: Vec<(u128, u128)>,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShardField {
    Namespace,
    Uid,
}

impl ShardSelector {
    /// Reads one; none is in an empty text.
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

    /// As it was asked for.
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

/// One `shardRange(field, 'start', 'end')`.
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

/// A number of 16 hexadecimal digits, or 2^64.
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
