//! Tests the decoding of a Pod from JSON.

use super::*;
use lakh_model::TRACKING_FINALIZER;

fn decode(status: &str, meta: &str) -> DecodedPod<'static> {
    let json = format!(
        r#"{{"metadata":{{"name":"train-7-bcdfg","namespace":"ml","creationTimestamp":"1970-01-01T00:00:01Z",
        "uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9","resourceVersion":"7"{meta}}},
        "spec":{{"initContainers":[{{"name":"side","restartPolicy":"Always"}},{{"name":"init"}}]}},
        "status":{status}}}"#
    );
    PodDecoder {
        finalizer: TRACKING_FINALIZER,
    }
    .decode(Object::Json(&json))
    .expect("a good Pod")
    .into_owned()
}

#[test]
fn a_line_is_read_as_its_object_is() {
    let decoder = PodDecoder {
        finalizer: TRACKING_FINALIZER,
    };
    let pod =
        r#"{"metadata":{"uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9","resourceVersion":"7"}}"#;
    let record = decoder
        .decode(Object::Json(pod))
        .expect("a good Pod")
        .record;
    let line = |line: String| decoder.decode_line(line.leak().as_bytes());
    for line in [
        line(format!(r#"{{"type":"ADDED","object":{pod}}}"#)),
        line(format!(
            r#"{{"object": {pod}, "more": [], "type":"MODIFIED"}} "#
        )),
    ] {
        assert!(matches!(line, Some(PodEvent::Applied(pod)) if pod.record == record));
    }
    let deleted = line(format!(r#"{{"type":"DELETED","object":{pod}}}"#));
    assert!(matches!(deleted, Some(PodEvent::Deleted(pod)) if pod.record == record));
    let status = r#"{"kind":"Status","metadata":{},"status":"Failure","code":410}"#;
    for other in [
        format!(r#"{{"type":"BOOKMARK","object":{pod}}}"#),
        format!(r#"{{"type":"ERROR","object":{status}}}"#),
        format!(r#"{{"type":"ADDED","object":{status}}}"#),
        format!(r#"{{"type":"ADDED","object":{pod}"#),
    ] {
        assert!(line(other.clone()).is_none(), "{other}");
    }
}

#[test]
fn owner_index_and_flags() {
    let pod = decode(
        r#"{"phase":"Running","conditions":[{"type":"Ready","status":"True",
            "lastTransitionTime":"1970-01-01T00:00:09Z"}]}"#,
        r#","finalizers":["x","batch.kubernetes.io/job-tracking"],
           "annotations":{"batch.kubernetes.io/job-completion-index":"7","other":"x"},
           "ownerReferences":[{"kind":"Thing","uid":"u"},{"apiVersion":"batch/v1","kind":"Job",
           "name":"train","uid":"00000000-0000-0000-0000-000000000001","controller":true}]"#,
    );
    assert_eq!(
        pod.controller,
        Controller::Job(JobId {
            uid: Uid::from_u128(1),
            key: JobKey {
                namespace: "ml".into(),
                name: "train".into()
            },
        })
    );
    let record = pod.record;
    assert_eq!(record.index.map(CompactIndex::get), Some(7));
    assert_eq!(record.name.tail(), "-7-bcdfg");
    assert!(record.has(PodFlags::FINALIZER) && record.is_ready());
    assert_eq!(
        (record.created, record.ready_since, record.finished),
        (1, 9, 0)
    );
}

#[test]
fn indexes_that_are_none() {
    for text in ["", "x", "-1", "4294967296", "2147483648", "1.0"] {
        let meta =
            format!(r#","annotations":{{"batch.kubernetes.io/job-completion-index":"{text}"}}"#);
        assert_eq!(decode("{}", &meta).record.index, None, "{text}");
    }
}

#[test]
fn a_job_of_another_group_is_no_job() {
    let owner = r#","ownerReferences":[{"apiVersion":"acme.io/v1","kind":"Job","name":"j",
        "uid":"00000000-0000-0000-0000-000000000001","controller":true}]"#;
    assert_eq!(decode("{}", owner).controller, Controller::Other);
}

#[test]
fn the_end_is_told_by_the_best_evidence() {
    let ended = |at| {
        format!(
            r#"{{"name":"c","state":{{"terminated":{{"finishedAt":"1970-01-01T00:00:{at}Z"}}}}}}"#
        )
    };
    let side = |state| format!(r#"{{"name":"side","restartCount":2,"state":{state}}}"#);
    let end = |status: &str, meta| decode(status, meta).record.finished;
    for (first, second) in [(20, 30), (30, 20)] {
        let two = format!(
            r#"{{"phase":"Failed","containerStatuses":[{},{}]}}"#,
            ended(first),
            ended(second)
        );
        assert_eq!(end(&two, ""), 30, "whichever is listed first");
    }
    let running_sidecar = format!(
        r#"{{"phase":"Failed","containerStatuses":[{}],"initContainerStatuses":[{}],
        "conditions":[{{"type":"Ready","status":"False","lastTransitionTime":"1970-01-01T00:00:40Z"}}]}}"#,
        ended(20),
        side("{}")
    );
    assert_eq!(end(&running_sidecar, ""), 40);
    let later_sidecar = format!(
        r#"{{"phase":"Failed","containerStatuses":[{}],"initContainerStatuses":[{}]}}"#,
        ended(20),
        side(r#"{"terminated":{"finishedAt":"1970-01-01T00:00:25Z"}}"#)
    );
    assert_eq!(end(&later_sidecar, ""), 25);
    let deleted = r#","deletionTimestamp":"1970-01-01T00:00:50Z","deletionGracePeriodSeconds":30"#;
    assert_eq!(end(r#"{"phase":"Running"}"#, deleted), 20);
    assert_eq!(end(r#"{"phase":"Failed"}"#, ""), 1);
}

#[test]
fn restarts_are_summed_and_ranked_apart() {
    let record = decode(
        r#"{"phase":"Running","containerStatuses":[{"name":"a","restartCount":3},{"name":"b","restartCount":1}],
           "initContainerStatuses":[{"name":"side","restartCount":5},{"name":"init","restartCount":7}]}"#,
        "",
    )
    .record;
    assert_eq!(
        (
            record.restarts,
            record.restarts_max,
            record.sidecar_restarts_max
        ),
        (16, 3, 5)
    );
}

#[test]
fn a_restart_count_below_0_is_none() {
    let record = decode(
        r#"{"phase":"Running","containerStatuses":[{"name":"a","restartCount":-7},{"name":"b","restartCount":2}]}"#,
        "",
    )
    .record;
    assert_eq!((record.restarts, record.restarts_max), (2, 2));
}
