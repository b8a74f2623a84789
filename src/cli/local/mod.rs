//! `lakh local`: an embedded cluster and the controller, in this process.

mod args;
mod look;
mod progress;
mod schedule;
mod standstill;
mod summary;
mod watch;

use std::{
    collections::BTreeSet,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

use crate::{
    clock::instant,
    cluster::{self, Client, Trust},
    embedded::{
        Certificate, ClusterOptions, EmbeddedCluster, FileError, ServeOptions, Users,
        kubelet::KubeletOptions,
        manifest::{self, DEFAULT_NAMESPACE, Document, Rejection, Source, resource_path},
    },
    runtime::{Controller, Options},
};

use super::{FAILED, OK, Problem, complain, finish::Requests, say, tunables::ModeName};
use progress::ProgressDisplay;
use watch::{Followed, Following};

pub(super) use args::LocalArgs;

/// How long it may take to find out why Jobs have failed, or not ended.
const CONCLUSION: Duration = Duration::from_secs(5);

/// What is said of a run that somebody ended.
const INTERRUPTED: &str = "interrupted";

/// Runs the Jobs of the manifests that were given, or serves.
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
            let (cluster, kubeconfig) = (&running.cluster, &running.kubeconfig);
            serve(ready, cluster, kubeconfig, args.timeout, &mut requests).await
        } else if running.run.jobs.is_empty() {
            OK
        } else {
            follow(&args, &running.run, &mut requests).await
        }
    };
    let code = tokio::select! {
        code = work => code,
        why = running.cluster.saving_failed() => {
            complain(&why);
            FAILED
        }
        ended = running.controller.ended() => {
            complain(&ended.to_string());
            FAILED
        }
    };
    running.stop().await;
    Ok(code)
}

/// Cluster and controller at work, with the Jobs of the manifests.
struct Running {
    cluster: EmbeddedCluster,
    controller: Controller,
    kubeconfig: Kubeconfig,
    run: Run,
}

/// The Jobs of the manifests, and what it takes to follow them.
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

