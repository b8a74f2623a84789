//! Runs the decisions about finished Jobs with a TTL against cases as text.
//!
//! A row of `tests/golden/ttl.rows` has the rules (docs/rules/ttl-and-garbage.md) that it tests, the words of the case,
//! and the outcome. `~` separates looks at the Job; each describes the cached Job anew. After a `/` comes the Job on
//! the server, where it differs. `news` is not a look: it asks whether an event of this Job needs a turn. Times are in
//! seconds. `UPDATE_GOLDEN=1` rewrites the last column; read the diff. `rows.rs` checks that no rule is left out.

use std::{fmt::Write as _, time::Duration};

use lakh::{
    model::{Condition, ConditionKind, Job, JobKey, JobSpec, JobStatus, Time, Uid},
    ttl::{Step, concerns},
};

use crate::common::rows;

const ROWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/ttl.rows");

/// The start of the cases' clocks.
const ZERO: i64 = 1_000_000;

fn at(text: &str) -> Time {
    let secs: f64 = text.parse().unwrap_or_else(|_| panic!("{text}: seconds"));
    Time::from_millis(ZERO * 1000 + (secs * 1000.0) as i64)
}

/// Parses a Job; none if it is gone.
fn job(words: &str) -> Option<Job> {
    let mut job = Job {
        key: JobKey::default(),
        uid: Uid::from_u128(1),
        resource_version: 1,
        generation: 1,
        created: None,
        deleting: false,
        spec: JobSpec::default(),
        status: JobStatus::default(),
    };
    for word in words.split_whitespace() {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let kind = match word {
            "gone" => return None,
            "now" | "news" => continue,
            "ttl" => {
                let secs = value.parse().expect("seconds");
                job.spec.ttl_after_finished = Some(Duration::from_secs(secs));
                continue;
            }
            "deleting" => {
                job.deleting = true;
                continue;
            }
            "suspend" => {
                job.spec.suspend = true;
                continue;
            }
            "managed" => {
                job.spec.managed_by = Some("example.com/other".into());
                continue;
            }
            "Complete" => ConditionKind::Complete,
            "Failed" => ConditionKind::Failed,
            "Suspended" => ConditionKind::Suspended,
            "SuccessCriteriaMet" => ConditionKind::SuccessCriteriaMet,
            "FailureTarget" => ConditionKind::FailureTarget,
            _ => panic!("{word}"),
        };
        let mut condition = Condition::new_true(kind, "", "", at("0"));
        condition.last_transition = (value != "?").then(|| at(value));
        job.status.conditions.push(condition);
    }
    Some(job)
}

/// The outcome of a look, which ends with the next step.
fn look(words: &str) -> String {
    let (known, fresh) = words.split_once('/').unwrap_or((words, words));
    let now = known
        .split_whitespace()
        .find_map(|word| word.strip_prefix("now="));
    let now = at(now.unwrap_or("0"));
    let known = job(known);
    if words.contains("news") {
        let concerns = known.as_ref().is_some_and(concerns);
        return if concerns { "a turn" } else { "no turn" }.to_owned();
    }
    let mut said = String::new();
    let mut step = Step::after_look(known.as_ref(), now);
    if step == Step::GetFresh {
        said.push_str("get; ");
        step = Step::after_answer(job(fresh).as_ref(), now);
    }
    let secs = |time: Time| time.as_secs() - ZERO;
    let _ = match step {
        Step::Leave => write!(said, "leave"),
        Step::LookAt(at) => write!(said, "look at {}", secs(at)),
        Step::GetFresh => write!(said, "get"),
        Step::Delete { expired } => write!(said, "delete, expired {}", secs(expired)),
        Step::Retry => write!(said, "retry"),
    };
    said
}

#[test]
fn each_row_of_the_rules() {
    rows::check(ROWS, |words| {
        let said: Vec<String> = words.split(" ~ ").map(look).collect();
        said.join(" ~ ")
    });
}
