//! Tests the effects of annotations: records of Pods, Events, and memory limits.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    super::{
        Question, RecordPage, RecordQuery, Settings, WantedRows,
        correlate::Warning,
        tests::{World, job, pod},
    },
    *,
};
use lakh_model::{EndCause, TRACKING_FINALIZER};
use lakh_wire::{Object, PodDecoder, PodDetails};

use crate::informer::{Change, Observed};

/// Returns the Job with indexes and these annotations.
fn annotated(version: u64, annotations: &Value) -> Value {
    let spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3});
    let mut job = job(version, &spec);
    job["metadata"]["annotations"] = annotations.clone();
    job
}

fn recorded(version: u64) -> Value {
    annotated(version, &json!({"lakh.dev/index-record": "true"}))
}

fn world() -> World {
    World::with(Settings::of_jobs(8))
}

fn key() -> JobKey {
    JobKey {
        namespace: "d".into(),
        name: "j".into(),
    }
}

/// Returns a Pod of this index.
fn pod_of(index: u32, number: u128, version: u64, phase: &str) -> Value {
    let mut pod = pod(&format!("j-{index}-{number}"), number, version, phase);
    let annotation = "batch.kubernetes.io/job-completion-index";
    pod["metadata"]["annotations"][annotation] = json!(index.to_string());
    pod
}

/// Returns a Pod that failed on a node.
fn failed(index: u32, number: u128, version: u64, code: i32, reason: &str) -> Value {
    let mut pod = pod_of(index, number, version, "Failed");
    pod["spec"]["nodeName"] = json!("node-1");
    pod["status"]["startTime"] = json!("1970-01-12T13:46:41Z");
    pod["status"]["containerStatuses"] = json!([{"name": "main", "state": {"terminated":
        {"exitCode": code, "reason": reason, "finishedAt": "1970-01-12T13:46:45Z"}}}]);
    pod
}

/// Handles a Pod event as informers send it for Jobs with annotations.
fn hear_in_full(world: &mut World, change: Change, pod: &Value) {
    let (finalizer, json) = (TRACKING_FINALIZER, pod.to_string());
    let read = PodDecoder { finalizer }.decode(Object::Json(&json));
    let mut read = read.expect("a good Pod");
    let details = PodDetails::read(Object::Json(&json)).expect("a good Pod");
    read.end = Some(Box::new(details.end()));
    world.hear(change, Observed::Pod(read));
}

fn page(world: &World) -> Option<RecordPage> {
    page_of(world, 0, WantedRows::All)
}

fn page_of(world: &World, from: u32, rows: WantedRows) -> Option<RecordPage> {
    let query = RecordQuery {
        key: key(),
        uid: None,
        from,
        limit: 100,
        rows,
    };
    let question = Question::Records(query);
    let told = world.shard.answer_question(&question, world.now);
    told.into_iter().find_map(|told| told.records)
}

fn reports(world: &mut World) -> Vec<Report> {
    let events = &mut world.shard.outbox.events;
    std::iter::from_fn(|| events.take_report()).collect()
}

/// Returns the recorded end of an index: the outcome, the cause, and the node.
fn end_of(world: &World, index: usize) -> Option<(IndexOutcome, EndCause, String)> {
    let page = page(world).expect("it has a record");
    let end = page.rows[index].end.clone()?;
    Some((end.outcome, end.cause, end.node.to_string()))
}

fn tries(world: &World) -> Vec<Option<u16>> {
    let page = page(world).expect("it has a record");
    page.rows.iter().map(|row| row.tries).collect()
}

#[test]
fn what_a_pod_ended_of_stays_when_it_is_gone() {
    let mut world = world();
    world.hear_job(&recorded(6));
    let killed = failed(1, 7, 9, 137, "OOMKilled");
    world.hear_pod(Change::Applied, &pod_of(1, 7, 8, "Running"));
    hear_in_full(&mut world, Change::Applied, &killed);
    hear_in_full(&mut world, Change::Deleted, &killed);
    let cause = EndCause::new(Some(137), "OOMKilled");
    let end = Some((IndexOutcome::Failed, cause, "node-1".to_owned()));
    assert_eq!(end_of(&world, 1), end);
    assert_eq!(tries(&world), [None, Some(1), None]);
    let page = page(&world).expect("it has a record");
    let row = page.rows[1].end.as_ref().expect("it ended");
    let times = [row.started, row.ended].map(|at| at.map_or(0, |at| at.as_secs()));
    assert_eq!(times, [1_000_001, 1_000_005]);
    // Another Pod of the index that has not finished.
    world.hear_pod(Change::Applied, &pod_of(1, 8, 12, "Running"));
    assert_eq!((tries(&world)[1], end_of(&world, 1)), (Some(2), end));
}

