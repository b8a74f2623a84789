//! The manifest loader: YAML and JSON files in, objects with their location in the file out; the same
//! for stage files.
//!
//! Responsible for: reading what people hand to `lakh`, and naming the file, the document and
//! the line in every error, the loader's own or the API server's.
//! Must not: judge the objects; that is the work of the API server. Only [`resource_path`] knows
//! kinds, because it must know where they are sent, and [`Document::clear_server_fields`], which makes the
//! output of `kubectl get` fit to be created again.
//! Read first: [`load`], then `document`.
//!
//! # How scalars are read
//!
//! As Kubernetes' own tools read them, which is YAML 1.1 in this respect:
//!
//! - Unquoted `y`, `yes`, `on`, `true` and `n`, `no`, `off`, `false` are booleans, in any case.
//!   (The tools do not take mixed case such as `yEs`; here it is a boolean as well.)
//! - A leading zero means octal: `defaultMode: 0644` is 420. `0x`, `0o`, `0b` and `1_000` work.
//! - A float without a fraction becomes an integer, as in their conversion to JSON: `1e3` is
//!   1000.
//! - `~`, `null` and nothing at all are null; dates stay texts; anything quoted is a text.
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
