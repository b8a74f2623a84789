//! What the doctor says: a diagnosis for each check, with its findings, and what it could not see.
//!
//! Must not: know what is checked.

use serde::Serialize;

use super::facts::Unseen;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// It may become a problem, or is one that nobody can be sure of from here.
    Warning,
    /// Jobs stand still, or end wrong.
    Failed,
}

/// Something that is wrong, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) what: String,
    pub(super) cause: String,
    pub(super) remedy: String,
}

/// What came of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Diagnosis {
    pub(super) check: &'static str,
    /// What was seen, in a few words.
    pub(super) summary: String,
    pub(super) findings: Vec<Finding>,
    pub(super) unseen: Vec<Unseen>,
}

/// A diagnosis in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Ok,
    /// Nothing is wrong with what was seen, and not all was.
    Unseen,
    Warning,
    Failed,
}

impl Diagnosis {
    /// Nothing is known yet.
    pub(super) fn new(check: &'static str) -> Self {
        Self {
            check,
            summary: String::new(),
            findings: Vec::new(),
            unseen: Vec::new(),
        }
    }

    /// Adds what could not be seen.
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

    /// In a word: the worst finding decides.
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
