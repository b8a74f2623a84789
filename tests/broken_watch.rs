//! Connections that break: nothing is missed, and nothing is done twice.

#![cfg(feature = "runtime")]

mod support;

use std::time::Duration;

use lakh::{
    cluster,
    embedded::{ClusterOptions, EmbeddedCluster},
    runtime::Controller,
};
use support::{check_pods_of_complete_job, create, indexed_job, is, job_when, pods, proxy::Proxy};

/// Runs the main job over a line that is cut every now and then; how often Pods were listed.
async fn run_over_a_bad_line(log_capacity: Option<usize>) -> u64 {
    let options = ClusterOptions {
        log_capacity,
        ..ClusterOptions::default()
    };
    let cluster = EmbeddedCluster::start(options).await.expect("a free port");
    let proxy = Proxy::start(&cluster.url(), |_| None).await;
    let through = proxy.url();
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
