//! Tests leader election with several controllers. Whatever happens to the leader, another takes over, two never write
//! at once, and the Job ends correctly.

#![allow(clippy::print_stdout, reason = "how long a hand-over took is told")]

use std::{cell::Cell, path::Path, sync::Arc, time::Duration};

use lakh::{client::Client, embedded::EmbeddedCluster};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::{
    self, check_pods_of_complete_job, get, http_get, indexed_job, is, job_when,
    logged::Logged,
    pods,
    proxy::{Fate, Proxy},
    wait_until,
};

/// Short, to keep the test short.
const LEASE: Duration = Duration::from_secs(3);

const SHORT: [&str; 3] = [
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=200ms",
];

/// A replica that only polls the Lease finds it released after half a minute or more.
const LONG: [&str; 3] = [
    "--leader-elect-lease-duration=90s",
    "--leader-elect-renew-deadline=60s",
    "--leader-elect-retry-period=30s",
];

const PODS: u32 = 2_000;

/// Writes except those of Leases, in order, by controller number.
type Writes = Arc<Mutex<Vec<usize>>>;

/// A controller with its own proxy to the server.
struct Replica {
    process: Logged,
    line: Proxy,
}

impl Replica {
    async fn start(
        number: usize,
        server: &str,
        folder: &Path,
        writes: &Writes,
        more: &[&str],
    ) -> Self {
        let writes = Arc::clone(writes);
        let judge = move |request: &str| {
            let is_write = ["POST /", "PATCH /", "PUT /", "DELETE /"]
                .iter()
                .any(|verb| request.starts_with(verb));
            // A starting replica requests its own identity by a POST.
            let is_own = request.contains("/leases") || request.contains("/selfsubjectreviews");
            if is_write && !is_own {
                writes.lock().push(number);
            }
            Fate::Passed
        };
        let line = Proxy::start(server, judge).await;
        let path = |kind: &str| folder.join(format!("{number}.{kind}"));
        support::write_kubeconfig(&path("config"), &line.url());
        Self {
            process: Logged::start(&path("config"), path("log"), more),
            line,
        }
    }

    /// Returns true if its metrics report that it leads.
    fn leads(&self) -> bool {
        let metrics = self
            .process
            .listens()
            .and_then(|at| http_get(at, "/metrics").ok());
        metrics.is_some_and(|text| {
            text.contains("leader_election_master_status{name=\"lakh-replace\"} 1")
        })
    }

    fn is_ready(&self) -> bool {
        let answer = self
            .process
            .listens()
            .and_then(|at| http_get(at, "/readyz").ok());
        answer.is_some_and(|answer| answer.contains(" 200 "))
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).expect("a process id");
        let id = Pid::from_raw(id).expect("a process id");
        kill_process(id, signal).expect("it is there");
    }
}

/// Controllers by number. An ended controller leaves its slot empty.
struct Replicas {
    cluster: EmbeddedCluster,
    client: Client,
    folder: TempDir,
    writes: Writes,
    all: Vec<Option<Replica>>,
    more: &'static [&'static str],
}

impl Replicas {
    async fn start(count: usize, more: &'static [&'static str]) -> Self {
        let cluster = support::cluster(Duration::from_millis(500)).await;
        let mut replicas = Self {
            client: support::client(&cluster).await,
            cluster,
            folder: tempfile::tempdir().expect("a folder for temporary files"),
            writes: Writes::default(),
            all: Vec::new(),
            more,
        };
        for _ in 0..count {
            replicas.add().await;
        }
        replicas
    }

    async fn add(&mut self) {
        let (number, server) = (self.all.len(), self.cluster.url());
        let replica = Replica::start(number, &server, self.folder.path(), &self.writes, self.more);
        self.all.push(Some(replica.await));
        let added = self.all.last();
        let added = added.and_then(Option::as_ref).expect("it was added");
        wait_until("a standby is ready", || added.is_ready()).await;
    }

    /// Waits for a leader other than `but`. Returns its number and the elapsed time.
    async fn leader(&self, but: Option<usize>) -> (usize, Duration) {
        let found = Cell::new(0);
        let took = wait_until("one leads", || {
            let mut all = self.all.iter().enumerate();
            let leader = all.find(|(number, replica)| {
                Some(*number) != but && replica.as_ref().is_some_and(Replica::leads)
            });
            leader.map(|(number, _)| found.set(number)).is_some()
        });
        let took = took.await;
        (found.get(), took)
    }

    fn replica(&self, number: usize) -> &Replica {
        self.all[number].as_ref().expect("it runs")
    }

    /// Waits until the latest write is this controller's.
    async fn written_by(&self, number: usize) {
        wait_until("the leader writes", || {
            self.writes.lock().last() == Some(&number)
        })
        .await;
    }

    /// Ends a controller, and starts another one.
    async fn replace(&mut self, number: usize) {
        self.all[number] = None;
        self.add().await;
    }
}

