//! Decodes facts about a Pod's failure, only for Pods that failed or may fail.
//!
//! The facts are those that upstream's `matchPodFailurePolicy` evaluates. A running Pod that is not being deleted is
//! included if its status indicates a failure. If this controller deletes it, the deletion may be the only further
//! event before the Pod is evaluated.

use lakh_model::{FailedContainer, FailureFacts, PodFlags, PodPhase, PodRecord};

use super::{
    DISRUPTION_TARGET,
    view::{ContainerStatus, PodView},
};

/// The facts that policies evaluate, if the Pod failed or may have.
pub(super) fn failure(
    pod: &PodView<'_, PodRecord>,
    phase: PodPhase,
    flags: PodFlags,
) -> Option<Box<FailureFacts>> {
    let over = phase == PodPhase::Failed || flags.has(PodFlags::DELETING);
    if phase == PodPhase::Succeeded || !(over || speaks_of_failure(pod)) {
        return None;
    }
    let status = &pod.status;
    let containers = status
        .container_statuses
        .iter()
        .chain(&status.init_container_statuses);
    let conditions = status.conditions.iter();
    Some(Box::new(FailureFacts {
        containers: containers.filter_map(failed).collect(),
        conditions: conditions
            .map(|found| (found.kind.to_compact(), found.status.to_compact()))
            .collect(),
        counts: pod.metadata.annotations.failure_counts(),
    }))
}

fn speaks_of_failure(pod: &PodView<'_, PodRecord>) -> bool {
    let status = &pod.status;
    let mut conditions = status.conditions.iter();
    conditions.any(|found| found.kind == DISRUPTION_TARGET)
        || status
            .container_statuses
            .iter()
            .any(|found| failed(found).is_some())
}

fn failed(container: &ContainerStatus<'_, PodRecord>) -> Option<FailedContainer> {
    let exit_code = container.state.terminated.as_ref()?.exit_code;
    (exit_code != 0).then(|| FailedContainer {
        name: container.name.to_compact(),
        exit_code,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Object, PodDecoder};
    use lakh_model::{FailureCounts, TRACKING_FINALIZER};

    fn facts(status: &str, meta: &str) -> Option<FailureFacts> {
        let json = format!(
            r#"{{"metadata":{{"name":"j-0-bcdfg","uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
            "resourceVersion":"7"{meta}}},"status":{status}}}"#
        );
        let decoder = PodDecoder {
            finalizer: TRACKING_FINALIZER,
        };
        let pod = decoder.decode(Object::Json(&json)).expect("a good Pod");
        pod.record.failure.map(|facts| *facts)
    }

    #[test]
    fn containers_come_in_their_order_and_init_containers_last() {
        let ended = |name, code| {
            format!(r#"{{"name":"{name}","state":{{"terminated":{{"exitCode":{code}}}}}}}"#)
        };
        let status = format!(
            r#"{{"phase":"Failed","initContainerStatuses":[{}],"containerStatuses":[{},{},
            {{"name":"c","lastState":{{"terminated":{{"exitCode":9}}}},"state":{{"running":{{}}}}}},{}]}}"#,
            ended("init", 5),
            ended("a", -1_073_741_510),
            ended("b", 0),
            ended("d", 143)
        );
        let facts = facts(&status, "").expect("it failed");
        let found: Vec<(&str, i32)> = facts
            .containers
            .iter()
            .map(|one| (one.name.as_str(), one.exit_code))
            .collect();
        assert_eq!(found, [("a", -1_073_741_510), ("d", 143), ("init", 5)]);
    }

    #[test]
    fn only_pods_that_failed_or_may_have_facts() {
        let deleted = r#","deletionTimestamp":"1970-01-01T00:00:50Z""#;
        assert_eq!(facts(r#"{"phase":"Running"}"#, ""), None);
        assert_eq!(facts(r#"{"phase":"Succeeded"}"#, deleted), None);
        assert!(facts(r#"{"phase":"Running"}"#, deleted).is_some());
        assert!(facts(r#"{"phase":"Failed"}"#, "").is_some());
        let disrupted = r#"{"phase":"Running","conditions":[
            {"type":"DisruptionTarget","status":"True","lastTransitionTime":null}]}"#;
        let facts = facts(disrupted, "").expect("it may fail");
        assert_eq!(
            facts.conditions,
            [("DisruptionTarget".into(), "True".into())]
        );
    }

    #[test]
    fn counts_that_are_none_are_zero() {
        for (text, expect) in [
            ("3", 3),
            ("xyz", 0),
            ("-1", 0),
            ("2147483647", 2_147_483_647),
            ("2147483648", 0),
            ("", 0),
        ] {
            let meta = format!(
                r#","annotations":{{"batch.kubernetes.io/job-index-failure-count":"{text}",
                "batch.kubernetes.io/job-index-ignored-failure-count":"1"}}"#
            );
            let counts = facts(r#"{"phase":"Failed"}"#, &meta).map(|facts| facts.counts);
            let expect = FailureCounts {
                counted: expect,
                ignored: 1,
            };
            assert_eq!(counts, Some(expect), "{text}");
        }
    }
}
