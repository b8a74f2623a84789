//! `lakh controller`: the controller against a cluster that is there.

use crate::{cluster, runtime::Controller};

use super::{OK, Problem, args::ControllerArgs, finish::Requests};

/// Runs until it is asked to end.
pub(super) async fn run(args: ControllerArgs, mut requests: Requests) -> Result<u8, Problem> {
    // Whoever asks for the end while the server is slow to answer is heard, too.
    let controller = tokio::select! {
        started = start(args) => started?,
        () = requests.asked_to_end() => return Ok(OK),
    };
    requests.asked_to_end().await;
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
    let client = cluster::connect(kubeconfig.as_deref(), context.as_deref()).await?;
    Ok(Controller::start(client, tunables.options(Some(listen))).await?)
}
