//! Runs a scenario: starts cluster and controller, observes them, and returns the report.
//!
//! Figures are reported, never judged here.

use std::{
    error::Error,
    time::{Duration, SystemTime},
};

use lakh::model::Time;
use tokio::{sync::watch, time::timeout};

use crate::{
    child::Running,
    drive::{Drive, create},
    process::{Process, Usage},
    report::{Indexes, Machine, Outcome, ProcessReport, Report, Settings, rounded},
    sampler::Sampler,
    scenario::{ALONE, BESIDE, Scenario, Who},
    seen::Counts,
    target::{Target, difference},
};

/// Maximum lag of Pod events behind Job events.
const LAST_NEWS: Duration = Duration::from_secs(5);

/// Runs the named scenario until its Jobs end or its time is over.
pub(crate) async fn run(name: &str, scenario: &Scenario) -> Result<Report, Box<dyn Error>> {
    if let Some(objection) = scenario.objection() {
        return Err(objection.into());
    }
    let load = scenario.load();
    let mut target = match &load.kubeconfig {
        Some(kubeconfig) => Target::remote(kubeconfig.clone()).await?,
        None => Target::embedded(scenario.call_latency()).await?,
    };
    if let Scenario::Neighbours(neighbours) = scenario {
        let kubeconfig = neighbours.tenant_kubeconfig.as_deref();
        target.add_tenant(kubeconfig).await?;
    }
    let hollow_node = match &load.kubelet_kubeconfig {
        Some(kubeconfig) => Some(Running::kubelet(kubeconfig, &target.client).await?),
        None => None,
    };
    let controllers = load.controller_kubeconfig.as_ref();
    let controllers = controllers.unwrap_or(&target.kubeconfig);
    let is_writer = matches!(scenario, Scenario::Writer(_));
    let mut child = match load.controller {
        // The writer starts later, once its Job exists, and exits after its writes.
        _ if is_writer => None,
        Who::Lakh => Some(Running::lakh(load, controllers).await?),
        Who::External => match &load.controller_command {
            Some(program) => Some(Running::other(load, program, controllers).await?),
            None => None,
        },
    };
    if is_writer {
        // The writer reads the Job first, so it must exist; its creation is not part of the run.
        create(&target, scenario.jobs()).await?;
    }
    let seen = target.observe(scenario.indexes());
    if is_writer {
        child = Some(Running::writer(
            load,
            &target.kubeconfig,
            &target.namespace,
        )?);
    }
    let mut processes = processes(scenario, &target, child.as_ref());
    processes.extend(hollow_node.iter().map(|node| node.process("hollow node")));
    let before = usages(&processes);
    let calls_before = target.call_counts().await?;
    let started = SystemTime::now();

    let (stop, stopped) = watch::channel(false);
    let sampler = Sampler {
        seen: seen.clone(),
        processes: processes.clone(),
        metrics: child.as_ref().and_then(|child| child.metrics),
        period: load.sample_period,
    };
    let sampling = tokio::spawn(sampler.run(stopped));
    let mut phases = Vec::new();
    let drive = Drive {
        scenario,
        target: &target,
        seen: &seen,
        child: child.as_mut(),
        phases: &mut phases,
    };
    let in_time = timeout(load.timeout, drive.run()).await;
    let wall = seen.started().elapsed().as_secs_f64();
    let after = usages(&processes);
    stop.send_replace(true);
    let samples = sampling.await?;
    let calls_after = target.call_counts().await?;
    let timed_out = in_time.is_err();
    if let Ok(result) = in_time {
        result?;
    }
    let all_counted = |counts: Counts| counts.counted >= counts.created;
    // If Pods are deleted, some are never counted.
    let _ = timeout(LAST_NEWS, seen.until(all_counted)).await;
    drop((child, hollow_node));

    let report = {
        let state = seen.lock();
        let counts = state.counts;
        // Per Pod that ever existed: these made up the load.
        let pods = f64::from(counts.created.max(1));
        Report {
            format: Report::FORMAT,
            scenario: name.to_owned(),
            started: rfc3339(started),
            machine: Machine::this(),
            settings: settings(scenario),
            outcome: Outcome {
                timed_out,
                jobs_complete: counts.complete,
                jobs_failed: counts.failed_jobs,
                pods_created: counts.created,
                pods_succeeded: counts.succeeded,
                pods_failed: counts.failed,
                pods_counted: counts.counted,
            },
            wall_seconds: rounded(wall),
            pods_per_second: rounded(pods / wall),
            phases,
            processes: process_reports(&processes, &before, &after, pods),
            calls: difference(&calls_before, &calls_after, pods),
            finished_to_counted: state.finished_to_counted.since(0),
            created_to_first_pod: state.created_to_first_pod.since(0),
            waits: [ALONE, BESIDE]
                .into_iter()
                .filter_map(|when| state.waits(when))
                .collect(),
            indexes: scenario.indexes().map(|_| Indexes::of(&state.index_done)),
            samples,
        }
    };
    if !load.keep
        && let Err(error) = target.finish().await
    {
        // A failed cleanup must not discard the measurements.
        eprintln!("could not clean up the cluster: {error}");
    }
    Ok(report)
}

/// Returns the measured processes: the controller, this process, and those of `--process`.
fn processes(scenario: &Scenario, target: &Target, child: Option<&Running>) -> Vec<Process> {
    let load = scenario.load();
    let mut processes = Vec::new();
    processes.extend(child.map(|child| child.process("controller")));
    processes.extend(load.controller_pid.map(|pid| Process {
        name: "controller".to_owned(),
        pid,
    }));
    if target.is_embedded() {
        processes.push(Process::own("embedded cluster"));
    } else {
        processes.push(Process::own("load test"));
    }
    processes.extend(load.processes.iter().cloned());
    processes
}

fn usages(processes: &[Process]) -> Vec<Usage> {
    let usages = processes.iter().map(|process| process.usage());
    usages.map(Result::unwrap_or_default).collect()
}

fn process_reports(
    processes: &[Process],
    before: &[Usage],
    after: &[Usage],
    pods: f64,
) -> Vec<ProcessReport> {
    let figures = processes.iter().zip(before.iter().zip(after));
    let reports = figures.map(|(process, (before, after))| {
        let cpu = after.cpu_seconds - before.cpu_seconds;
        ProcessReport {
            name: process.name.clone(),
            cpu_seconds: rounded(cpu),
            cpu_ms_per_pod: rounded(cpu * 1000.0 / pods),
            peak_rss_mib: rounded(after.peak_rss_mib),
        }
    });
    reports.collect()
}

fn settings(scenario: &Scenario) -> Settings {
    let load = scenario.load();
    Settings {
        size: load.size,
        jobs: load.jobs,
        parallelism: load.parallelism.unwrap_or(load.size / load.jobs),
        max_in_flight: load.max_in_flight,
        pod_duration_ms: load.pod_duration.as_millis() as u64,
        call_latency_ms: scenario.call_latency().as_millis() as u64,
        cluster: match load.kubeconfig {
            Some(_) => "by kubeconfig".to_owned(),
            None => "embedded".to_owned(),
        },
        controller: match (scenario, load.controller) {
            (Scenario::Writer(_), _) => "bare writer".to_owned(),
            (_, Who::Lakh) => "lakh".to_owned(),
            (_, Who::External) => "external".to_owned(),
        },
        controller_flags: load.controller_flags.clone(),
    }
}

fn rfc3339(at: SystemTime) -> String {
    let since_epoch = at.duration_since(SystemTime::UNIX_EPOCH);
    (Time::default() + since_epoch.unwrap_or_default()).to_rfc3339()
}
