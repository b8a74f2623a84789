//! `lakh controller`: the controller against a cluster that is there.

use std::env;

use crate::{
    clock::instant,
    cluster,
    runtime::{Controller, Mode},
};

use super::{
    FAILED, OK, Problem,
    args::{ControllerArgs, VERSION},
    complain,
    finish::Requests,
    tunables::ModeName,
};

/// Runs until it is asked to end, or a part of it breaks.
pub(super) async fn run(args: ControllerArgs, mut requests: Requests) -> Result<u8, Problem> {
    // Whoever asks for the end while the server is slow to answer is heard, too.
    let begun = instant();
    let mut controller = tokio::select! {
        started = start(args) => started?,
        () = requests.asked_to_end() => return Ok(OK),
    };
    let ready = controller.ready();
    let ready = async move {
        ready.await;
        let seconds = begun.elapsed().as_secs_f32();
        tracing::info!(seconds, "ready: the caches are filled");
        std::future::pending().await
    };
    tokio::select! {
        () = requests.asked_to_end() => {}
        ended = controller.ended() => {
            // Nothing is tidied up: what is found after a crash is what the next one starts from anyway.
            complain(&ended.to_string());
            return Ok(FAILED);
        }
        never = ready => match never {},
    }
    tracing::info!("asked to end; writes under way finish");
    controller.stop().await;
    tracing::info!("ended");
    Ok(OK)
}

async fn start(args: ControllerArgs) -> Result<Controller, Problem> {
    let ControllerArgs {
        kubeconfig,
        context,
        listen,
        election,
        tunables,
    } = args;
    let mut options = tunables.options(ModeName::ManagedBy, Some(listen))?;
    options.election = election.election(&options)?;
    let client = cluster::configure(kubeconfig.as_deref(), context.as_deref()).await?;
    let mode = match &options.mode {
        Mode::Replace => "replace".to_owned(),
        Mode::ManagedBy(name) => format!("managed-by {name}"),
    };
    let flags = env::args().skip(1).collect::<Vec<_>>().join(" ");
    let server = client.url();
    tracing::info!(version = VERSION, mode, server, flags, "starting");
    if let Some(election) = &options.election {
        let lease = format!("{}/{}", election.namespace, election.name);
        tracing::info!(
            lease,
            identity = election.identity,
            "writing waits for the lead"
        );
    }
    let controller = Controller::start(client, options).await?;
    if let Some(listen) = controller.listening() {
        tracing::info!(%listen, "probes are answered");
    }
    Ok(controller)
}