#[test]
fn a_pod_that_goes_is_told_by_its_last_version_or_is_only_gone() {
    let mut world = world();
    world.hear_job(&recorded(6));
    for index in [0, 1] {
        let pod = pod_of(index, 7 + u128::from(index), 8, "Running");
        world.hear_pod(Change::Applied, &pod);
    }
    hear_in_full(&mut world, Change::Deleted, &failed(0, 7, 9, 3, "Error"));
    let cause = EndCause::new(Some(3), "");
    let end = (IndexOutcome::Failed, cause, "node-1".to_owned());
    assert_eq!(end_of(&world, 0), Some(end));
    world.hear_pod(Change::Deleted, &pod_of(1, 8, 10, "Running"));
    let end = (IndexOutcome::Gone, EndCause::default(), String::new());
    assert_eq!(end_of(&world, 1), Some(end));
}

#[test]
fn who_asks_for_last_failures_gets_them_a_part_at_a_time() {
    let mut world = world();
    let mut job = recorded(6);
    job["spec"]["completions"] = json!(70_000);
    world.hear_job(&job);
    hear_in_full(&mut world, Change::Applied, &failed(1, 7, 8, 3, "Error"));
    let mut succeeded = pod_of(2, 8, 8, "Succeeded");
    hear_in_full(&mut world, Change::Applied, &succeeded);
    // A success stays, whatever follows.
    succeeded["metadata"]["resourceVersion"] = json!("9");
    hear_in_full(&mut world, Change::Deleted, &succeeded);
    hear_in_full(&mut world, Change::Applied, &failed(2, 9, 10, 3, "Error"));
    let last = failed(69_999, 10, 8, 4, "Error");
    hear_in_full(&mut world, Change::Applied, &last);
    let part = |from| {
        let page = page_of(&world, from, WantedRows::LastFailed).expect("it has a record");
        let indexes: Vec<u32> = page.rows.iter().map(|row| row.index).collect();
        (indexes, page.next)
    };
    assert_eq!(part(0), (vec![1], Some(65_536)));
    assert_eq!(part(65_536), (vec![69_999], None));
}

#[test]
fn a_pod_that_another_job_gets_has_not_ended() {
    let mut world = world();
    world.hear_job(&recorded(6));
    let mut pod = pod_of(2, 7, 8, "Running");
    world.hear_pod(Change::Applied, &pod);
    pod["metadata"]["resourceVersion"] = json!("9");
    pod["metadata"]["ownerReferences"] = json!([]);
    world.hear_pod(Change::Applied, &pod);
    assert_eq!(end_of(&world, 2), None);
}

#[test]
fn a_pod_that_comes_back_is_no_other() {
    let mut world = world();
    world.hear_job(&recorded(6));
    hear_in_full(
        &mut world,
        Change::Applied,
        &failed(1, 7, 10, 137, "OOMKilled"),
    );
    assert_eq!(tries(&world)[1], Some(1));
    let mut taken = failed(1, 7, 11, 137, "OOMKilled");
    taken["metadata"]["ownerReferences"] = json!([]);
    hear_in_full(&mut world, Change::Applied, &taken);
    hear_in_full(
        &mut world,
        Change::Applied,
        &failed(1, 7, 12, 137, "OOMKilled"),
    );
    assert_eq!(tries(&world)[1], Some(1));
}

#[test]
fn what_is_told_of_an_earlier_try_again_takes_no_later_ones_place() {
    let mut world = world();
    world.hear_job(&recorded(6));
    let first = failed(1, 7, 8, 3, "Error");
    hear_in_full(&mut world, Change::Applied, &first);
    // It ran within the same second.
    let mut second = failed(1, 8, 9, 4, "Error");
    second["spec"]["nodeName"] = json!("node-2");
    hear_in_full(&mut world, Change::Applied, &second);
    hear_in_full(&mut world, Change::Deleted, &first);
    let end = (
        IndexOutcome::Failed,
        EndCause::new(Some(4), ""),
        "node-2".to_owned(),
    );
    assert_eq!(end_of(&world, 1), Some(end));
}

