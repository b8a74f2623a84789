//! Describes how a Pod ended, for users. No decision needs it, so it is kept only for Jobs that request it.
//!
//! A client with access to a Pod's status may write any text there. The text ends up in tables, Events, metrics and
//! spreadsheets, so it is cut and restricted to safe characters.
//!
//! Must not: grow with the size of the Pod's texts.

use compact_str::CompactString;

use super::{PodPhase, PodRecord};

/// Characters of a reason that are kept; Kubernetes' own reasons have fewer than 30.
const REASON_MAX: usize = 64;

/// Characters of a node's name that are kept: the maximum length of an object's name.
const NODE_MAX: usize = 253;

/// The condition that marks a Pod as disrupted, not failed on its own.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// The end of one Pod: cause, node and start time. Its texts are bounded and safe to print.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodEnd {
    /// The cause of the failure, or exit code 0.
    pub cause: EndCause,
    /// The Pod's node; empty if none, or if unknown.
    pub node: CompactString,
    /// When the kubelet started the Pod, else when the Pod was created, in seconds since the epoch. 0 if unknown.
    pub started: u32,
}

/// The cause of a Pod's failure, used to group failed Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndCause {
    /// The exit code of the first container that failed; 0 for a Pod that succeeded.
    pub exit_code: Option<i32>,
    /// The reason given by the kubelet or by the client that ended the Pod. Empty where the exit code suffices.
    pub reason: CompactString,
}

impl EndCause {
    /// Creates a cause from an untrusted reason.
    pub fn new(exit_code: Option<i32>, reason: &str) -> Self {
        Self {
            exit_code,
            reason: harmless(reason, REASON_MAX),
        }
    }
}

impl PodEnd {
    /// Creates an end from an untrusted node name.
    pub fn new(cause: EndCause, node: &str, started: u32) -> Self {
        Self {
            cause,
            node: harmless(node, NODE_MAX),
            started,
        }
    }

    /// Derives the end from the Pod's record alone: no node, and no reason but a disruption.
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

/// Replaces characters that have a meaning to a table, a shell or a spreadsheet.
fn harmless(word: &str, most: usize) -> CompactString {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '/');
    let letters = word.chars().take(most);
    let kept: CompactString = letters.map(|c| if is_kept(c) { c } else { '_' }).collect();
    // A spreadsheet parses a cell that begins with a sign as a formula.
    kept.trim_start_matches(|c: char| !c.is_ascii_alphanumeric())
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FailedContainer, FailureFacts};

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
    fn a_record_has_the_exit_code_of_the_first_failed_container() {
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
