//! Tests replicas that share the namespaces. One replica at a time writes to each range, whatever happens to the
//! others, and a range moves only if it must.

#![allow(clippy::print_stdout, reason = "how long a range took to move is told")]

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use lakh::{
    client::Client,
    embedded::EmbeddedCluster,
    model::{Division, Partition},
};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    self, PATIENCE, check_pods_of_complete_job, get, http_get, indexed_job, is, listed,
    logged::Logged,
    proxy::{Fate, Proxy},
    seen_when, wait_until,
};

const RANGES: usize = 6;

const PARTITION: Partition = Partition {
    ranges: RANGES as u32,
    by: Division::Remainder,
};

/// Enough that most ranges have one.
const NAMESPACES: usize = 12;

/// Enough that there is work to the end.
const PODS: u32 = 150;

const LEASE: Duration = Duration::from_secs(6);

const FLAGS: [&str; 4] = [
    "--replicas-share=6",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=400ms",
];

const THE_LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/lakh-replace";

/// Writes except those of Leases, in order: controller number and namespace.
type Writes = Arc<Mutex<Vec<(usize, String)>>>;

/// Watches of Pods, in order: controller number and query.
type Watches = Arc<Mutex<Vec<(usize, String)>>>;

/// The ranges of each controller.
type Owners = BTreeMap<usize, BTreeSet<usize>>;

struct Replica {
    process: Logged,
    _line: Proxy,
}

impl Replica {
    async fn start(
        number: usize,
        server: &str,
        folder: &Path,
        (writes, watches): (&Writes, &Watches),
        more: &[&str],
    ) -> Self {
        let (writes, watches) = (Arc::clone(writes), Arc::clone(watches));
        let judge = move |request: &str| {
            let is_write = ["POST /", "PATCH /", "PUT /", "DELETE /"]
                .iter()
                .any(|verb| request.starts_with(verb));
            let path = request.split(' ').nth(1).unwrap_or_default();
            let namespace = path.split_once("/namespaces/").map(|(_, rest)| rest);
            let namespace = namespace.and_then(|rest| rest.split('/').next());
            if let (true, Some(namespace), false) = (is_write, namespace, path.contains("/leases"))
            {
                writes.lock().push((number, namespace.to_owned()));
            }
            if path.starts_with("/api/v1/pods?watch=true") {
                watches.lock().push((number, path.to_owned()));
            }
            Fate::Passed
        };
        let line = Proxy::start(server, judge).await;
        let path = |kind: &str| folder.join(format!("{number}.{kind}"));
        support::write_kubeconfig(&path("config"), &line.url());
        Self {
            process: Logged::start(&path("config"), path("log"), more),
            _line: line,
        }
    }

    /// Its name in the roster.
    fn identity(&self) -> Option<String> {
        let line = self.process.says("waiting for ranges", None)?;
        line["identity"].as_str().map(str::to_owned)
    }

    fn metrics(&self) -> String {
        let text = self.process.listens();
        let text = text.and_then(|at| http_get(at, "/metrics").ok());
        text.unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).expect("a process id");
        let id = Pid::from_raw(id).expect("a process id");
        kill_process(id, signal).expect("it is there");
    }
}

struct Replicas {
    cluster: EmbeddedCluster,
    client: Client,
    folder: TempDir,
    writes: Writes,
    watches: Watches,
    all: Vec<Replica>,
}

impl Replicas {
    async fn new() -> Self {
        let cluster = support::cluster(Duration::from_millis(500)).await;
        Self {
            client: support::client(&cluster).await,
            cluster,
            folder: tempfile::tempdir().expect("a folder for temporary files"),
            writes: Writes::default(),
            watches: Watches::default(),
            all: Vec::new(),
        }
    }

    async fn add(&mut self, flags: &[&str]) {
        let (number, server) = (self.all.len(), self.cluster.url());
        let heard = (&self.writes, &self.watches);
        let replica = Replica::start(number, &server, self.folder.path(), heard, flags);
        self.all.push(replica.await);
        let added = &self.all[number];
        wait_until("it listens", || added.process.listens().is_some()).await;
    }

    /// Returns the owners of ranges by the Lease.
    async fn owners(&self) -> Owners {
        // The Lease does not exist yet.
        let Ok(lease) = self.client.get(THE_LEASE).await else {
            return Owners::new();
        };
        let lease: Value = serde_json::from_slice(&lease).expect("JSON");
        let roster = lease["metadata"]["annotations"]["lakh.dev/replicas"].as_str();
        let roster: Value = serde_json::from_str(roster.unwrap_or("{}")).expect("JSON");
        let mut owners = Owners::new();
        for (number, replica) in self.all.iter().enumerate() {
            let entry = replica.identity().map(|name| &roster[name]);
            let Some(ranges) = entry.and_then(|entry| entry["ranges"].as_array()) else {
                continue;
            };
            let ranges = ranges.iter().filter_map(Value::as_u64);
            owners.insert(number, ranges.map(|range| range as usize).collect());
        }
        owners
    }

