//! The types of fields in the tables of protobuf messages, and the table that all others share.
//!
//! Responsible for: the types of fields. Must not: hold the tables of kinds.

use Type::Text;

/// The type of one field. Numbers and flags that the wire form writes even when they are zero
/// are left out; those that may be absent are kept as they come.
#[derive(Clone, Copy)]
pub(super) enum Type {
    Text,
    OptionalText,
    Int,
    OptionalInt,
    Flag,
    OptionalFlag,
    Quantity,
    /// A time of whole seconds; one that is not set has no content.
    Time,
    /// The same with microseconds.
    MicroTime,
    IntOrText,
    Map,
    Quantities,
    /// Bytes by name, which are base64 in JSON.
    BytesMap,
    Message(Fields),
    /// A message whose members are the outer one's in JSON.
    Inline(Fields),
    /// Written by the server alone; not read.
    Ignored,
}

/// Number, name, type, and whether it repeats.
pub(super) type Fields = &'static [(u64, &'static str, Type, bool)];

/// A reference to an object.
pub(super) const REFERENCE: Fields = &[
    (1, "kind", Text, false),
    (2, "namespace", Text, false),
    (3, "name", Text, false),
    (4, "uid", Text, false),
    (5, "apiVersion", Text, false),
    (6, "resourceVersion", Text, false),
    (7, "fieldPath", Text, false),
];