#[test]
fn a_record_that_begins_late_has_what_is_still_there() {
    let mut world = world();
    world.hear_job(&annotated(6, &json!({})));
    world.hear_pod(Change::Applied, &failed(1, 7, 8, 42, "Error"));
    let key = world.shard.store.actors()[0];
    let actor = world.shard.store.get(key).expect("it is there");
    assert!(
        actor.annotated.is_none(),
        "who asks for nothing has nothing"
    );
    assert_eq!(page(&world), None);
    world.hear_job(&recorded(9));
    // Only the Pod's record is known, so there is no node.
    let end = (
        IndexOutcome::Failed,
        EndCause::new(Some(42), ""),
        String::new(),
    );
    assert_eq!(end_of(&world, 1), Some(end));
    assert_eq!(page(&world).map(|page| page.since), Some(world.now.wall));
    world.hear_job(&annotated(10, &json!({"lakh.dev/index-record": "false"})));
    assert_eq!(page(&world), None);
}

#[test]
fn annotations_that_cannot_be_read_or_followed_are_told_once() {
    let mut world = world();
    let odd = json!({"lakh.dev/failure-summary": "yes", "lakh.dev/index-record": ""});
    for version in [6, 7] {
        world.hear_job(&annotated(version, &odd));
        world.do_all();
    }
    let told = |world: &World, reason: &str| {
        let key = world.shard.store.actors()[0];
        let actor = world.shard.store.get(key).expect("it is there");
        let told = actor.told.warnings().into_iter();
        let told = told.filter(|warning| warning.reason == reason);
        told.map(|told| (told.message.to_owned(), told.count))
            .collect::<Vec<_>>()
    };
    let expected = [
        "lakh.dev/index-record: \"\"",
        "lakh.dev/failure-summary: \"yes\"",
    ]
    .map(|odd| {
        format!("annotation {odd} is neither \"true\" nor \"false\"; lakh treats it as \"false\"")
    });
    assert_eq!(told(&world, INVALID), expected.map(|text| (text, 1)));

    let mut world = self::world();
    let mut plain = job(6, &json!({}));
    plain["metadata"]["annotations"] = json!({"lakh.dev/index-record": "true"});
    world.hear_job(&plain);
    world.do_all();
    let why = "lakh ignores annotation lakh.dev/index-record: spec.completionMode is not Indexed";
    assert_eq!(told(&world, REFUSED), [(why.to_owned(), 1)]);
}

#[test]
fn memory_is_given_out_before_it_is_used_and_comes_back() {
    let enough = IndexRecord::most_bytes(3);
    let idle = |version| {
        let mut job = recorded(version);
        job["spec"]["parallelism"] = json!(0);
        job
    };
    let with = |bytes| {
        let mut world = World::with(Settings {
            record_memory: RecordMemory::new(bytes),
            ..Settings::of_jobs(8)
        });
        world.hear_job(&idle(6));
        world.do_all();
        world
    };
    let poor = with(2 * enough - 1);
    assert_eq!(page(&poor), None);
    let key = poor.shard.store.actors()[0];
    let actor = poor.shard.store.get(key).expect("it is there");
    let told = actor.told.warnings();
    let is_told = |told: &Warning<'_>| {
        let message = told.message;
        told.reason == REFUSED && message.contains("free memory of --index-record-memory")
    };
    assert!(told.iter().any(is_told), "{told:?}");
    // One namespace gets half of it.
    let mut rich = with(2 * enough);
    assert!(page(&rich).is_some());
    let read = lakh_wire::decode_job(&idle(900).to_string()).expect("a good Job");
    rich.hear(Change::Deleted, Observed::Job(Box::new(read)));
    rich.do_all();
    assert_eq!(page(&rich), None);
    rich.hear_job(&idle(901));
    assert!(page(&rich).is_some(), "there is room again");
}

#[test]
fn no_namespace_takes_the_memory_of_all() {
    let memory = RecordMemory::new(100);
    let mut budget = RecordBudget::new(memory.clone());
    assert!(budget.reserve("a", 30) && !budget.reserve("a", 30) && budget.reserve("a", 20));
    assert!(budget.reserve("b", 50) && !budget.reserve("c", 1));
    budget.release("a", 30);
    assert!(budget.reserve("c", 30) && !budget.reserve("b", 1));
    budget.release("a", 20);
    assert_eq!(budget.by_namespace.get("a"), None);
    // The rest is available to another shard, too.
    let mut other = RecordBudget::new(memory);
    assert!(other.reserve("d", 15) && !budget.reserve("c", 10) && budget.reserve("c", 5));
    other.release("d", 15);
    assert!(budget.reserve("e", 15) && !other.reserve("d", 1));
}

