//! `lakh local`: runs an embedded cluster and the controller in this process.

mod args;
mod bars;
mod kubeconfig;
mod look;
mod manifests;
mod progress;
mod schedule;
mod standstill;
mod summary;
mod watch;

use std::{path::Path, time::Duration};

use crate::{
    client::{self, Client, Trust},
    clock::instant,
    embedded::{
        Certificate, ClusterOptions, EmbeddedCluster, FileError, ServeOptions, Users,
        kubelet::KubeletOptions, manifest,
    },
    runtime::{Controller, Options},
};

use super::{FAILED, ModeName, OK, OutputError, Problem, Requests, complain, say};
use kubeconfig::Kubeconfig;
use progress::ProgressDisplay;
use watch::{Followed, Following};

pub(super) use args::LocalArgs;

/// Timeout for finding out why Jobs have failed, or not ended.
const CONCLUSION: Duration = Duration::from_secs(5);

/// Message after a signal.
const INTERRUPTED: &str = "interrupted";

/// Runs the Jobs of the given manifests, or serves.
pub(super) async fn run(args: LocalArgs, mut requests: Requests) -> Result<u8, Problem> {
    let mut running = tokio::select! {
        started = start(&args) => started?,
        () = requests.asked_to_end() => {
            complain(INTERRUPTED);
            return Ok(FAILED);
        }
    };
    let ready = running.controller.ready();
    let work = async {
        if args.filenames.is_empty() {
            let (cluster, kubeconfig) = (&running.cluster, running.kubeconfig.as_ref());
            Ok(serve(ready, cluster, kubeconfig, args.timeout, &mut requests).await)
        } else if running.run.jobs.is_empty() {
            Ok(OK)
        } else {
            follow(&args, &running.run, &mut requests).await
        }
    };
    let code = tokio::select! {
        code = work => code,
        why = running.cluster.saving_failed() => {
            complain(&why);
            Ok(FAILED)
        }
        ended = running.controller.ended() => {
            complain(&ended.to_string());
            Ok(FAILED)
        }
    };
    running.stop().await;
    Ok(code?)
}

/// A running cluster and controller, with the Jobs of the manifests.
struct Running {
    cluster: EmbeddedCluster,
    controller: Controller,
    kubeconfig: Option<Kubeconfig>,
    run: Run,
}

/// The Jobs of the manifests, and the means to follow them.
struct Run {
    client: Client,
    jobs: Vec<Followed>,
    options: Options,
}

impl Running {
    async fn stop(self) {
        self.controller.stop().await;
        self.cluster.shutdown().await;
    }
}

/// Starts everything; the controller comes last, so that nothing has run if a manifest is refused.
async fn start(args: &LocalArgs) -> Result<Running, Problem> {
    let options = args.tunables.clone();
    let options = options.options(ModeName::Both, args.listen())?;
    // On a thread for blocking work: standard input may be a keyboard.
    let (filenames, recursive) = (args.filenames.clone(), args.recursive);
    let objects = tokio::task::spawn_blocking(move || manifests::read(&filenames, recursive));
    let objects = objects.await??;
    let stages = manifest::load_stages(&args.stages)?;
    let cluster_options = ClusterOptions {
        server: ServeOptions {
            port: args.port,
            seed: args.seed,
            faults: args.faults.clone(),
            fault_seed: args.fault_seed,
            state: args.state.clone(),
            users: args.token_file.as_deref().map(users).transpose()?,
            audit_log: args.audit_log.clone(),
            tls: certificate(args),
            ..ServeOptions::default()
        },
        kubelet: KubeletOptions {
            default_duration: args.pod_duration,
            default_exit_code: args.pod_exit_code,
            fail_rate: args.pod_fail_rate,
            stages: stages.into(),
            capacity: args.node_capacity.clone(),
            seed: args.seed,
            ..KubeletOptions::with_nodes(args.nodes)
        },
        terminated_pod_gc_threshold: args.terminated_pod_gc_threshold,
    };
    let cluster = EmbeddedCluster::start(cluster_options)
        .await
        .map_err(|error| match error.get_ref() {
            Some(inner) if inner.is::<FileError>() => error.to_string(),
            _ => format!("--port {}: {error}", args.port),
        })?;
    let url = cluster.url();
    let kubeconfig = Kubeconfig::write(args, &cluster)?;
    let trust = cluster.loopback().map(|loopback| Trust {
        authority: loopback.authority,
        server_name: loopback.server_name,
    });
    let connect = || client::connect_url_as(&url, cluster.token(), trust);
    let client = connect().await?;
    let started = instant();
    let jobs = manifests::create(&client, &objects).await?;
    if jobs.is_empty() {
        manifests::report_cron_jobs(&objects);
    }
    let jobs = jobs.iter().map(|job| Followed::new(job, &options, started));
    let jobs = jobs.collect();
    let controller = Controller::start(connect().await?, options.clone()).await?;
    if let Some(listening) = controller.listening().filter(|_| args.ui) {
        let port = listening.port();
        say(&format!("http://localhost:{port}/ui shows the Jobs"));
    }
    let api = cluster.server().api();
    api.tell_metrics_of(controller.metrics());
    Ok(Running {
        cluster,
        controller,
        kubeconfig,
        run: Run {
            client,
            jobs,
            options,
        },
    })
}