    /// Returns the owners once the condition holds, and the elapsed time.
    async fn owners_when(&self, holds: impl Fn(&Owners) -> bool) -> (Owners, Duration) {
        let begun = std::time::Instant::now();
        loop {
            let owners = self.owners().await;
            if holds(&owners) {
                return (owners, begun.elapsed());
            }
            assert!(begun.elapsed() < PATIENCE, "{owners:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn make_jobs(&self) {
        for number in 0..NAMESPACES {
            let name = format!("{number}-team");
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let body = namespace.to_string().into_bytes();
            let made = self.client.create("/api/v1/namespaces", body).await;
            made.expect("a good namespace");
            let path = format!("/apis/batch/v1/namespaces/{name}/jobs");
            let job = indexed_job("j", PODS, 4).to_string().into_bytes();
            self.client.create(&path, job).await.expect("a good Job");
        }
    }

    async fn are_right(&self) {
        for number in 0..NAMESPACES {
            let path = format!("/apis/batch/v1/namespaces/{number}-team/jobs/j");
            let job = seen_when(&self.client, &path, |job| is(job, "Complete")).await;
            assert_eq!(job["status"]["succeeded"], PODS, "{job}");
            let path = format!("/api/v1/namespaces/{number}-team/pods");
            let pods = get(&self.client, &path).await;
            let pods = listed(&pods);
            check_pods_of_complete_job(pods, PODS as usize);
            assert_eq!(pods.len(), PODS as usize, "a Pod too many");
        }
    }

    /// Returns the controllers that wrote to a namespace, in order.
    fn writers(&self, namespace: &str) -> Vec<usize> {
        let writes = self.writes.lock();
        let writes = writes.iter().filter(|(_, of)| of == namespace);
        let mut writers: Vec<usize> = writes.map(|(number, _)| *number).collect();
        writers.dedup();
        writers
    }
}

/// Returns true if all ranges have owners, this many in all, and the owners' shares differ by at most one range.
fn is_even(owners: &Owners, among: usize) -> bool {
    let having = owners.values().filter(|ranges| !ranges.is_empty());
    let counts: Vec<usize> = having.map(BTreeSet::len).collect();
    counts.len() == among
        && counts.iter().sum::<usize>() == RANGES
        && counts.iter().max() <= counts.iter().min().map(|least| least + 1).as_ref()
}

fn owner(owners: &Owners, namespace: &str) -> usize {
    let range = PARTITION.range_of(namespace);
    let mut all = owners.iter();
    let found = all.find(|(_, ranges)| ranges.contains(&range));
    *found.expect("each range has one").0
}

#[tokio::test(flavor = "multi_thread")]
async fn each_range_has_one_writer_and_moves_only_when_needed() {
    let mut replicas = Replicas::new().await;
    for _ in 0..3 {
        replicas.add(&FLAGS).await;
    }
    let (first, took) = replicas.owners_when(|owners| is_even(owners, 3)).await;
    println!("three share after {took:?}: {first:?}");
    replicas.make_jobs().await;
    let written = |replicas: &Replicas, number| {
        let writes = replicas.writes.lock();
        writes.iter().filter(|(by, _)| *by == number).count()
    };
    wait_until("all work", || (0..3).all(|it| written(&replicas, it) > 100)).await;

    replicas.all[1].signal(Signal::KILL);
    let is_of_two =
        |owners: &Owners| owners.get(&1).is_none_or(BTreeSet::is_empty) && is_even(owners, 2);
    let (second, took) = replicas.owners_when(is_of_two).await;
    println!("after a crash: {took:?}: {second:?}");
    assert!(took < LEASE * 3 / 2, "{took:?}");
    for number in [0, 2] {
        assert!(
            second[&number].is_superset(&first[&number]),
            "{first:?} {second:?}"
        );
    }

    // A third replica joins, and gets its ranges from both.
    replicas.add(&FLAGS).await;
    let (third, took) = replicas.owners_when(|owners| is_even(owners, 3)).await;
    println!("one has joined: {took:?}: {third:?}");
    for number in [0, 2] {
        assert!(
            third[&number].is_subset(&second[&number]),
            "{second:?} {third:?}"
        );
    }
    wait_until("the new one works", || written(&replicas, 3) > 0).await;

    replicas.all[0].signal(Signal::TERM);
    let has_left = |owners: &Owners| !owners.contains_key(&0) && is_even(owners, 2);
    let (fourth, took) = replicas.owners_when(has_left).await;
    println!("after a clean stop: {took:?}: {fourth:?}");
    assert!(took < LEASE / 2, "{took:?}");

    replicas.are_right().await;
    let mut expected = BTreeSet::new();
    for number in 0..NAMESPACES {
        let namespace = format!("{number}-team");
        let steps = [&first, &second, &third, &fourth];
        let mut owners: Vec<usize> = steps.map(|owners| owner(owners, &namespace)).into();
        owners.dedup();
        let writers = replicas.writers(&namespace);
        println!("{namespace}: owned by {owners:?}, written by {writers:?}");
        // A replica that had the range only for a moment may have had nothing to write.
        let mut left = owners.iter();
        let is_in_order = writers.iter().all(|by| left.any(|owner| owner == by));
        assert!(is_in_order, "{namespace}: {owners:?}, {writers:?}");
        expected.extend(writers);
    }
    assert_eq!(expected, BTreeSet::from([0, 1, 2, 3]));
    // Each remaining replica reports its ranges.
    for number in [2, 3] {
        let text = replicas.all[number].metrics();
        let says: BTreeSet<usize> = (0..RANGES)
            .filter(|range| {
                let name = format!("name=\"lakh-replace-{range}-of-{RANGES}\"");
                text.contains(&format!("leader_election_master_status{{{name}}} 1"))
            })
            .collect();
        assert_eq!(Some(&says), fourth.get(&number), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sharing_and_sole_leaders_never_write_at_once() {
    let mut replicas = Replicas::new().await;
    replicas.add(&FLAGS).await;
    replicas.owners_when(|owners| is_even(owners, 1)).await;
    let other = [&["--replicas-share=8"], &FLAGS[1..]].concat();
    for flags in [&FLAGS[1..], &other] {
        replicas.add(flags).await;
    }
    replicas.make_jobs().await;
    let stands_by = |number: usize| replicas.all[number].process.says("standing by", None);
    wait_until("one says why it waits", || stands_by(2).is_some()).await;
    replicas.are_right().await;
    let writers: RefCell<BTreeSet<usize>> = RefCell::default();
    for number in 0..NAMESPACES {
        let by = replicas.writers(&format!("{number}-team"));
        writers.borrow_mut().extend(by);
    }
    assert_eq!(writers.into_inner(), BTreeSet::from([0]));
    // The last sharing replica releases the Lease to any replica.
    replicas.all[0].signal(Signal::TERM);
    let took = wait_until("another kind takes over", || {
        let texts = [1, 2].map(|number| replicas.all[number].metrics());
        let leads = |text: &String| {
            let mut lines = text.lines();
            lines.any(|line| line.starts_with("leader_election_master") && line.ends_with(" 1"))
        };
        texts.iter().filter(|text| leads(text)).count() == 1
    })
    .await;
    println!("another kind took over after {took:?}");
    assert!(took < LEASE / 2, "{took:?}");
}

/// Two replicas use the server's shard selector, and one does not.
#[tokio::test(flavor = "multi_thread")]
async fn with_shard_selector_a_replica_gets_only_its_ranges() {
    let mut replicas = Replicas::new().await;
    let selecting = [&FLAGS[..], &["--shard-selector"]].concat();
    for _ in 0..2 {
        replicas.add(&selecting).await;
    }
    let (owners, _) = replicas.owners_when(|owners| is_even(owners, 2)).await;
    replicas.add(&FLAGS).await;
    replicas.make_jobs().await;
    replicas.are_right().await;
    let partition = Partition {
        by: Division::Interval,
        ..PARTITION
    };
    for number in 0..NAMESPACES {
        let namespace = format!("{number}-team");
        let range = partition.range_of(&namespace);
        let owner = (0..2).find(|owner| owners[owner].contains(&range));
        assert_eq!(replicas.writers(&namespace), Vec::from_iter(owner));
    }
    let watches = replicas.watches.lock();
    for (owner, ranges) in &owners {
        let mut own = watches.iter().rev();
        let last = own.find(|(number, _)| number == owner).expect("a watch");
        let selector = partition.selector(ranges.iter().copied()).expect("one");
        let selector = lakh::wire::paths::escaped(&selector);
        let asked = format!("&shardSelector={selector}");
        assert!(ranges.is_empty() || last.1.ends_with(&asked), "{last:?}");
    }
}
