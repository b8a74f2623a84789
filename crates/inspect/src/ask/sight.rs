//! Holds the objects that were read from a cluster, and the errors of reads that failed.
//!
//! Must not: send requests.

use std::fmt;

use serde::Serialize;

use lakh_wire::ApiError;

/// The objects of one kind that were read, and the errors.
#[derive(Debug)]
pub(crate) struct Sight<T> {
    pub(crate) found: Vec<T>,
    pub(crate) unseen: Vec<Unseen>,
}

impl<T> Default for Sight<T> {
    fn default() -> Self {
        Self {
            found: Vec::new(),
            unseen: Vec::new(),
        }
    }
}

impl<T> Sight<T> {
    /// Adds the result of one call.
    pub(crate) fn take(&mut self, what: &str, seen: Result<Vec<T>, ApiError>) {
        match seen {
            Ok(found) => self.found.extend(found),
            Err(error) => self.unseen.push(Unseen::new(what, &error)),
        }
    }
}

/// An object or list that could not be read, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Unseen {
    pub(crate) what: String,
    pub(crate) why: String,
}

impl Unseen {
    /// Creates it from the server's answer.
    pub(crate) fn new(what: &str, error: &ApiError) -> Self {
        // The server repeats the object's name, which is in `what` already.
        let words = error.message.split_once(" is forbidden: ");
        let why = match (error.code, words) {
            (404, _) => "the API server does not have this API".to_owned(),
            (403, Some((_, words))) => words.to_owned(),
            _ => error.message.clone(),
        };
        Self {
            what: what.to_owned(),
            why,
        }
    }
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}
