//! Bodies of requests, read and checked by the types of the API.
//!
//! Responsible for: JSON, YAML and protobuf into trees and patches. Must not: apply defaults, or judge values
//! that have the right type.
//! Read first: `decode`.

pub(crate) mod decode;
pub(crate) mod duplicates;
pub(crate) mod patch;
pub(crate) mod protobuf;
