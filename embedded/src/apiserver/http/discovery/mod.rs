//! Documents that describe the API to clients.
//!
//! Responsible for: discovery, version, health, schemas and reviews of access. Must not: look at stored objects.
//! Read first: `documents`, which has all the paths.

pub(crate) mod documents;
mod health;
mod openapi;
mod version;
