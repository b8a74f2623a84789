//! Tests that a replica is not ready while it could not lead, or while the API server does not answer. Its log has the
//! reason.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lakh::embedded::EmbeddedCluster;
use tempfile::TempDir;

use crate::support::{
    self, http_get, kubeconfig_of,
    logged::Logged,
    proxy::{Fate, Proxy, refusal},
    wait_until,
};

/// A controller process behind a proxy, with its folder.
struct Replica {
    controller: Logged,
    _folders: (TempDir, TempDir),
}

impl Replica {
    async fn start(proxy: &Proxy, more: &[&str]) -> Self {
        let (folder, kubeconfig) = kubeconfig_of(&proxy.url());
        let logs = tempfile::tempdir().expect("a folder");
        let controller = Logged::start(&kubeconfig, logs.path().join("log"), more);
        wait_until("it listens", || controller.listens().is_some()).await;
        Self {
            controller,
            _folders: (folder, logs),
        }
    }

    fn get(&self, path: &str) -> String {
        let address = self.controller.listens().expect("it listens");
        http_get(address, path).unwrap_or_default()
    }

    fn is_ready(&self) -> bool {
        self.get("/readyz").starts_with("HTTP/1.1 200 ")
    }

    fn count(&self, words: &str) -> usize {
        let lines = self.controller.lines();
        let messages = lines.iter().filter_map(|line| line["message"].as_str());
        messages.filter(|said| said.contains(words)).count()
    }
}

async fn cluster() -> EmbeddedCluster {
    support::cluster(Duration::ZERO).await
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_may_not_write_the_lease_are_not_ready() {
    let cluster = cluster().await;
    let is_refused = Arc::new(AtomicBool::new(true));
    let refuses = Arc::clone(&is_refused);
    let proxy = Proxy::start(&cluster.url(), move |request| {
        let is_write = request.starts_with("PUT ") || request.starts_with("POST ");
        match is_write && request.contains("/leases") && refuses.load(Ordering::SeqCst) {
            true => Fate::Answered(refusal(403, "Forbidden", "may not write leases")),
            false => Fate::Passed,
        }
    })
    .await;
    let replicas = [
        Replica::start(&proxy, &[]).await,
        Replica::start(&proxy, &[]).await,
    ];
    for replica in &replicas {
        wait_until("it says why", || {
            replica
                .get("/readyz")
                .contains("[-]lease failed: the Lease could not be written for")
        })
        .await;
        let metric = "lakh_lease_writable{name=\"lakh-replace\"} 0";
        assert!(replica.get("/metrics").contains(metric));
        // It logs after 0, 10 and 30 s, and not every two seconds.
        tokio::time::sleep(Duration::from_secs(8)).await;
        let lines = replica.count("could not write the Lease");
        assert!((1..=3).contains(&lines), "{:?}", replica.controller.lines());
        assert_eq!(replica.count("requests succeed again"), 0);
    }
    is_refused.store(false, Ordering::SeqCst);
    for replica in &replicas {
        wait_until("it is ready", || replica.is_ready()).await;
        assert_eq!(replica.count("the Lease can be written again"), 1);
    }
    drop(replicas);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_connections_and_answers_nothing_is_reported() {
    let cluster = cluster().await;
    let proxy = Proxy::start(&cluster.url(), |_| Fate::Passed).await;
    let leader = Replica::start(&proxy, &[]).await;
    wait_until("the leader is ready", || leader.is_ready()).await;
    let standby = Replica::start(&proxy, &[]).await;
    wait_until("the standby is ready", || standby.is_ready()).await;
    let alone = Replica::start(&proxy, &["--leader-elect=false"]).await;
    wait_until("the one without election is ready", || alone.is_ready()).await;
    proxy.freeze(true);
    wait_until("the leader says what it waits for", || {
        let line = leader.controller.says("could not write the Lease", None);
        line.is_some_and(|line| line["error"] == "no answer within 5 s")
    })
    .await;
    wait_until("the leader says why it leads no more", || {
        let line = leader.controller.says("lost the Lease", None);
        line.is_some_and(|line| {
            let reason = line["reason"].as_str().unwrap_or_default();
            reason.contains("no answer within 5 s") && line["holder"].is_null()
        })
    })
    .await;
    wait_until("the standby says what it waits for", || {
        let line = standby
            .controller
            .says("request failed; will retry", Some("leases"));
        line.is_some_and(|line| line["error"] == "no answer within 5 s")
    })
    .await;
    wait_until("the one without election says so", || {
        let line = alone
            .controller
            .says("the API server does not respond", None);
        line.is_some_and(|line| line["error"] == "GET /version: no answer within 10 s")
    })
    .await;
    for replica in [&leader, &standby, &alone] {
        let took = wait_until("it is not ready", || {
            replica
                .get("/readyz")
                .contains("[-]server failed: no response to any request for 3")
        })
        .await;
        println!("not ready after {took:?} more");
        assert!(replica.get("/livez").starts_with("HTTP/1.1 200 "));
    }
    proxy.freeze(false);
    for replica in [&leader, &standby, &alone] {
        wait_until("it is ready again", || replica.is_ready()).await;
    }
    assert_eq!(alone.count("the API server responds again"), 1);
    cluster.shutdown().await;
}
