//! Connections that break: nothing is missed, and nothing is done twice.

#![cfg(feature = "runtime")]

mod support;

use std::{net::SocketAddr, time::Duration};

use lakh::{
    cluster,
    embedded::{ClusterOptions, EmbeddedCluster},
    runtime::Controller,
};
use support::{check_pods_of_complete_job, create, indexed_job, is, job_when, pods};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Stands between controller and server, and can cut every connection at once.
struct Proxy {
    address: SocketAddr,
    /// Odd while the line is down.
    cuts: watch::Sender<u32>,
}

impl Proxy {
    async fn start(server: &str) -> Self {
        let server = server.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let (cuts, cut) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (server, mut cut) = (server.clone(), cut.clone());
                if *cut.borrow_and_update() % 2 == 1 {
                    continue;
                }
                tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(server).await else {
                        return;
                    };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { address, cuts }
    }

    /// Cuts every connection, and lets none through for a while.
    async fn cut(&self, pause: Duration) {
        self.cuts.send_modify(|count| *count += 1);
        tokio::time::sleep(pause).await;
        self.cuts.send_modify(|count| *count += 1);
    }
}

/// Runs the main job over a line that is cut every now and then; how often Pods were listed.
async fn run_over_a_bad_line(log_capacity: Option<usize>) -> u64 {
    let options = ClusterOptions {
        log_capacity,
        ..ClusterOptions::default()
    };
    let cluster = EmbeddedCluster::start(options).await.expect("a free port");
    let proxy = Proxy::start(&cluster.url()).await;
    let through = format!("http://{}", proxy.address);
    let line = cluster::connect_url(&through)
        .await
        .expect("the line is good");
    let mut options = support::options();
    options.limits.retry_backoff.base = Duration::from_millis(50);
    let controller = Controller::start(line, options)
        .await
        .expect("nothing to listen on");
    let client = support::client(&cluster).await;
    create(&client, &indexed_job("main", 10_000, 1000)).await;
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        proxy.cut(Duration::from_millis(100)).await;
        // Cut creations are of unknown fate: at no time may they make too many Pods.
        let active = pods(&client)
            .await
            .iter()
            .filter(|pod| is_active(pod))
            .count();
        assert!(active <= 1000, "{active} Pods are active");
    }
    let job = job_when(&client, "main", |job| is(job, "Complete")).await;
    assert_eq!(job["status"]["completedIndexes"], "0-9999");
    assert_eq!(job["status"]["succeeded"], 10_000);
    let all = pods(&client).await;
    assert_eq!(all.len(), 10_000, "a Pod too many or too few");
    check_pods_of_complete_job(&all, 10_000);
    let counts = cluster.server().api().request_counts();
    let lists = counts
        .iter()
        .filter(|count| count.verb == "list" && count.resource == "pods");
    let lists = lists.map(|count| count.count).sum();
    controller.stop().await;
    cluster.shutdown().await;
    lists
}

fn is_active(pod: &serde_json::Value) -> bool {
    let phase = &pod["status"]["phase"];
    phase != "Succeeded" && phase != "Failed"
}

/// Lists of Pods that this test itself asks for: one after each cut, and one at the end.
const OWN_LISTS: u64 = 13;

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_watch_goes_on_where_it_was() {
    let lists = run_over_a_bad_line(None).await;
    assert!(
        lists <= OWN_LISTS + 2,
        "the watch started anew: {lists} lists"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_too_far_behind_starts_with_a_list() {
    // So few events are kept that a watch which was cut has mostly missed some.
    let lists = run_over_a_bad_line(Some(1000)).await;
    assert!(
        lists > OWN_LISTS + 2,
        "no watch was too far behind: {lists} lists"
    );
}
