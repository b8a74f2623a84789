//! Tests broken connections: no event is missed, and no write is repeated.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use lakh::{
    client::{Client, Patch},
    embedded::{ClusterOptions, EmbeddedCluster, ServeOptions},
};
use serde_json::json;

use crate::support::{
    self, check_pods_of_complete_job, create, indexed_job, is, job_when, pods,
    proxy::{Fate, Proxy, answer},
};

/// Runs the main job over a connection that is cut every now and then. Returns the number of Pod lists.
///
/// With `kept`, the server keeps this many Pod events, and more occur during each cut.
async fn run_over_a_bad_line(kept: Option<usize>) -> u64 {
    let options = ClusterOptions {
        server: ServeOptions {
            log_capacity: kept,
            ..ServeOptions::default()
        },
        ..ClusterOptions::default()
    };
    let cluster = EmbeddedCluster::start(options).await.expect("a free port");
    let proxy = Proxy::start(&cluster.url(), |_| Fate::Passed).await;
    let controller = support::controller_over(&proxy).await;
    let client = support::client(&cluster).await;
    create_bystander(&client).await;
    create(&client, &indexed_job("main", 10_000, 1000)).await;
    for _ in 0..CUTS {
        // After a long cut the watch is reopened some seconds later.
        let pause = if kept.is_some() { 4_500 } else { 150 };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        match kept {
            None => proxy.cut(Duration::from_millis(100)).await,
            Some(kept) => proxy.cut_while(change_bystander(&client, kept + 1)).await,
        }
        // The fate of interrupted creations is unknown. There must never be too many Pods.
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
    let odd: Vec<_> = all
        .iter()
        .filter(|pod| pod["status"]["phase"] != "Succeeded")
        .map(|pod| (&pod["metadata"]["name"], &pod["status"]))
        .collect();
    assert_eq!(odd, [], "Pods that did not succeed: {}", job["status"]);
    check_pods_of_complete_job(&all, 10_000);
    assert_eq!(all.len(), 10_000, "a Pod too many or too few");
    let counts = cluster.server().api().request_counts();
    let lists = counts
        .iter()
        .filter(|count| count.verb == "list" && count.resource == "pods");
    let lists = lists.map(|count| count.count).sum();
    controller.stop().await;
    cluster.shutdown().await;
    lists
}

const BYSTANDERS: &str = "/api/v1/namespaces/kube-system/pods";

/// Creates a Pod without a Job.
async fn create_bystander(client: &Client) {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bystander"},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    });
    let created = client.create(BYSTANDERS, pod.to_string().into_bytes());
    created.await.expect("a good Pod");
}

/// Changes that Pod this many times.
async fn change_bystander(client: &Client, changes: usize) {
    let path = format!("{BYSTANDERS}/bystander");
    for number in 0..changes {
        let label = format!(r#"{{"metadata": {{"labels": {{"change": "{number}"}}}}}}"#);
        let changed = client.patch(&path, Patch::Merge, label.into_bytes());
        changed.await.expect("a good label");
    }
}

fn is_active(pod: &serde_json::Value) -> bool {
    let phase = &pod["status"]["phase"];
    phase != "Succeeded" && phase != "Failed"
}

/// Number of cuts.
const CUTS: u64 = 12;

/// Pod lists by this test itself: one after each cut, and one at the end.
const OWN_LISTS: u64 = CUTS + 1;

/// After each cut the controller lists one Pod, to get the server's resourceVersion. The server may be another one, or
/// may have been restored from a backup.
const LOOKS: u64 = CUTS;

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_watch_goes_on_where_it_was() {
    let lists = run_over_a_bad_line(None).await;
    assert!(
        lists <= OWN_LISTS + LOOKS + 2,
        "the watch started anew: {lists} lists"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_too_far_behind_starts_with_a_list() {
    let lists = run_over_a_bad_line(Some(1000)).await;
    assert!(
        lists > OWN_LISTS + LOOKS + 2,
        "no watch was too far behind: {lists} lists"
    );
}

/// Runs a Job over a proxy on which every third of these requests has this fate, `most` times at most.
///
/// The watch is late, so that the controller does not learn of a Pod from its event.
async fn run_with_odd_requests(request: &'static str, fate: fn() -> Fate, most: u32) {
    let late = "delay-events=300ms,verbs=watch,resources=pods";
    let cluster = EmbeddedCluster::start(ClusterOptions {
        server: ServeOptions {
            faults: vec![late.parse().expect("a good rule")],
            ..ServeOptions::default()
        },
        ..ClusterOptions::default()
    });
    let cluster = cluster.await.expect("a free port");
    let asked = AtomicU32::new(0);
    let proxy = Proxy::start(&cluster.url(), move |piece| {
        let number = match piece.starts_with(request) {
            true => asked.fetch_add(1, Ordering::SeqCst),
            false => return Fate::Passed,
        };
        match number % 3 == 0 && number < 3 * most {
            true => fate(),
            false => Fate::Passed,
        }
    })
    .await;
    let controller = support::controller_over(&proxy).await;
    let client = support::client(&cluster).await;
    create(&client, &indexed_job("main", 300, 30)).await;
    let job = job_when(&client, "main", |job| is(job, "Complete")).await;
    assert_eq!(job["status"]["succeeded"], 300);
    assert_eq!(job["status"]["completedIndexes"], "0-299");
    let all = pods(&client).await;
    assert_eq!(all.len(), 300, "a Pod too many or too few");
    check_pods_of_complete_job(&all, 300);
    controller.stop().await;
    cluster.shutdown().await;
}

const CREATION: &str = "POST /api/v1/namespaces/default/pods ";

#[tokio::test(flavor = "multi_thread")]
async fn creations_with_lost_responses_make_no_second_pods() {
    run_with_odd_requests(CREATION, || Fate::AnswerLost, 40).await;
}

/// Some load balancers do so when a server is slow to answer.
#[tokio::test(flavor = "multi_thread")]
async fn creations_that_are_sent_twice_make_no_second_pods() {
    run_with_odd_requests(CREATION, || Fate::SentTwice, 40).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_with_lost_responses_count_no_pod_twice() {
    run_with_odd_requests("PATCH ", || Fate::AnswerLost, 40).await;
}

/// The response of a gateway or a captive portal.
fn empty() -> Fate {
    Fate::Answered(answer(200, "", ""))
}

fn login_page() -> Fate {
    Fate::Answered(answer(200, "", "<!DOCTYPE html><title>Sign in</title>"))
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_answered_with_success_by_something_else_leave_no_finalizer() {
    run_with_odd_requests("PATCH ", empty, 40).await;
    run_with_odd_requests("PATCH ", login_page, 40).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn creations_answered_with_success_by_something_else_are_made_up_for() {
    run_with_odd_requests(CREATION, empty, 40).await;
    run_with_odd_requests(CREATION, login_page, 40).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_stands_still_for_a_while_loses_nothing() {
    let cluster = support::cluster(Duration::from_millis(50)).await;
    let proxy = Proxy::start(&cluster.url(), |_| Fate::Passed).await;
    let controller = support::controller_over(&proxy).await;
    let client = support::client(&cluster).await;
    create(&client, &indexed_job("main", 3000, 300)).await;
    for round in 0..4 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        proxy.freeze(true);
        tokio::time::sleep(Duration::from_millis(300)).await;
        proxy.freeze(false);
        if round % 2 == 1 {
            // Delayed data are lost.
            proxy.cut(Duration::from_millis(50)).await;
        }
    }
    let job = job_when(&client, "main", |job| is(job, "Complete")).await;
    assert_eq!(job["status"]["succeeded"], 3000);
    let all = pods(&client).await;
    assert_eq!(all.len(), 3000, "a Pod too many or too few");
    check_pods_of_complete_job(&all, 3000);
    controller.stop().await;
    cluster.shutdown().await;
}
