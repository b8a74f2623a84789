//! Tests Events in both of their API groups.

use super::*;

const CORE: &str = "/api/v1/namespaces/default/events";
const V1: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

#[test]
fn both_groups_have_the_same_events() {
    let mut cluster = Cluster::new();
    let about = json!({"kind": "Job", "namespace": "default", "name": "j"});
    let event = json!({
        "metadata": {"name": "a"}, "involvedObject": about, "reason": "R", "message": "text", "type": "Normal",
        "reportingComponent": "c", "count": 2,
    });
    cluster.ok("POST", CORE, &event);
    let seen = cluster.get(&format!("{V1}/a"));
    assert_eq!(seen["apiVersion"], "events.k8s.io/v1");
    assert_eq!(
        (&seen["note"], &seen["regarding"]),
        (&json!("text"), &about)
    );
    assert_eq!(
        (&seen["reportingController"], &seen["deprecatedCount"]),
        (&json!("c"), &json!(2))
    );
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "b"}, "regarding": about,
        "reason": "R", "note": "other", "type": "Normal", "eventTime": "2026-01-02T03:04:05.000006Z",
    });
    let made = cluster.ok("POST", V1, &event);
    assert_eq!(
        (&made["note"], &made["kind"]),
        (&json!("other"), &json!("Event"))
    );
    let patch = json!({"note": "new"});
    cluster.ok("PATCH", &format!("{V1}/b"), &patch);
    assert_eq!(cluster.get(&format!("{CORE}/b"))["message"], "new");
    let list = cluster.get(&format!("{V1}?fieldSelector=regarding.name%3Dj"));
    assert_eq!(list["apiVersion"], "events.k8s.io/v1");
    let notes: Vec<&Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["note"])
        .collect();
    assert_eq!(notes, ["text", "new"]);
    assert_eq!(list["items"][0].get("kind"), None);
}
