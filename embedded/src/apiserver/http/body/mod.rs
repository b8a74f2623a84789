//! Bodies of requests, read and checked by the types of the API.
//!
//! Responsible for: JSON, YAML and protobuf into trees and patches. Must not: apply defaults, or judge values
//! that have the right type.
//! Read first: `decode`.

pub(crate) mod decode;
mod duplicates;
mod field_types;
pub(crate) mod patch;
mod protobuf;
