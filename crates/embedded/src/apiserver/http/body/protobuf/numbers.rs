//! Maps the field numbers of Kubernetes' protobuf messages to field names.
//!
//! Responsible for: parsing `numbers.txt` once (its header explains the format), and finding messages. Must not: decode
//! bodies.

use std::{collections::HashMap, sync::LazyLock};

use crate::apiserver::object::sections;

/// A field of a message.
#[derive(Debug)]
pub(super) struct MessageField {
    pub(super) number: u64,
    /// Its name in JSON; `None` if JSON has its members in the enclosing message.
    pub(super) name: Option<&'static str>,
    pub(super) kind: Type,
    pub(super) repeats: bool,
}

/// The type of one field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type {
    Text(Zero),
    Int(Zero),
    Flag(Zero),
    Quantity,
    /// A time in whole seconds; empty if unset.
    Time,
    /// The same with microseconds.
    MicroTime,
    IntOrText,
    /// Base64 in JSON.
    Bytes,
    /// A map of string keys to values of this type.
    Map(&'static Self),
    Message(&'static str),
    /// Set only by the server; ignored.
    Ignored,
}

/// The handling of zero, an empty string and `false`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zero {
    LeftOut,
    Kept,
}

struct Message {
    is_body: bool,
    fields: Vec<MessageField>,
}

static MESSAGES: LazyLock<HashMap<&'static str, Message>> =
    LazyLock::new(|| read(include_str!("numbers.txt")));

/// The fields of a kind that clients send in protobuf.
pub(super) fn of_body(kind: &str) -> Option<&'static [MessageField]> {
    let message = MESSAGES.get(kind).filter(|message| message.is_body);
    message.map(|message| &*message.fields)
}

/// The fields of a message in the table.
pub(super) fn of_message(name: &str) -> &'static [MessageField] {
    &MESSAGES[name].fields
}

fn read(text: &'static str) -> HashMap<&'static str, Message> {
    let message = |(head, rows): (&'static str, Vec<&'static str>)| {
        let message = Message {
            is_body: head.ends_with('*'),
            fields: rows.into_iter().map(field).collect(),
        };
        (head.trim_end_matches('*'), message)
    };
    sections(text).map(message).collect()
}

fn field(line: &'static str) -> MessageField {
    let words: Vec<&'static str> = line.split_whitespace().collect();
    let [number, name, kind] = words[..] else {
        panic!("a field has a number, a name and a type, unlike {line:?}");
    };
    let item = kind.strip_prefix("[]");
    MessageField {
        number: number.parse().expect("fields have numbers"),
        name: Some(name).filter(|name| *name != "="),
        kind: Type::read(item.unwrap_or(kind)),
        repeats: item.is_some(),
    }
}

impl Type {
    fn read(text: &'static str) -> Self {
        let zero = match text.ends_with('?') {
            true => Zero::Kept,
            false => Zero::LeftOut,
        };
        match text.trim_end_matches('?') {
            "text" => Self::Text(zero),
            "int" => Self::Int(zero),
            "flag" => Self::Flag(zero),
            "quantity" => Self::Quantity,
            "time" => Self::Time,
            "microtime" => Self::MicroTime,
            "int-or-text" => Self::IntOrText,
            "{text}" => Self::Map(&Self::Text(Zero::Kept)),
            "{quantity}" => Self::Map(&Self::Quantity),
            "{bytes}" => Self::Map(&Self::Bytes),
            "-" => Self::Ignored,
            name => Self::Message(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_messages_that_the_table_names_are_there() {
        for field in MESSAGES.values().flat_map(|message| &message.fields) {
            if let Type::Message(name) = field.kind {
                assert!(!of_message(name).is_empty(), "{name}");
            }
        }
        assert!(of_body("Job").is_some());
        assert!(of_body("JobSpec").is_none());
    }
}
