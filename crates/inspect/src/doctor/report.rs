//! Defines the result of a check: a diagnosis with findings, and the objects that could not be read.
//!
//! Must not: know the checks.

use serde::Serialize;

use super::facts::Unseen;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// It may become a problem, or cannot be confirmed from here.
    Warning,
    /// Jobs make no progress, or end wrongly.
    Failed,
}

/// A problem, its cause, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) what: String,
    pub(super) cause: String,
    pub(super) remedy: String,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Diagnosis {
    pub(super) check: &'static str,
    /// A short summary.
    pub(super) summary: String,
    pub(super) findings: Vec<Finding>,
    pub(super) unseen: Vec<Unseen>,
}

/// The overall result of a diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing is wrong.
    Ok,
    /// No problem was found, but some objects could not be read.
    Unseen,
    /// Something may become a problem.
    Warning,
    /// Something is wrong.
    Failed,
}

impl Diagnosis {
    /// Creates a diagnosis without findings.
    pub(super) fn new(check: &'static str) -> Self {
        Self {
            check,
            summary: String::new(),
            findings: Vec::new(),
            unseen: Vec::new(),
        }
    }

    /// Adds objects that could not be read.
    #[must_use]
    pub(super) fn without(mut self, unseen: &[Unseen]) -> Self {
        self.unseen.extend_from_slice(unseen);
        self
    }

    /// Adds a finding.
    pub(super) fn find(
        &mut self,
        level: Level,
        what: impl Into<String>,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.findings.push(Finding {
            level,
            what: what.into(),
            cause: cause.into(),
            remedy: remedy.into(),
        });
    }

    /// Returns the verdict: the worst finding decides.
    pub(super) fn verdict(&self) -> Verdict {
        let worst = self.findings.iter().map(|finding| finding.level).max();
        match worst {
            Some(Level::Failed) => Verdict::Failed,
            Some(Level::Warning) => Verdict::Warning,
            None if !self.unseen.is_empty() => Verdict::Unseen,
            None => Verdict::Ok,
        }
    }
}
