//! `lakh controller`: the controller against a cluster that is there.

use crate::{cluster, runtime::Controller};

use super::{
    FAILED, OK, Problem, args::ControllerArgs, complain, finish::Requests, tunables::ModeName,
};

/// Runs until it is asked to end, or a part of it breaks.
pub(super) async fn run(args: ControllerArgs, mut requests: Requests) -> Result<u8, Problem> {
    // Whoever asks for the end while the server is slow to answer is heard, too.
    let mut controller = tokio::select! {
        started = start(args) => started?,
        () = requests.asked_to_end() => return Ok(OK),
    };
    tokio::select! {
        () = requests.asked_to_end() => {}
        ended = controller.ended() => {
            // Nothing is tidied up: what is found after a crash is what the next one starts from anyway.
            complain(&ended.to_string());
            return Ok(FAILED);
        }
    }
    controller.stop().await;
    Ok(OK)
}

async fn start(args: ControllerArgs) -> Result<Controller, Problem> {
    let ControllerArgs {
        kubeconfig,
        context,
        listen,
        tunables,
    } = args;
    let options = tunables.options(ModeName::ManagedBy, Some(listen))?;
    let client = cluster::configure(kubeconfig.as_deref(), context.as_deref()).await?;
    Ok(Controller::start(client, options).await?)
}
