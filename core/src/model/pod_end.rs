//! How a Pod ended, for people: what no decision needs, and is kept only where somebody asks for it.
//!
//! Whoever may write a Pod's status may write anything there. So words are kept short and of harmless letters: they end up
//! in tables, Events, metrics and spreadsheets.
//!
//! Must not: grow with what a Pod says.

use compact_str::CompactString;

use super::{PodPhase, PodRecord};

/// Letters of a reason that are kept; Kubernetes' own have fewer than 30.
const REASON_MAX: usize = 64;

/// Letters of a node's name that are kept: as many as an object's name may have.
const NODE_MAX: usize = 253;

/// The condition by which Kubernetes says that a Pod was not to blame for its end.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodEnd {
    /// What it failed of, or that it did not.
    pub cause: EndCause,
    /// The node that it was given to; empty if none, or if that is not known.
    pub node: CompactString,
    /// When its node took it up, in seconds since the epoch; else when it was made. 0 if neither is known.
    pub started: u32,
}

/// What Pods may fail of, each for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndCause {
    /// Of the first container that failed; 0 of a Pod that succeeded.
    pub exit_code: Option<i32>,
    /// In a word of the kubelet, or of whoever ended the Pod; empty where the code says it all.
    pub reason: CompactString,
}

impl EndCause {
    /// One with a reason as somebody wrote it.
    pub fn new(exit_code: Option<i32>, reason: &str) -> Self {
        Self {
            exit_code,
            reason: harmless(reason, REASON_MAX),
        }
    }
}

impl PodEnd {
    /// One with words as somebody wrote them.
    pub fn new(cause: EndCause, node: &str, started: u32) -> Self {
        Self {
            cause,
            node: harmless(node, NODE_MAX),
            started,
        }
    }

    /// As much as a Pod's record tells by itself: no node, and of reasons only that somebody else ended it.
    pub fn of_record(pod: &PodRecord) -> Self {
        let facts = pod.failure.as_deref();
        let disrupted = facts.is_some_and(|facts| {
            let mut conditions = facts.conditions.iter();
            conditions.any(|(kind, status)| kind == DISRUPTION_TARGET && status == "True")
        });
        let failed = facts.and_then(|facts| Some(facts.containers.first()?.exit_code));
        let exit_code = match pod.phase {
            PodPhase::Succeeded => Some(0),
            _ => failed,
        };
        let reason = if disrupted { DISRUPTION_TARGET } else { "" };
        Self {
            cause: EndCause::new(exit_code, reason),
            node: CompactString::default(),
            started: pod.created,
        }
    }
}

/// A word without letters that mean something to a table, a shell or a spreadsheet.
fn harmless(word: &str, most: usize) -> CompactString {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '/');
    let letters = word.chars().take(most);
    let kept: CompactString = letters.map(|c| if is_kept(c) { c } else { '_' }).collect();
    // A spreadsheet takes what begins with a sign for a formula.
    kept.trim_start_matches(|c: char| !c.is_ascii_alphanumeric())
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FailedContainer, FailureFacts};

    #[test]
    fn words_are_short_and_of_harmless_letters() {
        let reason = |text: &str| EndCause::new(None, text).reason;
        assert_eq!(reason("OOMKilled"), "OOMKilled");
        assert_eq!(reason("=cmd|' /C calc'!A0"), "cmd___/C_calc__A0");
        assert_eq!(reason("a\",\n<b>\u{1b}[31m"), "a____b___31m");
        assert_eq!(reason("-1"), "1");
        assert_eq!(reason(&"é".repeat(1000)), "");
        assert_eq!(reason(&"x".repeat(1000)).len(), REASON_MAX);
        let end = PodEnd::new(EndCause::default(), &"n".repeat(1000), 0);
        assert_eq!(end.node.len(), NODE_MAX);
    }

    #[test]
    fn a_record_tells_the_code_of_the_first_container_that_failed() {
        let failed = |exit_code| FailedContainer {
            name: "main".into(),
            exit_code,
        };
        let pod = PodRecord {
            phase: PodPhase::Failed,
            created: 7,
            failure: Some(Box::new(FailureFacts {
                containers: vec![failed(42), failed(1)],
                conditions: vec![("DisruptionTarget".into(), "True".into())],
                ..FailureFacts::default()
            })),
            ..PodRecord::default()
        };
        let end = PodEnd::of_record(&pod);
        assert_eq!(end.cause, EndCause::new(Some(42), "DisruptionTarget"));
        assert_eq!((end.started, end.node.as_str()), (7, ""));
        let done = PodRecord {
            phase: PodPhase::Succeeded,
            ..PodRecord::default()
        };
        assert_eq!(PodEnd::of_record(&done).cause.exit_code, Some(0));
    }
}