/// The fate of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Killed,
    Stopped,
    Frozen,
    CutOff,
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_becomes_of_the_leader_another_takes_over() {
    take_overs(&SHORT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn and_so_with_several_shards() {
    const WITH_SHARDS: [&str; 4] = [SHORT[0], SHORT[1], SHORT[2], "--shards=2"];
    take_overs(&WITH_SHARDS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_given_back_is_taken_at_once() {
    let replicas = Replicas::start(3, &LONG).await;
    let (leader, _) = replicas.leader(None).await;
    replicas.replica(leader).signal(Signal::TERM);
    let (_, took) = replicas.leader(Some(leader)).await;
    println!("the next leads after {took:?}");
    assert!(took < Duration::from_secs(20), "nobody heard of it");
}

async fn take_overs(more: &'static [&'static str]) {
    let mut replicas = Replicas::start(3, more).await;
    support::create(&replicas.client, &indexed_job("main", PODS, 100)).await;
    let mut turns = 1;
    for deed in [Deed::Stopped, Deed::Killed, Deed::Frozen, Deed::CutOff] {
        let (leader, _) = replicas.leader(None).await;
        replicas.written_by(leader).await;
        let replica = replicas.replica(leader);
        match deed {
            Deed::Killed => replica.signal(Signal::KILL),
            Deed::Stopped => replica.signal(Signal::TERM),
            Deed::Frozen => replica.signal(Signal::STOP),
            Deed::CutOff => {}
        }
        // A frozen process cannot report that it no longer leads.
        let next_leads = replicas.leader(Some(leader));
        let (next, took) = match deed {
            // Requests in flight are lost with their connections. (If a network delivers one late, the effect is that
            // of two leaders.)
            Deed::CutOff => {
                let found = Cell::new((0, Duration::ZERO));
                let line = &replica.line;
                line.cut_while(async { found.set(next_leads.await) }).await;
                found.get()
            }
            _ => next_leads.await,
        };
        println!("{deed:?}: {next} leads after {took:?}");
        match deed {
            Deed::Stopped => assert!(took < LEASE, "{took:?}"),
            // No standby may take over sooner: the last renewal is less than a retry period old, and the standby saw it
            // soon.
            _ => assert!(took > LEASE / 2, "{took:?}"),
        }
        replicas.written_by(next).await;
        turns += 1;
        match deed {
            Deed::Killed | Deed::Stopped => replicas.replace(leader).await,
            Deed::Frozen | Deed::CutOff => {
                let replica = replicas.replica(leader);
                replica.signal(Signal::CONT);
                let lost = || replica.process.says("lost the Lease", None).is_some();
                wait_until("it stands by", || lost() && !replica.leads()).await;
            }
        }
    }
    let job = job_when(&replicas.client, "main", |job| is(job, "Complete")).await;
    let pods = pods(&replicas.client).await;
    assert_eq!(job["status"]["succeeded"], PODS);
    check_pods_of_complete_job(&pods, PODS as usize);
    assert_eq!(pods.len(), PODS as usize, "a Pod too many");
    let mut writers = replicas.writes.lock().clone();
    writers.dedup();
    assert_eq!(writers.len(), turns, "two wrote by turns: {writers:?}");
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/lakh-replace";
    let lease = get(&replicas.client, path).await;
    assert_eq!(lease["spec"]["leaseTransitions"], turns - 1);
}
