//! Loads manifests and stage files: reads YAML and JSON, and returns objects with their location in the file.
//!
//! Responsible for: reading users' files, and naming file, document and line in every error, the loader's own or the
//! API server's.
//! Must not: validate the objects; the API server does. Only [`resource_path`] knows kinds, to find the path of an
//! object, and [`Document::clear_server_fields`], which prepares the output of `kubectl get` for a new create.
//! Read first: [`load`], then `document`.
//!
//! # How scalars are read
//!
//! As in Kubernetes' own tools, which follow YAML 1.1 in this respect:
//!
//! - Unquoted `y`, `yes`, `on`, `true` and `n`, `no`, `off`, `false` are booleans, in any case. (The tools do not
//!   accept mixed case such as `yEs`; here it is a boolean as well.)
//! - A leading zero means octal: `defaultMode: 0644` is 420. `0x`, `0o`, `0b` and `1_000` work.
//! - A float without a fraction becomes an integer, as in the tools' conversion to JSON: `1e3` is 1000.
//! - `~`, `null` and an empty value are null; dates stay texts; anything quoted is a text.
//! - Infinity and not-a-number are errors, since JSON has no such numbers.
//!
//! Anchors, aliases and merge keys (`<<`) work. A key that occurs twice in a mapping is an error.

mod document;
mod error;
mod exported;
mod reject;
mod resource;
mod source;
mod split;
mod stages;
#[cfg(test)]
mod tests;
mod yaml;

pub use document::{Document, ObjectName, load};
pub use error::{ManifestError, SourceLocation};
pub use reject::Rejection;
pub use resource::{DEFAULT_NAMESPACE, ResourcePath, resource_path};
pub use source::Source;
pub use stages::{load_stages, read_stages};
pub use yaml::print;
