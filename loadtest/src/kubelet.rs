//! Hollow nodes on any cluster: drives the hollow kubelet over HTTP.
//!
//! Registers the nodes, follows the Pods of all namespaces, and sends what the kubelet says of
//! them, many writes at once. A signal ends the process: the kubelet keeps nothing that the next
//! one would not find in the cluster, nodes included.
//!
//! Must not: hold rules of Pods' lives (`lakh::kubelet`). There are no heartbeats, so this is for
//! clusters without a node lifecycle controller, which would evict the Pods of silent nodes.

use std::{
    error::Error,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use futures::StreamExt as _;
use lakh::{
    cluster::{self, Client, Lines, Patch},
    kubelet::{
        Action, Kubelet, KubeletOptions, PodChange, PodWrite, node_objects, parse_go_duration,
    },
    model::Time,
    wire::{ApiError, ErrorKind, WatchEvent, decode_list_page, decode_watch_line, paths},
};
use serde_json::Value;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{sleep, timeout},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Kubeconfig of the cluster. Default: $KUBECONFIG, ~/.kube/config, or the Pod's own service
    /// account.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use, instead of its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// How long a Pod's containers run, unless the Pod says otherwise (sim.lakh.dev/duration).
    #[arg(long, value_name = "D", default_value = "1s", value_parser = duration)]
    pod_duration: Duration,
    /// How many nodes there shall be.
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: usize,
    /// Writes that may be under way at once.
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_in_flight: usize,
}

/// Objects per page of a list.
const PAGE_SIZE: u32 = 500;

/// How long the server is asked to keep a watch open: each end means a list of everything.
const WATCH_SECONDS: u64 = 3600;

/// A watch that says nothing for so long is dead: there is a bookmark each minute.
const SILENCE: Duration = Duration::from_secs(150);

/// How long to wait after a failed list or watch.
const PAUSE: Duration = Duration::from_secs(1);

/// What is new about a Pod.
enum News {
    /// It is like this.
    Applied(String),
    /// It is gone; this was its last version.
    Deleted(String),
}

/// Keeps the hollow nodes alive, for ever.
pub(crate) async fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let client = cluster::connect(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let options = KubeletOptions {
        default_duration: args.pod_duration,
        ..KubeletOptions::with_nodes(args.nodes)
    };
    let clock = Clock::start();
    register(&client, &options, clock.now()).await?;
    // Bounded: a server that is faster than this kubelet has to wait.
    let (sender, mut news) = mpsc::channel(16);
    tokio::spawn(follow(client.clone(), sender));

    let mut kubelet = Kubelet::new(options);
    let mut in_flight = JoinSet::new();
    loop {
        kubelet.handle_timeout(clock.now());
        while in_flight.len() < args.max_in_flight
            && let Some(write) = kubelet.poll_write()
        {
            in_flight.spawn(perform(client.clone(), write));
        }
        let due = kubelet.poll_timeout().map(|(at, _)| at.since(clock.now()));
        tokio::select! {
            Some(news) = news.recv() => {
                for news in news {
                    hear(&mut kubelet, &news, clock.now());
                }
            }
            Some(answered) = in_flight.join_next() => {
                let (write, code) = answered?;
                kubelet.handle_answer(&write, code, clock.now());
            }
            () = sleep(due.unwrap_or_default()), if due.is_some() => {}
        }
    }
}

