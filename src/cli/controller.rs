//! `lakh controller`: the controller against a cluster that is there.

use crate::{
    cluster,
    runtime::{Controller, Lull, Options},
};

use super::{OK, Problem, args::ControllerArgs, finish::Requests};

/// Runs until it is asked to end. The one thread that runs it rests as `lull` says.
pub(super) async fn run(
    args: ControllerArgs,
    lull: Lull,
    mut requests: Requests,
) -> Result<u8, Problem> {
    // Whoever asks for the end while the server is slow to answer is heard, too.
    let controller = tokio::select! {
        started = start(args, lull) => started?,
        () = requests.asked_to_end() => return Ok(OK),
    };
    requests.asked_to_end().await;
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
    let client = cluster::connect(kubeconfig.as_deref(), context.as_deref()).await?;
    let options = Options {
        lull,
        ..tunables.options(Some(listen))
    };
    Ok(Controller::start(client, options).await?)
}
