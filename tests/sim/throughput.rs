//! Measures the gain from shards: the computing time of each part of a controller for the same work, as one part or as
//! informers and two shards.
//!
//! On a small machine the API server limits a controller, so the parts' own times are added up here. Parts share
//! nothing: with a core for each, the slowest limits the controller.

use std::time::Duration;

use serde_json::json;

use crate::{casting::Scenario, world::World};

const NAMESPACES: u32 = 8;

/// Jobs in each namespace, one after the other, and Pods per Job.
const JOBS: u32 = 4;
const PODS: u32 = 100;

/// Time by which all Jobs have long ended.
const END: u64 = 600_000;

/// Returns the computing time of each part.
fn times_of_parts(shards: usize) -> Vec<Duration> {
    let mut world = World::new(Scenario {
        shards,
        max_steps: u64::MAX,
        ..Scenario::quiet(1)
    });
    world.measure();
    for namespace in 0..NAMESPACES {
        let name = format!("tenant-{namespace}");
        let body = json!({"metadata": {"name": name}}).to_string();
        assert_eq!(world.ask("POST", "/api/v1/namespaces", &body).0, 201);
        for job in 0..JOBS {
            let container = json!({"name": "main", "image": "busybox"});
            let body = json!({
                "metadata": {"name": format!("job-{job}")},
                "spec": {
                    "completions": PODS, "parallelism": PODS, "completionMode": "Indexed",
                    "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
                },
            });
            let path = format!("/apis/batch/v1/namespaces/{name}/jobs");
            assert_eq!(world.ask("POST", &path, &body.to_string()).0, 201);
        }
    }
    world.run_until(END).expect("no judge finds anything");
    let jobs = String::from_utf8(world.ask("GET", "/apis/batch/v1/jobs", "").1);
    let complete = jobs.expect("JSON").matches(r#""type":"Complete""#).count();
    assert_eq!(complete, (NAMESPACES * JOBS) as usize);
    world.measured()
}

#[test]
#[ignore = "a measurement, see docs/load-tests.md"]
fn shards() {
    let pods = f64::from(NAMESPACES * JOBS * PODS);
    for shards in [1, 2, 1, 2] {
        let times = times_of_parts(shards);
        let slowest = times.iter().max().expect("there are parts");
        let rate = pods / slowest.as_secs_f64();
        println!("{shards} shards: {times:.1?} for {pods} Pods: {rate:.0} Pods a second");
    }
}