/// Creates the nodes that are not there yet.
async fn register(client: &Client, options: &KubeletOptions, now: Time) -> Result<(), ApiError> {
    for node in node_objects(options, now) {
        let body = node.to_string().into_bytes();
        match client.create("/api/v1/nodes", body).await {
            Err(error) if error.kind != ErrorKind::AlreadyExists => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

fn hear(kubelet: &mut Kubelet, news: &News, now: Time) {
    let taken_in = match news {
        News::Applied(pod) => kubelet.handle_pod(PodChange::Applied(pod.as_bytes()), now),
        News::Deleted(pod) => {
            let pod: Value = serde_json::from_str(pod).unwrap_or_default();
            let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
            let gone = PodChange::Deleted {
                namespace: text("namespace"),
                name: text("name"),
                uid: text("uid"),
            };
            kubelet.handle_pod(gone, now)
        }
    };
    if let Err(error) = taken_in {
        eprintln!("passes over a Pod: {error}");
    }
}

/// Makes a write; gives the status code of the answer, 0 if none came.
async fn perform(client: Client, write: PodWrite) -> (PodWrite, u16) {
    let request = write.request();
    let (path, body) = (&request.path, request.body);
    let result = match &write.action {
        Action::Bind { .. } => client.create(path, body).await,
        Action::Status(_) => client.patch(path, Patch::Strategic, body).await,
        Action::Delete => client.delete_with(path, body).await,
    };
    let code = result.map_or_else(|error| error.code, |_| 200);
    (write, code)
}

/// Lists and watches all Pods, for as long as somebody listens. However a watch ends, a new list
/// follows; a Pod that went in between is found gone by the next write to it.
async fn follow(client: Client, news: mpsc::Sender<Vec<News>>) {
    while !news.is_closed() {
        let followed = match list(&client, &news).await {
            Ok(version) => watch(&client, &news, &version).await,
            Err(error) => Err(error),
        };
        if let Err(error) = followed {
            eprintln!("Pods are listed anew: {error}");
            sleep(PAUSE).await;
        }
    }
}

/// Tells of all Pods there are; gives the version that the list shows.
async fn list(client: &Client, news: &mpsc::Sender<Vec<News>>) -> Result<String, ApiError> {
    let mut token = String::new();
    loop {
        let path = format!("{}?limit={PAGE_SIZE}&continue={token}", paths::pods(None));
        let body = client.get(&path).await?;
        let page = decode_list_page(&body).map_err(odd)?;
        let pods = page.items.iter();
        tell(
            news,
            pods.map(|pod| News::Applied(pod.get().to_owned()))
                .collect(),
        )
        .await;
        token = page.metadata.continue_token;
        if token.is_empty() {
            return Ok(page.metadata.resource_version);
        }
    }
}

/// Tells of all changes after a version, until the watch ends.
async fn watch(
    client: &Client,
    news: &mpsc::Sender<Vec<News>>,
    version: &str,
) -> Result<(), ApiError> {
    let path = format!(
        "{}?watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}",
        paths::pods(None)
    );
    let mut pieces = client.watch(&path).await?;
    let mut lines = Lines::default();
    loop {
        let piece = timeout(SILENCE, pieces.next()).await;
        let Some(piece) = piece.map_err(|_| ApiError::no_answer("the watch went silent"))? else {
            return Ok(());
        };
        let mut heard = Vec::new();
        lines.push(&piece?, |line| {
            match decode_watch_line(line).map_err(odd)? {
                WatchEvent::Applied(pod) => heard.push(News::Applied(pod.to_owned())),
                WatchEvent::Deleted(pod) => heard.push(News::Deleted(pod.to_owned())),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(error) => return Err(error),
            }
            Ok(())
        })?;
        tell(news, heard).await;
    }
}

/// Hands news over. That nobody listens any more is seen where the next list would start.
async fn tell(news: &mpsc::Sender<Vec<News>>, heard: Vec<News>) {
    let _ = news.send(heard).await;
}

fn odd(error: serde_json::Error) -> ApiError {
    ApiError::no_answer(format!("odd answer: {error}"))
}

/// The time of the wall clock, that never goes back.
struct Clock {
    started: Instant,
    at_start: Time,
}

impl Clock {
    fn start() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: Instant::now(),
            at_start: Time::default() + since_epoch,
        }
    }

    fn now(&self) -> Time {
        self.at_start + self.started.elapsed()
    }
}

/// Reads a duration as Kubernetes writes it.
fn duration(text: &str) -> Result<Duration, String> {
    parse_go_duration(text)
        .ok_or_else(|| "must be a duration such as 200ms, 10s or 1m30s".to_owned())
}
