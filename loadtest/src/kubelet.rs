//! Runs hollow nodes on any cluster: drives the hollow kubelet over HTTP.
//!
//! It registers the nodes, follows the Pods of all namespaces, and sends the kubelet's writes, many at once. A missed
//! deletion of a Pod shows at the next write to it. A signal ends the process: the kubelet keeps no state that its
//! successor would not find in the cluster, nodes included.
//!
//! Must not: hold rules of Pod lifecycles (`lakh::embedded::kubelet`). There are no heartbeats, so the cluster must not
//! have a node lifecycle controller: it would evict the Pods of silent nodes.

use std::{error::Error, path::PathBuf, time::Duration};

use lakh::{
    client::{self, Client, Patch},
    clock::Clock,
    embedded::{
        kubelet::{Action, Kubelet, KubeletOptions, NodeCapacity, PodWrite, node_objects},
        manifest,
    },
    model::Time,
    wire::{ApiError, ErrorKind, paths},
};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    follow::{Followed, News, follow},
    scenario::duration,
};

const NODES: &str = "/api/v1/nodes";
/// Field selector for bound Pods.
const BOUND: &str = "spec.nodeName!%3D";

#[derive(Debug, clap::Args)]
pub(crate) struct KubeletArgs {
    /// Path of the cluster's kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the Pod's own ServiceAccount.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Default: its current context.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Run time of a Pod's containers, unless the Pod has the annotation sim.lakh.dev/duration.
    #[arg(long, value_name = "D", default_value = "1s", value_parser = duration)]
    pod_duration: Duration,
    /// Time that a Pod takes to start. If it then runs for 0s, only its end is written, in one write.
    #[arg(long, value_name = "D", default_value = "0s", value_parser = duration)]
    startup_latency: Duration,
    /// Stage file, which defines the course of Pods by name, index and probability (docs/stages.md); may be given more
    /// than once.
    #[arg(long, value_name = "FILE")]
    stages: Vec<PathBuf>,
    /// Seed of the random numbers for stages.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of nodes.
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: usize,
    /// Capacity of each node, as in cpu=8,memory=32Gi,pods=110. Pods that do not fit stay pending, or are rejected if
    /// another scheduler binds them (docs/embedded-cluster.md). Default: unlimited.
    #[arg(long, value_name = "RESOURCE=QUANTITY,...")]
    node_capacity: Option<NodeCapacity>,
    /// Leave scheduling to the cluster's scheduler.
    #[arg(long)]
    no_scheduling: bool,
    /// Maximum number of writes in flight.
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_in_flight: usize,
}

/// Runs the hollow nodes; returns only on an error.
pub(crate) async fn run(args: KubeletArgs) -> Result<(), Box<dyn Error>> {
    let client = client::connect(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let options = KubeletOptions {
        default_duration: args.pod_duration,
        startup_latency: args.startup_latency,
        stages: manifest::load_stages(&args.stages)?.into(),
        capacity: args.node_capacity,
        seed: args.seed,
        ..KubeletOptions::with_nodes(args.nodes)
    };
    let clock = Clock::default();
    register(&client, &options, clock.now().wall).await?;
    // The channel is bounded: a server that is faster than this kubelet has to wait.
    let (sender, mut news) = mpsc::channel(16);
    let pods = Followed {
        path: paths::pods(None),
        fields: if args.no_scheduling { BOUND } else { "" },
    };
    tokio::spawn(follow(client.clone(), pods, sender));

    let mut kubelet = Kubelet::new(options);
    let mut in_flight = JoinSet::new();
    loop {
        kubelet.handle_timeout(clock.now().wall);
        while in_flight.len() < args.max_in_flight
            && let Some(write) = kubelet.poll_write()
        {
            in_flight.spawn(perform(client.clone(), write));
        }
        tokio::select! {
            Some(news) = news.recv() => {
                for news in news {
                    apply_news(&mut kubelet, &news, clock.now().wall);
                }
            }
            Some(answered) = in_flight.join_next() => {
                let (write, code) = answered?;
                kubelet.handle_answer(&write, code, clock.now().wall);
            }
            () = clock.sleep_until(kubelet.poll_timeout()) => {}
        }
    }
}

/// Creates missing nodes, and updates the capacity of existing ones.
async fn register(client: &Client, options: &KubeletOptions, now: Time) -> Result<(), ApiError> {
    for node in node_objects(options, now) {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{NODES}/{name}");
        match client.create(NODES, node.to_string().into_bytes()).await {
            Ok(_) => {
                // A server taints new nodes until a node lifecycle controller has seen them ready.
                let untainted = json!({"spec": {"taints": null}}).to_string();
                client.patch(&path, Patch::Merge, untainted).await?;
            }
            Err(error) if error.kind == ErrorKind::AlreadyExists => {
                let room = resized(&node).to_string();
                let status = format!("{path}/status");
                client.patch(&status, Patch::Strategic, room).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns a patch that gives a node exactly this node's capacity.
fn resized(node: &Value) -> Value {
    let mut room = node["status"]["capacity"].clone();
    room["$patch"] = "replace".into();
    json!({"status": {"capacity": room, "allocatable": room}})
}

fn apply_news(kubelet: &mut Kubelet, news: &News, now: Time) {
    match news {
        News::Applied(pod) => {
            if let Err(error) = kubelet.handle_pod(pod.as_bytes(), now) {
                eprintln!("skipped a Pod that cannot be decoded: {error}");
            }
        }
        News::Deleted(pod) => {
            let pod: Value = serde_json::from_str(pod).unwrap_or_default();
            kubelet.handle_pod_gone(pod["metadata"]["uid"].as_str().unwrap_or_default());
        }
    }
}

/// Sends a write; returns the status code of the response, 0 if there was none.
async fn perform(client: Client, write: PodWrite) -> (PodWrite, u16) {
    let request = write.request();
    let (path, body) = (&request.path, request.body);
    let result = match &write.action {
        Action::Bind { .. } | Action::Evict | Action::Event(_) => client.create(path, body).await,
        Action::Status(_) => client.patch(path, Patch::Strategic, body).await,
        Action::Remove | Action::Delete => client.delete_with(path, body).await,
    };
    let code = result.map_or_else(|error| error.code, |_| 200);
    (write, code)
}