/// Returns the certificate to serve with. Tokens need TLS: kubectl and similar clients send them over nothing else.
fn certificate(args: &LocalArgs) -> Option<Certificate> {
    match (&args.tls_cert_file, &args.tls_private_key_file) {
        (Some(certificate), Some(key)) => Some(Certificate::Given {
            certificate: certificate.clone(),
            key: key.clone(),
        }),
        _ => (args.tls || args.token_file.is_some()).then_some(Certificate::Made),
    }
}

fn users(path: &Path) -> Result<Users, Problem> {
    let wrong = |why: &dyn std::fmt::Display| format!("--token-file {}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    Ok(Users::read(&text).map_err(|why| wrong(&why))?)
}

/// Serves until a signal, or until the time is up.
async fn serve(
    ready: impl Future<Output = ()>,
    cluster: &EmbeddedCluster,
    kubeconfig: Option<&Kubeconfig>,
    timeout: Option<Duration>,
    requests: &mut Requests,
) -> u8 {
    tokio::select! {
        () = ready => {}
        () = requests.asked_to_end() => return OK,
    }
    say(&format!("API server at {}, ready for Jobs", cluster.url()));
    if let Some(kubeconfig) = kubeconfig {
        let path = kubeconfig.path().display();
        say(&format!("  export KUBECONFIG={path}"));
    }
    say("  kubectl apply -f examples/indexed.yaml");
    tokio::select! {
        () = requests.asked_to_end() => {}
        () = time_is_up(timeout) => {}
    }
    OK
}

/// Follows the Jobs until they end, the time is up, or a signal arrives.
async fn follow(args: &LocalArgs, run: &Run, requests: &mut Requests) -> Result<u8, OutputError> {
    let (client, options) = (&run.client, &run.options);
    let mut following = Following::new(run.jobs.clone());
    let mut progress = ProgressDisplay::new(client.url().trim_end_matches('/'));
    let ended = tokio::select! {
        ended = following.run(client, options, |following| progress.show(following)) => ended,
        () = time_is_up(args.timeout) => Err(crate::wire::ApiError::no_answer("the time ran out")),
        () = requests.asked_to_end() => Err(crate::wire::ApiError::no_answer(INTERRUPTED)),
    };
    // A server that does not answer must not delay the exit.
    let _ = tokio::time::timeout(CONCLUSION, following.conclude(client, options)).await;
    summary::print(&following, args.output)?;
    Ok(match ended {
        Ok(()) if following.all_complete() => OK,
        Ok(()) => FAILED,
        Err(error) => {
            complain(&error.message);
            FAILED
        }
    })
}

/// Returns when the time is up; never, if there is no limit.
async fn time_is_up(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}
