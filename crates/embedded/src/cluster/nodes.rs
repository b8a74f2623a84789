//! Drives the hollow kubelet: passes Pod events in, sends its writes and wakes it at its deadlines.

use std::{iter, sync::Arc};

use super::call::{request, send};
use crate::{
    apiserver::{Event, EventType, Kind},
    kubelet::{Kubelet, KubeletOptions, PodWrite, node_objects},
    request::{ApiRequest, JSON},
    serve::{LogReader, SharedApi},
};

/// Events read between two checks for pending writes.
const EVENTS_AT_ONCE: usize = 128;

/// Writes sent under one lock. Client requests wait that long. Taking turns with them after each write costs more than
/// the write itself, because threads then block and wake each other.
const WRITES_AT_ONCE: usize = 32;

/// Runs the hollow nodes; never returns while the server exists.
pub(super) async fn run(api: Arc<SharedApi>, options: KubeletOptions) {
    for node in node_objects(&options, api.now().wall) {
        let creation = ApiRequest {
            method: "POST",
            path: "/api/v1/nodes".to_owned(),
            content_type: JSON,
            body: node.to_string().into_bytes(),
        };
        send(&api, &creation);
    }
    let names = options.node_names.clone();
    let mut kubelet = Kubelet::new(options);
    let mut nodes = api.changes(Kind::Node);
    nodes.mark_changed();
    let mut pods = LogReader::new(&api, Kind::Pod);
    loop {
        if nodes.has_changed().unwrap_or_default() {
            nodes.mark_unchanged();
            look_for_nodes(&api, &mut kubelet, &names);
        }
        let news = pods.read(EVENTS_AT_ONCE);
        let is_idle = news.is_none();
        for event in news.iter().flat_map(|news| &news.events) {
            apply_event(&api, &mut kubelet, event);
        }
        kubelet.handle_timeout(api.now().wall);
        write(&api, &mut kubelet);
        if !is_idle {
            tokio::task::yield_now().await;
            continue;
        }
        let due = kubelet.poll_timeout();
        tokio::select! {
            changed = pods.changed() => if changed.is_err() { return },
            changed = nodes.changed() => {
                if changed.is_err() {
                    return;
                }
                // `changed` marks the value as seen; the next round must see it again.
                nodes.mark_changed();
            }
            () = api.sleep_until(due) => {}
        }
    }
}

/// Reports to the kubelet which hollow nodes exist. They are few and hardly ever change.
fn look_for_nodes(api: &SharedApi, kubelet: &mut Kubelet, names: &[String]) {
    for name in names {
        kubelet.handle_node(name, api.get(Kind::Node, "", name).is_some());
    }
}

fn apply_event(api: &SharedApi, kubelet: &mut Kubelet, event: &Event) {
    let pod = &event.object;
    if event.event_type == EventType::Deleted {
        return kubelet.handle_pod_gone(&pod.uid);
    }
    // Half of all events are of ended Pods, which need not be decoded.
    if pod.has_ended() && pod.deletion.is_none() && kubelet.handle_end(&pod.uid) {
        return;
    }
    if let Err(error) = kubelet.handle_pod(pod.bytes(), api.now().wall) {
        tracing::warn!(%error, "the hollow kubelet skipped a Pod that it cannot decode");
    }
}

fn write(api: &SharedApi, kubelet: &mut Kubelet) {
    loop {
        // The kubelet has at most one write in flight per Pod.
        let writes: Vec<PodWrite> = iter::from_fn(|| kubelet.poll_write())
            .take(WRITES_AT_ONCE)
            .collect();
        if writes.is_empty() {
            return;
        }
        let requests: Vec<ApiRequest> = writes.iter().map(PodWrite::request).collect();
        let replies = api.handle_all(requests.iter().map(request));
        for (write, reply) in writes.iter().zip(&replies) {
            kubelet.handle_answer(write, reply.code(), api.now().wall);
        }
    }
}
