//! `lakh controller`: the controller against a cluster that is there.

use crate::{
    cluster,
    runtime::{Controller, Lull, Options},
};

use super::{FAILED, OK, Problem, args::ControllerArgs, complain, finish::Requests};

/// Runs until it is asked to end, or a part of it breaks. The one thread that runs it rests as `lull` says.
pub(super) async fn run(
    args: ControllerArgs,
    lull: Lull,
    mut requests: Requests,
) -> Result<u8, Problem> {
    // Whoever asks for the end while the server is slow to answer is heard, too.
    let mut controller = tokio::select! {
        started = start(args, lull) => started?,
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

async fn start(args: ControllerArgs, lull: Lull) -> Result<Controller, Problem> {
    let ControllerArgs {
        kubeconfig,
        context,
        listen,
        tunables,
    } = args;
    let client = cluster::configure(kubeconfig.as_deref(), context.as_deref()).await?;
    let options = Options {
        lull,
        ..tunables.options(Some(listen))
    };
    Ok(Controller::start(client, options).await?)
}
