//! Names the forms in which responses contain objects.
//!
//! Responsible for: the names. Must not: choose a form; `http` negotiates it.

/// The form of the objects in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As stored.
    Plain,
    /// An Event of `events.k8s.io/v1`.
    EventsV1,
    /// `PartialObjectMetadata`.
    Metadata,
    /// A table with the columns of `kubectl get`.
    Table(IncludeObject),
}

/// The content of a table row besides its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncludeObject {
    /// The metadata.
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}
