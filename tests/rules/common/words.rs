//! Parses the words of golden cases for a Job, its status and its Pods.

use lakh::model::{
    CompletionMode, Condition, ConditionKind, Job, JobKey, JobSpec, JobStatus, PodFlags, PodPhase,
    PodRecord, PodReplacement, RestartPolicy, Time, Uid, Uncounted,
};

use super::{
    policies,
    print::Labels,
    server::{Pod, seconds},
};

/// The start time of every case.
pub(crate) const START: Time = Time::from_secs(1_000_000);

pub(crate) fn set_record(pod: &mut Pod, word: &str) {
    let record = &mut pod.record;
    let (word, value) = word.split_once('=').unwrap_or((word, ""));
    let number = || value.parse::<u32>().expect(word);
    let running = |record: &mut PodRecord| {
        record.phase = PodPhase::Running;
        record.flags.set(PodFlags::ASSIGNED, true);
    };
    match word {
        "Running" => running(record),
        "Unknown" => {
            running(record);
            record.phase = PodPhase::Unknown;
        }
        "T" => {
            running(record);
            record.flags.set(PodFlags::DELETING, true);
        }
        "ready" => {
            record.flags.set(PodFlags::READY, true);
            if record.ready_since == 0 && value.is_empty() {
                record.ready_since = seconds(START) - 30;
            } else if !value.is_empty() {
                record.ready_since = seconds(offset(value));
            }
        }
        "since-unset" => record.ready_since = 0,
        "assigned" => record.flags.set(PodFlags::ASSIGNED, true),
        "deleting" => record.flags.set(PodFlags::DELETING, true),
        "nofin" => record.flags.set(PodFlags::FINALIZER, false),
        "fin" => record.flags.set(PodFlags::FINALIZER, true),
        "restarts" => {
            record.restarts = number();
            record.restarts_max = u16::try_from(number()).expect("few restarts");
        }
        "sidecar" => record.sidecar_restarts_max = u16::try_from(number()).expect("few"),
        "code" | "init" | "cond" | "failures" | "ignored" => {
            policies::set_facts(&mut pod.facts, word, value);
        }
        "created" if value == "unset" => record.created = 0,
        "created" => record.created = seconds(offset(value)),
        other => panic!("pod word {other}"),
    }
}

pub(crate) fn plain_job() -> Job {
    Job {
        key: JobKey {
            namespace: "default".into(),
            name: "job".into(),
        },
        uid: Uid::from_u128(0xabc),
        resource_version: 1,
        generation: 1,
        created: None,
        deleting: false,
        spec: JobSpec {
            completions: None,
            ..JobSpec::default()
        },
        status: JobStatus::default(),
    }
}

pub(crate) fn change_job(job: &mut Job, words: &str) {
    for word in words.split(' ') {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || value.parse::<u32>().expect(word);
        let spec = &mut job.spec;
        match word {
            "p" => spec.parallelism = number(),
            "c" => spec.completions = Some(number()),
            "bl" => spec.backoff_limit = number(),
            "indexed" => spec.mode = CompletionMode::Indexed,
            "othermode" => spec.mode = CompletionMode::Unrecognized,
            "suspend" => spec.suspend = true,
            "resume" => spec.suspend = false,
            "deleting" => job.deleting = true,
            "ads" => spec.active_deadline = Some(std::time::Duration::from_secs(number().into())),
            "policy" if value == "Failed" => spec.pod_replacement = PodReplacement::Failed,
            "restart" if value == "OnFailure" => spec.restart_policy = RestartPolicy::OnFailure,
            other => policies::set_spec(spec, other, value),
        }
    }
}

pub(crate) fn set_status(status: &mut JobStatus, word: &str, labels: &mut Labels) {
    let (word, value) = word.split_once('=').expect("status name=value");
    let number = || value.parse::<u32>().expect(word);
    let mut uids = || value.split(',').map(|label| labels.uid(label)).collect();
    match word {
        "active" => status.active = number(),
        "ready" => status.ready = Some(number()),
        "terminating" => status.terminating = Some(number()),
        "succeeded" => status.succeeded = number(),
        "failed" => status.failed = number(),
        "completed" => status.completed_indexes = value.into(),
        "failed-indexes" => status.failed_indexes = Some(value.into()),
        "start" => status.start_time = Some(offset(value)),
        "uncounted" => status.uncounted = Some(Uncounted::default()),
        "uncounted.succeeded" => {
            status.uncounted.get_or_insert_default().succeeded = uids();
        }
        "uncounted.failed" => status.uncounted.get_or_insert_default().failed = uids(),
        "strange.failed" => {
            status.uncounted.get_or_insert_default().strange_failed = number();
        }
        "strange.succeeded" => {
            status.uncounted.get_or_insert_default().strange_succeeded = number();
        }
        kind => {
            let kind = [
                ConditionKind::Suspended,
                ConditionKind::SuccessCriteriaMet,
                ConditionKind::FailureTarget,
                ConditionKind::Complete,
                ConditionKind::Failed,
            ]
            .into_iter()
            .find(|known| known.as_str() == kind)
            .expect("a field or a condition");
            let mut parts = value.splitn(3, '/');
            let truth = parts.next().expect("True or False");
            let reason = parts.next().unwrap_or("Stored");
            let message = parts.next().unwrap_or("as_stored").replace('_', " ");
            let mut condition = Condition::new_true(kind, reason, &message, offset("-60s"));
            condition.status = truth.into();
            status.conditions.push(condition);
            if kind == ConditionKind::Complete && truth == "True" {
                status.completion_time = Some(offset("-1s"));
            }
        }
    }
}

pub(crate) fn offset(text: &str) -> Time {
    Time::from_millis(START.as_millis() + millis(text))
}

pub(crate) fn millis(text: &str) -> i64 {
    let text = text.strip_suffix('s').expect("seconds end in s");
    let seconds: f64 = text.parse().expect("seconds");
    (seconds * 1000.0).round() as i64
}
