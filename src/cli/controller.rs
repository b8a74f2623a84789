//! `lakh controller`: runs the controller against an existing cluster.

use std::{env, time::Duration};

use crate::{
    client::Client,
    clock::instant,
    model::Partition,
    runtime::Controller,
    wire::{decode_user_name, self_subject_review},
};

use super::{
    FAILED, ModeName, OK, Problem, Requests, VERSION, args::ControllerArgs, complain, configure,
};

/// Time without action by another controller of a Job after which it counts as gone. The built-in controller acts
/// within seconds, and after a change of its leader within the 15 s of a lease.
const ALONE_AFTER: Duration = Duration::from_secs(60);

/// Runs until a signal, or until a part of the controller breaks.
pub(super) async fn run(args: ControllerArgs, mut requests: Requests) -> Result<u8, Problem> {
    // A signal also ends the start, which may wait for a slow server.
    let begun = instant();
    let mut controller = tokio::select! {
        started = start(args) => started?,
        () = requests.asked_to_end() => return Ok(OK),
    };
    let ready = controller.ready();
    let ready = async move {
        ready.await;
        // Rounded to milliseconds.
        let seconds = (begun.elapsed().as_secs_f64() * 1e3).round() / 1e3;
        tracing::info!(seconds, "ready: the caches are synced");
        std::future::pending().await
    };
    tokio::select! {
        () = requests.asked_to_end() => {}
        ended = controller.ended() => {
            // No cleanup: the next process recovers from any state that a crash leaves.
            complain(&ended.to_string());
            return Ok(FAILED);
        }
        never = ready => match never {},
    }
    tracing::info!("shutting down; waiting for writes in flight");
    controller.stop().await;
    tracing::info!("shut down");
    Ok(OK)
}

async fn start(args: ControllerArgs) -> Result<Controller, Problem> {
    let ControllerArgs {
        kubeconfig,
        context,
        listen,
        expose_debug,
        ui,
        takeover,
        election,
        tunables,
    } = args;
    let mut options = tunables.options(ModeName::ManagedBy, Some(listen))?;
    options.expose_debug = expose_debug;
    options.ui = ui.options()?;
    options.election = election.election(&options)?;
    options.limits.alone_after = (!takeover).then_some(ALONE_AFTER);
    let client = configure(kubeconfig.as_deref(), context.as_deref()).await?;
    let mode = options.mode.to_string();
    let flags = env::args().skip(1).collect::<Vec<_>>().join(" ");
    let server = client.url();
    tracing::info!(version = VERSION, mode, server, flags, "starting");
    if let Some(election) = &options.election {
        let lease = format!("{}/{}", election.namespace, election.name);
        let identity = &election.identity;
        match election.partition {
            Some(Partition { ranges, .. }) => {
                tracing::info!(
                    lease,
                    identity,
                    ranges,
                    "waiting for ranges of namespaces; no writes until then"
                );
            }
            None => tracing::info!(
                lease,
                identity,
                "waiting to become the leader; no writes until then"
            ),
        }
    }
    let who = identity(client.clone());
    let controller = Controller::start(client, options).await?;
    if let Some(listen) = controller.listening() {
        tracing::info!(%listen, "serving probes and metrics");
    }
    if let Some(listen) = controller.showing() {
        tracing::info!(%listen, "serving /ui to clients with a bearer token");
    }
    // Not awaited: a server that is down, or older than 1.28, does not answer this.
    tokio::spawn(who);
    Ok(controller)
}

/// Logs our user name, as the server knows it.
async fn identity(client: Client) {
    let answer = client.send(&self_subject_review()).await;
    if let Some(name) = answer.ok().and_then(|body| decode_user_name(&body)) {
        tracing::info!(user = name, "authenticated to the API server");
    }
}
