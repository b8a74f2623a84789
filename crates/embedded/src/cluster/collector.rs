//! Drives the Pod garbage collector: passes events in, sends its calls and wakes it for each pass.
//!
//! Responsible for: extracting the facts about Pods and nodes that the collector needs. Must not: decide which Pods go.
//!
//! Between two passes it still reads events every second. The server's log holds fewer events than may occur between
//! passes, and a reader that falls behind must list all Pods again.

use std::{borrow::Cow, sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Value;

use super::{call::send, metrics::CollectorMetrics};
use crate::{
    apiserver::{EventType, Kind, Stored},
    json::read_json,
    model::Uid,
    podgc::{Call, NodeFacts, Phase, PodFacts, PodGc},
    serve::{LogReader, SharedApi},
};

/// Events read, or calls made, before the task yields.
const AT_ONCE: usize = 128;

/// Interval between reads of the event log. The log holds many times as many events.
const KEEP_UP: Duration = Duration::from_secs(1);

/// Key of the taint that marks a node as out of service: it will not come back.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Runs the Pod garbage collector; never returns.
pub(super) async fn run(api: Arc<SharedApi>, terminated_threshold: i32) {
    let mut gc = PodGc::new(terminated_threshold, api.now().monotonic);
    let metrics = CollectorMetrics::default();
    api.with_metrics(|registry| metrics.register(registry));
    let mut pods = LogReader::new(&api, Kind::Pod);
    let mut nodes = LogReader::new(&api, Kind::Node);
    loop {
        let soon = api.now().monotonic + KEEP_UP;
        let due = gc.poll_timeout().map_or(soon, |due| due.min(soon));
        api.sleep_until(due).await;
        // Pods first: a node exists before the Pods that are bound to it.
        catch_up(&mut pods, &mut gc).await;
        catch_up(&mut nodes, &mut gc).await;
        gc.handle_timeout(api.now().monotonic);
        let mut made = 0;
        while let Some(call) = gc.poll_call(api.now().monotonic) {
            let code = make(&api, call);
            metrics.called(call, code);
            gc.handle_answer(code);
            made += 1;
            if made % AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Passes all events up to now to the collector.
async fn catch_up(reader: &mut LogReader, gc: &mut PodGc) {
    while let Some(news) = reader.read(AT_ONCE) {
        if news.is_list {
            match reader.kind() {
                Kind::Node => gc.forget_nodes(),
                _ => gc.forget_pods(),
            }
        }
        for event in &news.events {
            match event.event_type {
                EventType::Added | EventType::Modified => applied(gc, &event.object),
                EventType::Deleted => gone(gc, &event.object),
            }
        }
        tokio::task::yield_now().await;
        // Later events wait for the next read; otherwise this loop might never end.
        if news.events.len() < AT_ONCE {
            return;
        }
    }
}

fn applied(gc: &mut PodGc, object: &Stored) {
    match object.kind {
        Kind::Node => gc.handle_node(node_facts(object)),
        _ => match pod_facts(object) {
            Some(pod) => gc.handle_pod(pod),
            None => {
                tracing::warn!(uid = %object.uid, "the Pod garbage collector skipped a Pod that it cannot decode")
            }
        },
    }
}

fn gone(gc: &mut PodGc, object: &Stored) {
    match object.kind {
        Kind::Node => gc.handle_node_gone(&object.name),
        _ => {
            if let Some(uid) = Uid::parse(&object.uid) {
                gc.handle_pod_gone(uid);
            }
        }
    }
}

fn make(api: &SharedApi, call: &Call) -> u16 {
    let request = call.request(api.now().wall);
    let code = send(api, &request);
    if let Call::Fail { pod, reason } | Call::Delete { pod, reason } = call {
        let (namespace, name) = (&pod.namespace, &pod.name);
        let method = request.method;
        if code < 300 {
            tracing::debug!(%namespace, %name, %reason, method, "collects a Pod");
        } else {
            tracing::warn!(%namespace, %name, %reason, method, code, "the Pod garbage collector could not delete a Pod; will retry");
        }
    }
    code
}

fn pod_facts(pod: &Stored) -> Option<PodFacts> {
    Some(PodFacts {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: Uid::parse(&pod.uid)?,
        node: pod.node.clone(),
        generation: pod.generation,
        created: pod.created,
        phase: Phase::read(&pod.phase),
        evicted: is_evicted(pod),
        deleting: pod.deletion.is_some(),
    })
}

/// Returns true if the Pod was evicted. This is the only fact that needs the Pod's JSON, and only for a Failed Pod.
fn is_evicted(pod: &Stored) -> bool {
    let read = || read_json::<RawPodReason<'_>>(pod.bytes()).ok();
    pod.phase == "Failed"
        && read().is_some_and(|pod| pod.status.reason.as_deref() == Some("Evicted"))
}

fn node_facts(node: &Stored) -> NodeFacts {
    let object = Value::Object(node.tree());
    let items = |pointer: &str| object.pointer(pointer).and_then(Value::as_array);
    let mut conditions = items("/status/conditions").into_iter().flatten();
    let mut taints = items("/spec/taints").into_iter().flatten();
    NodeFacts {
        name: node.name.clone(),
        ready: conditions.any(|it| it["type"] == "Ready" && it["status"] == "True"),
        out_of_service: taints.any(|it| it["key"] == OUT_OF_SERVICE),
    }
}

#[derive(Deserialize)]
struct RawPodReason<'a> {
    #[serde(borrow, default)]
    status: RawPodReasonStatus<'a>,
}

#[derive(Default, Deserialize)]
struct RawPodReasonStatus<'a> {
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
}
