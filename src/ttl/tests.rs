//! The rules' rows as cases in text, one step a line.

use std::time::Duration;

use super::*;
use crate::model::{Condition, JobKey, JobSpec, JobStatus, Uid};

/// Where the cases' clocks begin.
const NOW: Time = Time::from_secs(1_000_000);

/// A Job of words: `ttl=10 finished=-5 Failed deleting`.
fn job(words: &str) -> Option<Job> {
    if words == "gone" {
        return None;
    }
    let mut job = Job {
        key: JobKey::default(),
        uid: Uid::from_u128(1),
        resource_version: 1,
        generation: 1,
        deleting: false,
        spec: JobSpec::default(),
        status: JobStatus::default(),
    };
    let condition = |kind: ConditionKind, at: Option<Time>| Condition {
        last_transition: at,
        ..Condition::new_true(kind, "", "", NOW)
    };
    let at = |text: &str| Time::from_secs(NOW.as_secs() + text.parse::<i64>().expect("seconds"));
    let mut kind = ConditionKind::Complete;
    for word in words.split_whitespace() {
        match word.split_once('=') {
            Some(("ttl", secs)) => {
                let secs = secs.parse().expect("seconds");
                job.spec.ttl_after_finished = Some(Duration::from_secs(secs));
            }
            Some(("finished", "zero")) => job.status.conditions.push(condition(kind, None)),
            Some(("finished", when)) => {
                job.status.conditions.push(condition(kind, Some(at(when))));
            }
            None if word == "deleting" => job.deleting = true,
            None if word == "suspended" => {
                job.spec.suspend = true;
                job.status
                    .conditions
                    .push(condition(ConditionKind::Suspended, Some(NOW)));
            }
            None if word == "Failed" => kind = ConditionKind::Failed,
            None if word == "SuccessCriteriaMet" => kind = ConditionKind::SuccessCriteriaMet,
            None if word == "FailureTarget" => kind = ConditionKind::FailureTarget,
            None if word == "managed" => job.spec.managed_by = Some("example.com/other".into()),
            _ => panic!("{word}"),
        }
    }
    Some(job)
}

fn say(step: Step) -> String {
    let secs = |time: Time| time.as_secs() - NOW.as_secs();
    match step {
        Step::Leave => "leave".to_owned(),
        Step::LookAt(at) => format!("look at {}", secs(at)),
        Step::GetFresh => "get".to_owned(),
        Step::Delete { expired } => format!("delete, expired {}", secs(expired)),
        Step::Retry => "retry".to_owned(),
    }
}

#[test]
fn each_row_of_the_rules() {
    let mut rows = 0;
    for line in include_str!("tests/rows.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [row, now, seen, words, want] = columns[..] else {
            panic!("{line}");
        };
        let now = Time::from_secs(NOW.as_secs() + now.parse::<i64>().expect("seconds"));
        let job = job(words);
        let step = match seen {
            "known" => Step::after_look(job.as_ref(), now),
            "fresh" => Step::after_answer(job.as_ref(), now),
            _ => panic!("{line}"),
        };
        assert_eq!(say(step), want, "{row}: {line}");
        rows += 1;
    }
    assert!(rows > 30, "{rows}");
}

#[test]
fn only_a_finished_job_with_a_ttl_concerns_us() {
    let concerned = |words: &str| concerns(&job(words).expect("a Job"));
    assert!(concerned("ttl=0 finished=0") && concerned("ttl=10 finished=zero"));
    assert!(
        !concerned("finished=0") && !concerned("ttl=1") && !concerned("ttl=1 finished=0 deleting")
    );
}
