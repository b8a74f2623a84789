//! Drives the hollow kubelet: Pods' events in, its writes out, its deadlines kept.

use std::sync::Arc;

use super::call::send;
use crate::{
    apiserver::{Event, EventType, Kind, Stored},
    kubelet::{Kubelet, KubeletOptions, PodChange, PodWrite, node_objects},
    serve::SharedApi,
};

/// Events taken in between two looks at what there is to write.
const EVENTS_AT_ONCE: usize = 128;

/// Keeps the hollow nodes alive, for ever.
pub(super) async fn run(api: Arc<SharedApi>, options: KubeletOptions) {
    for node in node_objects(&options, api.now()) {
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
                    hear(&api, &mut kubelet, event);
                }
                kubelet.handle_timeout(api.now());
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

fn hear(api: &SharedApi, kubelet: &mut Kubelet, event: &Event) {
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
            let _ = kubelet.handle_pod(gone, api.now());
        }
    }
}

fn applied(api: &SharedApi, kubelet: &mut Kubelet, pod: &Stored) {
    if let Err(error) = kubelet.handle_pod(PodChange::Applied(pod.bytes()), api.now()) {
        tracing::warn!(%error, "hollow kubelet passes over a Pod");
    }
}

fn write(api: &SharedApi, kubelet: &mut Kubelet) {
    while let Some(write) = kubelet.poll_write() {
        let code = perform(api, &write);
        kubelet.handle_answer(&write, code, api.now());
    }
}

fn perform(api: &SharedApi, write: &PodWrite) -> u16 {
    let request = write.request();
    send(
        api,
        request.method,
        &request.path,
        request.content_type,
        &request.body,
    )
}
