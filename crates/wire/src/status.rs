//! Builds a Job's status as a merge patch.
//!
//! A patch, unlike a PUT, leaves fields that lakh does not know unchanged, and does not send the Job's spec. It names
//! the resourceVersion that it builds on, so that the server returns a conflict after a concurrent write. It names the
//! UID, so that it never changes another Job of the same name.

use serde_json::{Value, json};

use lakh_model::{Condition, JobStatus, Time, Uid, Uncounted};

/// The merge patch that sets a Job's status.
pub fn status_patch(status: &JobStatus, uid: Uid, resource_version: u64) -> Vec<u8> {
    let body = json!({
        "metadata": {"uid": uid.to_string(), "resourceVersion": resource_version.to_string()},
        "status": {
            "active": unless_zero(status.active),
            "ready": status.ready,
            "terminating": status.terminating,
            "succeeded": unless_zero(status.succeeded),
            "failed": unless_zero(status.failed),
            "completedIndexes": Some(&*status.completed_indexes).filter(|text| !text.is_empty()),
            "failedIndexes": status.failed_indexes.as_deref(),
            "uncountedTerminatedPods": status.uncounted.as_ref().map(uncounted),
            "conditions": (!status.conditions.is_empty())
                .then(|| status.conditions.iter().map(condition).collect::<Vec<_>>()),
            "startTime": time(status.start_time),
            "completionTime": time(status.completion_time),
        },
    });
    serde_json::to_vec(&body).expect("a JSON tree always serializes")
}

/// The server omits counters that are zero.
fn unless_zero(count: u32) -> Option<u32> {
    (count > 0).then_some(count)
}

fn time(time: Option<Time>) -> Option<String> {
    time.map(Time::to_rfc3339)
}

fn uncounted(pods: &Uncounted) -> Value {
    let texts = |uids: &[Uid]| {
        (!uids.is_empty()).then(|| uids.iter().map(Uid::to_string).collect::<Vec<_>>())
    };
    json!({"succeeded": texts(&pods.succeeded), "failed": texts(&pods.failed)})
}

fn condition(condition: &Condition) -> Value {
    let mut value = json!({
        "type": condition.kind.as_str(),
        "status": condition.status.as_str(),
        "lastProbeTime": time(condition.last_probe),
        "lastTransitionTime": time(condition.last_transition),
    });
    if !condition.reason.is_empty() {
        value["reason"] = condition.reason.as_str().into();
    }
    if !condition.message.is_empty() {
        value["message"] = condition.message.as_str().into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use lakh_model::ConditionKind;

    #[test]
    fn absent_fields_are_removed() {
        let status = JobStatus {
            ready: Some(0),
            succeeded: 3,
            completed_indexes: "0-2".into(),
            uncounted: Some(Uncounted {
                failed: vec![Uid::from_u128(1)],
                ..Default::default()
            }),
            conditions: vec![Condition::new_true(
                ConditionKind::SuccessCriteriaMet,
                "CompletionsReached",
                "",
                Time::from_secs(60),
            )],
            ..JobStatus::default()
        };
        let patch: Value =
            serde_json::from_slice(&status_patch(&status, Uid::from_u128(2), 9)).expect("JSON");
        assert_eq!(patch["metadata"]["resourceVersion"], "9");
        let status = &patch["status"];
        assert_eq!(status["active"], Value::Null);
        assert_eq!(status["ready"], 0);
        assert_eq!(status["succeeded"], 3);
        assert_eq!(status["startTime"], Value::Null);
        assert_eq!(status["uncountedTerminatedPods"]["succeeded"], Value::Null);
        assert_eq!(
            status["uncountedTerminatedPods"]["failed"][0],
            "00000000-0000-0000-0000-000000000001"
        );
        assert_eq!(
            status["conditions"][0]["lastTransitionTime"],
            "1970-01-01T00:01:00Z"
        );
        assert!(status["conditions"][0].get("message").is_none());
    }
}
