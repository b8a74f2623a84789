//! Decodes request bodies and checks them against the types of the API.
//!
//! Responsible for: turning JSON, YAML and protobuf into trees and patches. Must not: apply defaults, or validate
//! values that have the right type.
//! Read first: `decode`.

pub(crate) mod decode;
mod duplicates;
mod field_types;
pub(crate) mod patch;
mod protobuf;
