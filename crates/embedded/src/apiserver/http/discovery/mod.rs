//! Serves the documents that describe the API to clients.
//!
//! Responsible for: discovery, version, health, schemas and access reviews. Must not: access stored objects.
//! Read first: `documents`, which lists all paths.

pub(crate) mod documents;
mod health;
mod openapi;
mod version;
