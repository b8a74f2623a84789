//! Tests that as many CronJobs and finished Jobs are synced at once as the flags allow. The server does not answer, so
//! that each sync stays in flight.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use lakh::{
    client::{Client, Patch, connect_url},
    embedded::EmbeddedCluster,
    runtime::{Controller, Controllers, Options},
};
use serde_json::json;

use crate::support::{
    self, client, cluster, create, indexed_job, is, job_when, listening, metrics, metrics_when,
    of_queue, options,
    proxy::{Fate, Proxy},
};

const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";

/// More than are ever synced at once here.
const MANY: usize = 8;

/// Counts a controller's calls of this kind while the server answers none. The queue's metrics must agree.
async fn held(cluster: &EmbeddedCluster, call: &'static str, queue: &str, options: Options) -> u32 {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let proxy = Proxy::start(&cluster.url(), move |request| {
        if !request.starts_with(call) {
            return Fate::Passed;
        }
        counted.fetch_add(1, Ordering::SeqCst);
        Fate::Held
    })
    .await;
    let line = connect_url(&proxy.url()).await.expect("the line is good");
    let controller = Controller::start(line, listening(options)).await;
    let controller = controller.expect("a free port");
    metrics_when(&controller, |text| {
        of_queue(text, queue, "adds_total") >= MANY as f64
    })
    .await;
    // All permitted syncs have started by now, and no others start.
    tokio::time::sleep(Duration::from_millis(700)).await;
    let (text, calls) = (metrics(&controller), calls.load(Ordering::SeqCst));
    let of = |name: &str| of_queue(&text, queue, name);
    assert_eq!(of("depth"), MANY as f64 - f64::from(calls), "{text}");
    let longest = of("longest_running_processor_seconds");
    let together = of("unfinished_work_seconds");
    assert!(longest >= 0.6, "{text}");
    assert!((longest..=longest * f64::from(calls)).contains(&together));
    controller.stop().await;
    calls
}

async fn make_due(client: &Client, number: usize) {
    let name = format!("c{number}");
    let cron_job = support::cron_job(&name, [&json!({"schedule": "0 0 1 1 *"}), &json!({})]);
    let body = cron_job.to_string().into_bytes();
    let made = client.create(CRON_JOBS, body).await;
    made.expect("a good CronJob");
    let last = json!({"status": {"lastScheduleTime": "2020-06-01T00:00:00Z"}});
    let status = format!("{CRON_JOBS}/{name}/status");
    let told = client.patch(&status, Patch::Merge, last.to_string().into_bytes());
    told.await.expect("it is taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_cron_jobs_as_may_be() {
    let cluster = cluster(Duration::ZERO).await;
    let client = client(&cluster).await;
    for number in 0..MANY {
        make_due(&client, number).await;
    }
    let post = "POST /apis/batch/v1/namespaces/default/jobs ";
    for concurrent_cron_job_syncs in [1, 3] {
        let options = Options {
            concurrent_cron_job_syncs,
            ..options()
        };
        let calls = held(&cluster, post, "cronjob", options).await;
        assert_eq!(calls as usize, concurrent_cron_job_syncs);
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_finished_jobs_as_may_be() {
    let cluster = cluster(Duration::ZERO).await;
    let client = client(&cluster).await;
    let without_ttl = Options {
        controllers: Controllers {
            ttl: false,
            ..Controllers::default()
        },
        ..options()
    };
    let controller = Controller::start(client.clone(), without_ttl).await;
    let controller = controller.expect("nothing to listen on");
    let names: Vec<String> = (0..MANY).map(|number| format!("j{number}")).collect();
    for name in &names {
        let mut job = indexed_job(name, 1, 1);
        job["spec"]["ttlSecondsAfterFinished"] = 0.into();
        create(&client, &job).await;
    }
    for name in &names {
        job_when(&client, name, |job| is(job, "Complete")).await;
    }
    controller.stop().await;
    let look = "GET /apis/batch/v1/namespaces/default/jobs/j";
    for concurrent_ttl_syncs in [1, 3] {
        let options = Options {
            concurrent_ttl_syncs,
            ..options()
        };
        let calls = held(&cluster, look, "ttl_jobs_to_delete", options).await;
        assert_eq!(calls as usize, concurrent_ttl_syncs);
    }
    cluster.shutdown().await;
}
