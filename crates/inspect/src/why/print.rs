//! Formats the reasons as sentences, and as a JSON object.
//!
//! Must not: judge, or print anything itself.

use serde::Serialize;

use crate::{ask::Unseen, one_job::JobSight, words::harmless};

use super::reason::Reason;

#[derive(Serialize)]
struct WhyJson<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: String,
    /// The cause of the first reason.
    cause: &'a str,
    reasons: &'a [Reason],
    unseen: &'a [Unseen],
}

/// The cause of a reason that is printed beside another one.
const ALWAYS_TOLD: &str = "deadline-soon";

/// Formats the text: at most three sentences, and the objects that could not be read.
pub(super) fn text(sight: &JobSight, reasons: &[Reason], unseen: &[Unseen]) -> String {
    let mut lines = vec![format!("{}: {}", sight.job.job.key, sentences(reasons))];
    lines.extend(unseen.iter().map(|unseen| format!("not seen: {unseen}")));
    harmless(&lines.join("\n"))
}

/// Formats at most three sentences.
pub(super) fn sentences(reasons: &[Reason]) -> String {
    let mut words = Vec::new();
    for (at, reason) in reasons.iter().enumerate() {
        if at == 0 {
            words.push(reason.what.as_str());
            words.push(reason.remedy.as_str());
        } else if reason.cause == ALWAYS_TOLD {
            words.push(reason.what.as_str());
        }
    }
    words.retain(|words| !words.is_empty());
    words.join(" ")
}

/// Builds the JSON object.
pub(super) fn object<'a>(
    sight: &'a JobSight,
    reasons: &'a [Reason],
    unseen: &'a [Unseen],
) -> impl Serialize + 'a {
    let job = &sight.job.job;
    WhyJson {
        namespace: &job.key.namespace,
        name: &job.key.name,
        uid: job.uid.to_string(),
        cause: reasons.first().map_or("", |reason| reason.cause),
        reasons,
        unseen,
    }
}
