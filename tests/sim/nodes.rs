//! Runs hollow nodes and the Pod collector in a simulation, with the embedded cluster's own state machines.
//!
//! They see the server's state without delay: in a simulation only controllers get late events.
//!
//! Must not: know any controller.

use std::time::Duration;

use lakh::{
    embedded::{
        apiserver::{EventType, Kind, Request, Stored},
        kubelet::{Kubelet, KubeletOptions, PodWrite, node_objects},
        podgc::{NodeFacts, Phase, PodFacts, PodGc},
    },
    model::{Monotonic, Now, Uid},
};

use super::{
    replica::date,
    server::{Answer, Change, Server},
};

/// Ended Pods that may stay: few, so that the collector deletes some.
const ENDED_PODS: i32 = 25;

/// Number of hollow nodes.
pub(crate) const NODES: u64 = 2;

/// The hollow nodes' kubelets and the Pod collector.
#[derive(Debug)]
pub(crate) struct Nodes {
    kubelet: Kubelet,
    options: KubeletOptions,
    gc: PodGc,
}

impl Nodes {
    /// Makes nodes. Their containers run for the default duration unless an annotation sets another, and
    /// `fail_permille` thousandths of the runs fail.
    pub(crate) fn new(seed: u64, fail_permille: u64, server: &mut Server) -> Self {
        let options = KubeletOptions {
            default_duration: Duration::from_millis(700),
            startup_latency: Duration::from_millis(20),
            stop_delay: Duration::from_millis(300),
            fail_rate: fail_permille as f64 / 1000.0,
            seed,
            ..KubeletOptions::with_nodes(NODES as usize)
        };
        let nodes = Self {
            kubelet: Kubelet::new(options.clone()),
            gc: PodGc::new(ENDED_PODS, Monotonic::from_millis(0)),
            options,
        };
        (0..NODES).for_each(|node| nodes.add_node(node, 0, server));
        nodes
    }

    /// Adds a node to the cluster unless it exists.
    pub(crate) fn add_node(&self, number: u64, at: u64, server: &mut Server) {
        let objects = node_objects(&self.options, date(at));
        let body = objects[number as usize].to_string();
        let request = Request {
            method: "POST",
            path: "/api/v1/nodes",
            content_type: "application/json",
            body: body.as_bytes(),
            ..Request::default()
        };
        let _ = server.handle(request, 0, date(at));
    }

    /// Starts again from the server's state, as in a new cluster.
    pub(crate) fn restart(&mut self, at: u64, server: &Server) {
        self.kubelet = Kubelet::new(self.options.clone());
        self.gc.forget_pods();
        self.gc.forget_nodes();
        for kind in [Kind::Node, Kind::Pod] {
            let objects: Vec<_> = server.api.objects(kind).cloned().collect();
            for object in objects {
                self.applied(&object, at);
            }
        }
    }

    pub(crate) fn hear(&mut self, change: &Change, at: u64) {
        let object = &change.new;
        match (change.what, object.kind) {
            (EventType::Deleted, Kind::Node) => {
                self.kubelet.handle_node(&object.name, false);
                self.gc.handle_node_gone(&object.name);
            }
            (EventType::Deleted, Kind::Pod) => {
                self.kubelet.handle_pod_gone(&object.uid);
                if let Some(uid) = Uid::parse(&object.uid) {
                    self.gc.handle_pod_gone(uid);
                }
            }
            _ => self.applied(object, at),
        }
    }

    fn applied(&mut self, object: &Stored, at: u64) {
        match object.kind {
            Kind::Node => {
                self.kubelet.handle_node(&object.name, true);
                self.gc.handle_node(NodeFacts {
                    name: object.name.clone(),
                    ready: true,
                    out_of_service: false,
                });
            }
            Kind::Pod => {
                // Half of all Pod events come after the Pod's end and need no parsing.
                let is_all = object.has_ended() && object.deletion.is_none();
                if !(is_all && self.kubelet.handle_end(&object.uid)) {
                    // A node ignores a Pod that it cannot read.
                    let _ = self.kubelet.handle_pod(object.bytes(), date(at));
                }
                if let Some(pod) = pod_facts(object) {
                    self.gc.handle_pod(pod);
                }
            }
            _ => {}
        }
    }

    /// Returns the next write of a kubelet.
    pub(crate) fn poll_write(&mut self, at: u64) -> Option<PodWrite> {
        self.kubelet.handle_timeout(date(at));
        self.kubelet.poll_write()
    }

    /// Sends a kubelet's write.
    pub(crate) fn write(&mut self, write: &PodWrite, at: u64, server: &mut Server) {
        let asked = write.request();
        let request = Request {
            method: asked.method,
            path: &asked.path,
            content_type: asked.content_type,
            body: &asked.body,
            ..Request::default()
        };
        let Answer::Whole(code, _) = server.handle(request, 0, date(at)) else {
            return;
        };
        self.kubelet.handle_answer(write, code, date(at));
    }

    /// Makes the collector's next call. Returns false if it has none.
    pub(crate) fn collect(&mut self, at: u64, server: &mut Server) -> bool {
        let now = Now {
            wall: date(at),
            monotonic: Monotonic::from_millis(at),
        };
        self.gc.handle_timeout(now.monotonic);
        let Some(call) = self.gc.poll_call(now.monotonic) else {
            return false;
        };
        let asked = call.request(now.wall);
        let request = Request {
            method: asked.method,
            path: &asked.path,
            content_type: asked.content_type,
            body: &asked.body,
            ..Request::default()
        };
        if let Answer::Whole(code, _) = server.handle(request, 0, now.wall) {
            self.gc.handle_answer(code);
        }
        true
    }

    /// Returns the next timeouts of kubelets and collector.
    pub(crate) fn timeouts(&self) -> (Option<u64>, Option<u64>) {
        let begin = date(0);
        let kubelet = self.kubelet.poll_timeout().map(|due| due.since(begin));
        let collector = self.gc.poll_timeout().map(Monotonic::since_start);
        let millis = |after: Duration| u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        (kubelet.map(millis), collector.map(millis))
    }
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
        evicted: false,
        deleting: pod.deletion.is_some(),
    })
}
