//! The forms in which objects are answered.
//!
//! Responsible for: their names. Must not: choose one; that is negotiated by `http`.

/// The form in which objects are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As stored.
    Plain,
    /// An Event as `events.k8s.io/v1` has it.
    EventsV1,
    /// `PartialObjectMetadata`.
    Metadata,
    /// A table with the columns of `kubectl get`.
    Table(IncludeObject),
}

/// What rows of a table carry beside their cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncludeObject {
    /// The metadata.
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}
