//! Encodes the changes of a Job's indexes in few bytes.
//!
//! Each state has the indexes that entered it, ascending, as runs: the number of indexes between this run and the
//! previous one, times two, plus one if the run has several indexes; in that case its length minus two follows. Both
//! numbers are LEB128, and the whole is base64. An index that enters a state leaves any other.
//!
//! Must not: know the meaning of a state.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

use crate::{
    model::IndexSet,
    shard::{IndexMap, MapState},
};

/// The state of all indexes that are in no other.
const WAITING: &str = "waiting";

/// Returns the difference between two maps; the whole map if there is no previous one, or if it has another number of
/// indexes.
pub(super) fn changes(known: Option<&IndexMap>, now: &IndexMap) -> Map<String, Value> {
    let nothing = IndexMap::default();
    let known = known.filter(|known| known.completions == now.completions);
    let known = known.unwrap_or(&nothing);
    let mut told = Map::new();
    let mut tell = |state: &str, came: &IndexSet| {
        if !came.is_empty() {
            told.insert(state.to_owned(), runs(came).into());
        }
    };
    let mut left = IndexSet::default();
    for state in MapState::ALL {
        let mut came = now.of_state(state).clone();
        came.subtract(known.of_state(state));
        tell(state.as_str(), &came);
        left.extend(known.of_state(state));
    }
    for state in MapState::ALL {
        left.subtract(now.of_state(state));
    }
    tell(WAITING, &left);
    told
}

/// Encodes a set of indexes, in the form that the module describes.
fn runs(set: &IndexSet) -> String {
    let mut bytes = Vec::new();
    let mut next = 0;
    let mut indexes = set.iter().peekable();
    while let Some(first) = indexes.next() {
        let mut last = first;
        while let Some(more) = indexes.next_if_eq(&(last + 1)) {
            last = more;
        }
        let gap = u64::from(first - next) * 2;
        match last - first {
            0 => number(&mut bytes, gap),
            more => {
                number(&mut bytes, gap + 1);
                number(&mut bytes, u64::from(more - 1));
            }
        }
        next = last + 1;
    }
    BASE64_STANDARD.encode(bytes)
}

/// Seven bits at a time, the lowest first.
fn number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Decodes like the page.
    fn read(text: &str) -> String {
        let bytes = BASE64_STANDARD.decode(text).expect("base64");
        let mut bytes = bytes.into_iter();
        let mut number = || {
            let (mut number, mut shift) = (0_u64, 0);
            loop {
                let byte = bytes.next()?;
                number |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return Some(number as u32);
                }
            }
        };
        let (mut set, mut next) = (IndexSet::default(), 0);
        while let Some(head) = number() {
            let first = next + head / 2;
            let more = match head % 2 {
                0 => 0,
                _ => number().expect("a length") + 1,
            };
            for index in first..=first + more {
                set.insert(index);
            }
            next = first + more + 1;
        }
        set.to_string()
    }

    #[test]
    fn a_set_is_decoded_as_it_was_encoded() {
        for text in ["", "0", "0-2,4,6,7", "5,1000-99999,200000", "0-999999"] {
            assert_eq!(read(&runs(&IndexSet::parse(text, 1 << 20))), text);
        }
        assert!(runs(&IndexSet::below(1_000_000)).len() <= 8);
    }

    #[test]
    fn only_changes_are_encoded() {
        let before = IndexMap::with(
            10,
            &[(MapState::Succeeded, "0-2"), (MapState::Running, "3,4,7")],
        );
        let after = IndexMap::with(
            10,
            &[
                (MapState::Succeeded, "0-3"),
                (MapState::Running, "4"),
                (MapState::Failed, "9"),
            ],
        );
        let told = |known, now| {
            let told = changes(known, now);
            let told = told.iter().map(|(state, runs)| {
                let runs = runs.as_str().expect("text");
                (state.clone(), Value::from(read(runs)))
            });
            Value::Object(told.collect())
        };
        let all = json!({"succeeded": "0-3", "running": "4", "failed": "9"});
        assert_eq!(told(None, &after), all);
        let some = json!({"succeeded": "3", "failed": "9", "waiting": "7"});
        assert_eq!(told(Some(&before), &after), some);
        assert_eq!(told(Some(&after), &after), json!({}));
        let other = IndexMap::with(11, &[(MapState::Failed, "9")]);
        assert_eq!(told(Some(&after), &other), json!({"failed": "9"}));
    }
}
