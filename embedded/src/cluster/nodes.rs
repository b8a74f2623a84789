//! Drives the hollow kubelet: Pods' events in, its writes out, its deadlines kept.

use std::{iter, sync::Arc};

use super::call::{request, send};
use crate::{
    apiserver::{Event, EventType, Kind, Stored},
    kubelet::{Kubelet, KubeletOptions, PodChange, PodWrite, WriteRequest, node_objects},
    serve::SharedApi,
};

/// Events taken in between two looks at what there is to write.
const EVENTS_AT_ONCE: usize = 128;

/// Writes made in one go. The clients' calls wait so long, but to take turns with them for each write
/// costs more than the write: threads that put each other to sleep and wake each other.
const WRITES_AT_ONCE: usize = 32;

/// Keeps the hollow nodes alive, for ever.
pub(super) async fn run(api: Arc<SharedApi>, options: KubeletOptions) {
    for node in node_objects(&options, api.now().wall) {
        let body = node.to_string().into_bytes();
        send(&api, "POST", "/api/v1/nodes", "application/json", &body);
    }
    let names = options.node_names.clone();
    let mut kubelet = Kubelet::new(options);
    let mut nodes = api.changes(Kind::Node);
    nodes.mark_changed();
    let mut changes = api.changes(Kind::Pod);
    let mut position = list(&api, &mut kubelet);
    loop {
        if nodes.has_changed().unwrap_or_default() {
            nodes.mark_unchanged();
            look_for_nodes(&api, &mut kubelet, &names);
        }
        changes.borrow_and_update();
        match api.events(Kind::Pod, position, EVENTS_AT_ONCE) {
            None => position = list(&api, &mut kubelet),
            Some(events) => {
                position += events.len() as u64;
                for event in &events {
                    apply_event(&api, &mut kubelet, event);
                }
                kubelet.handle_timeout(api.now().wall);
                write(&api, &mut kubelet);
                if !events.is_empty() {
                    tokio::task::yield_now().await;
                    continue;
                }
            }
        }
        let due = kubelet.poll_timeout().map(|(at, _)| at);
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            changed = nodes.changed() => {
                if changed.is_err() {
                    return;
                }
                // To have waited for it is to have seen it; the next round is to see it, too.
                nodes.mark_changed();
            }
            () = api.sleep_until(due) => {}
        }
    }
}

/// Says which of the hollow nodes there are. They are few, and hardly ever change.
fn look_for_nodes(api: &SharedApi, kubelet: &mut Kubelet, names: &[String]) {
    for name in names {
        kubelet.handle_node(name, api.get(Kind::Node, "", name).is_some());
    }
}

/// Takes in all Pods there are; gives the position from which to go on.
fn list(api: &SharedApi, kubelet: &mut Kubelet) -> u64 {
    let (pods, position) = api.objects(Kind::Pod);
    for pod in pods {
        applied(api, kubelet, &pod);
    }
    position
}

fn apply_event(api: &SharedApi, kubelet: &mut Kubelet, event: &Event) {
    match event.event_type {
        EventType::Added | EventType::Modified => applied(api, kubelet, &event.object),
        EventType::Deleted => {
            let pod = &event.object;
            let (namespace, name, uid) = (&*pod.namespace, &*pod.name, &*pod.uid);
            let gone = PodChange::Deleted {
                namespace,
                name,
                uid,
            };
            // Nothing is read of a Pod that is gone.
            let _ = kubelet.handle_pod(gone, api.now().wall);
        }
    }
}

fn applied(api: &SharedApi, kubelet: &mut Kubelet, pod: &Stored) {
    // Half of all news are of Pods at their end, and need not be read.
    if pod.has_ended() && pod.deletion.is_none() && kubelet.handle_end(&pod.uid) {
        return;
    }
    if let Err(error) = kubelet.handle_pod(PodChange::Applied(pod.bytes()), api.now().wall) {
        tracing::warn!(%error, "hollow kubelet passes over a Pod");
    }
}

fn write(api: &SharedApi, kubelet: &mut Kubelet) {
    loop {
        // Of a Pod there is never more than one.
        let writes: Vec<PodWrite> = iter::from_fn(|| kubelet.poll_write())
            .take(WRITES_AT_ONCE)
            .collect();
        if writes.is_empty() {
            return;
        }
        let requests: Vec<WriteRequest> = writes.iter().map(PodWrite::request).collect();
        let replies = api.handle_all(requests.iter().map(|write| {
            let (path, body) = (&write.path, &write.body);
            request(write.method, path, write.content_type, body)
        }));
        for (write, reply) in writes.iter().zip(&replies) {
            kubelet.handle_answer(write, reply.code(), api.now().wall);
        }
    }
}