#[test]
fn failures_are_summed_up_after_a_minute_and_at_the_end_and_only_for_who_asks() {
    for asks in [true, false] {
        let mut world = world();
        let annotations = json!({"lakh.dev/failure-summary": asks.to_string()});
        world.hear_job(&annotated(6, &annotations));
        world.do_all();
        for (index, version) in [(0, 300), (1, 301)] {
            let number = 7 + u128::from(index);
            world.hear_pod(Change::Applied, &pod_of(index, number, version, "Running"));
            hear_in_full(
                &mut world,
                Change::Applied,
                &failed(index, number, version + 10, 137, "OOMKilled"),
            );
        }
        world.do_all();
        let summed_up = |world: &mut World| {
            let mut told = reports(world);
            told.retain(|report| report.reason == "FailureSummary");
            told.into_iter()
                .map(|report| report.message)
                .collect::<Vec<_>>()
        };
        assert_eq!(summed_up(&mut world), Vec::<String>::new());
        world.now = world.now + Duration::from_secs(61);
        world.do_all();
        let expected = match asks {
            true => vec!["2 Pods failed: 2 exit code 137 (OOMKilled)".to_owned()],
            false => Vec::new(),
        };
        assert_eq!(summed_up(&mut world), expected);
        world.hear_pod(Change::Applied, &failed(2, 11, 350, 1, "Error"));
        let mut over = annotated(400, &annotations);
        over["status"] = json!({"failed": 3, "startTime": "1970-01-12T13:46:40Z", "conditions":
            [{"type": "Failed", "status": "True", "reason": "x", "message": "y"}]});
        world.hear_job(&over);
        world.do_all();
        let expected = match asks {
            true => vec!["3 Pods failed: 2 exit code 137 (OOMKilled), 1 exit code 1".to_owned()],
            false => Vec::new(),
        };
        assert_eq!(summed_up(&mut world), expected);
    }
}

#[test]
fn metrics_of_a_job_are_there_as_long_as_it_is() {
    let mut world = world();
    world.hear_job(&annotated(6, &json!({"lakh.dev/job-metrics": "true"})));
    world.do_all();
    let told = |world: &World| {
        let text = world.shard.metrics.text(world.now.monotonic);
        let lines = text.lines().filter(|line| line.starts_with("lakh_job_"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let series = |state: &str| {
        format!("lakh_job_pods{{job_namespace=\"d\",job_name=\"j\",state=\"{state}\"}} 3")
    };
    assert!(
        told(&world).contains(&series("active")),
        "{:?}",
        told(&world)
    );
    assert_eq!(told(&world).len(), 7);
    world.hear_job(&annotated(600, &json!({})));
    world.do_all();
    assert_eq!(told(&world), Vec::<String>::new());
}

#[test]
fn who_is_stopped_has_not_failed_and_who_is_evicted_has() {
    for is_evicted in [false, true] {
        let mut world = world();
        let annotations = json!({"lakh.dev/failure-summary": "true"});
        world.hear_job(&annotated(6, &annotations));
        let deletion = json!("1970-01-12T13:46:41Z");
        let mut running = pod_of(0, 7, 300, "Running");
        world.hear_pod(Change::Applied, &running);
        running["metadata"]["deletionTimestamp"] = deletion.clone();
        running["metadata"]["resourceVersion"] = json!("301");
        world.hear_pod(Change::Applied, &running);
        let mut killed = failed(0, 7, 302, 137, "Error");
        killed["metadata"]["deletionTimestamp"] = deletion;
        if is_evicted {
            killed["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True",
                "reason": "EvictionByEvictionAPI"}]);
        }
        hear_in_full(&mut world, Change::Applied, &killed);
        let key = world.shard.store.actors()[0];
        let actor = world.shard.store.get_mut(key).expect("it is there");
        let annotated = actor.annotated.as_mut().expect("it asks");
        let summary = annotated.summary.as_mut().expect("it asks");
        let told = summary.poll_report(true, world.now);
        let told = told.map(|report| report.message);
        let expected = "1 Pod failed: 1 exit code 137 (EvictionByEvictionAPI)";
        assert_eq!(told.as_deref(), is_evicted.then_some(expected));
    }
}