/// The file by which others find the cluster: kept where somebody asked for it, else gone with us.
struct Kubeconfig {
    path: PathBuf,
    keep: bool,
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        if !self.keep {
            // It leads nowhere any more; that it cannot be removed hurts nobody.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Starts everything; the controller comes last, so that nothing has run if a manifest is refused.
async fn start(args: &LocalArgs) -> Result<Running, Problem> {
    let options = args.tunables.clone();
    let options = options.options(ModeName::Replace, args.listen())?;
    // Standard input may be somebody's keyboard.
    let filenames = args.filenames.clone();
    let documents = tokio::task::spawn_blocking(move || read(&filenames)).await??;
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
    let path = args.kubeconfig_out.clone().unwrap_or_else(|| {
        let port = url.rsplit(':').next().unwrap_or_default();
        std::env::temp_dir().join(format!("lakh-{port}.kubeconfig"))
    });
    cluster
        .write_kubeconfig(&path)
        .map_err(|error| format!("--kubeconfig-out {}: {error}", path.display()))?;
    let kubeconfig = Kubeconfig {
        path,
        keep: args.kubeconfig_out.is_some(),
    };
    let trust = cluster.loopback().map(|loopback| Trust {
        authority: loopback.authority,
        server_name: loopback.server_name,
    });
    let connect = || cluster::connect_url_as(&url, cluster.token(), trust);
    let client = connect().await?;
    let jobs = apply(&client, &documents).await?;
    if jobs.is_empty() {
        tell_of_cron_jobs(&documents);
    }
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

/// The certificate to show. Tokens go over TLS alone: kubectl and others like it send them over nothing
/// else.
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

fn read(filenames: &[PathBuf]) -> Result<Vec<Document>, Problem> {
    let sources = filenames.iter().map(|path| -> Result<Source, Problem> {
        if path != Path::new("-") {
            return Ok(Source::read_file(path)?);
        }
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| format!("standard input: {error}"))?;
        Ok(Source::stdin(text))
    });
    let sources: Vec<Source> = sources.collect::<Result<_, _>>()?;
    let documents = manifest::load(&sources)?;
    for document in &documents {
        resource_path(document, DEFAULT_NAMESPACE)?;
    }
    let runs = |document: &Document| matches!(document.kind.as_str(), "Job" | "CronJob");
    if !filenames.is_empty() && !documents.iter().any(runs) {
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        return Err(format!("{}: there is no Job in it", names.join(", ")).into());
    }
    Ok(documents)
}

/// Creates all objects, in order, as strictly as kubectl; gives the Jobs.
async fn apply(client: &Client, documents: &[Document]) -> Result<Vec<Followed>, Problem> {
    let started = instant();
    make_namespaces(client, documents).await?;
    let mut jobs = Vec::new();
    for document in documents {
        let path = resource_path(document, DEFAULT_NAMESPACE)?.collection;
        let path = format!("{path}?fieldValidation=Strict");
        let (code, answer) = client
            .post(&path, document.body.to_string().into_bytes())
            .await?;
        if !(200..300).contains(&code) {
            return Err(Rejection::new(document, code, &answer).into());
        }
        if document.kind == "Job" {
            let job: Value = serde_json::from_slice(&answer)?;
            jobs.push(Followed::new(&job, started));
        }
    }
    Ok(jobs)
}

/// Where there are CronJobs and no Job, nothing is run: says when it would be. The server has taken them,
/// so their schedules are good.
fn tell_of_cron_jobs(documents: &[Document]) {
    let cron_jobs = documents.iter().filter(|it| it.kind == "CronJob");
    for document in cron_jobs.clone() {
        let namespace = document.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let runs = schedule::in_words(&document.body["spec"]).unwrap_or_default();
        say(&format!("CronJob {namespace}/{}: {runs}", document.name));
    }
    if cron_jobs.count() > 0 {
        say("There is no Job beside, so nothing was run: start `lakh local` without -f, and");
        say("kubectl apply it there; kubectl create job NAME --from=cronjob/NAME runs it at once.");
    }
}

/// On a cluster of one's own, the namespaces that objects name are there.
async fn make_namespaces(client: &Client, documents: &[Document]) -> Result<(), Problem> {
    let declared = |name: &str| {
        let is_it = |it: &Document| it.kind == "Namespace" && it.name.to_string() == name;
        documents.iter().any(is_it)
    };
    let named = documents.iter().filter_map(|it| it.namespace.as_deref());
    let named: BTreeSet<&str> = named.collect();
    for name in named.into_iter().filter(|name| !declared(name)) {
        let body = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name},
        });
        // A name that cannot be a namespace's is complained of with the object that has it.
        client
            .post("/api/v1/namespaces", body.to_string().into_bytes())
            .await?;
    }
    Ok(())
}

/// Serves until it is asked to end, or the time is up.
async fn serve(
    ready: impl Future<Output = ()>,
    cluster: &EmbeddedCluster,
    kubeconfig: &Kubeconfig,
    timeout: Option<Duration>,
    requests: &mut Requests,
) -> u8 {
    tokio::select! {
        () = ready => {}
        () = requests.asked_to_end() => return OK,
    }
    say(&format!("API server at {}, ready for Jobs", cluster.url()));
    say(&format!(
        "  export KUBECONFIG={}",
        kubeconfig.path.display()
    ));
    say("  kubectl apply -f examples/indexed.yaml");
    tokio::select! {
        () = requests.asked_to_end() => {}
        () = time_is_up(timeout) => {}
    }
    OK
}

/// Follows the Jobs to their ends, or to the end of patience.
async fn follow(args: &LocalArgs, run: &Run, requests: &mut Requests) -> u8 {
    let (client, options) = (&run.client, &run.options);
    let mut following = Following::new(run.jobs.clone());
    let mut progress = ProgressDisplay::new(&following);
    let ended = tokio::select! {
        ended = following.run(client, options, |following| progress.show(following)) => ended,
        () = time_is_up(args.timeout) => Err(crate::wire::ApiError::no_answer("the time ran out")),
        () = requests.asked_to_end() => Err(crate::wire::ApiError::no_answer(INTERRUPTED)),
    };
    progress.finish();
    // A server that does not answer keeps nobody.
    let _ = tokio::time::timeout(CONCLUSION, following.conclude(client, options)).await;
    summary::print(&following, args.output);
    match ended {
        Ok(()) if following.all_complete() => OK,
        Ok(()) => FAILED,
        Err(error) => {
            complain(&error.message);
            FAILED
        }
    }
}

/// Returns when the time is up; never, if there is no limit.
async fn time_is_up(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}
