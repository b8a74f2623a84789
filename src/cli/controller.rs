//! `lakh controller`: the controller against a cluster that is there.

use crate::{cluster, runtime::Controller};

use super::{OK, UNUSABLE, args::ControllerArgs, complain, finish};

/// Runs until it is asked to end.
pub(super) async fn run(args: ControllerArgs) -> u8 {
    let ControllerArgs {
        kubeconfig,
        context,
        listen,
        tunables,
    } = args;
    // Whoever asks for the end while the server is slow to answer is heard, too.
    let connected = tokio::select! {
        connected = cluster::connect(kubeconfig.as_deref(), context.as_deref()) => connected,
        () = finish::asked_to_end() => return OK,
    };
    let client = match connected {
        Ok(client) => client,
        Err(error) => {
            complain(&error.to_string());
            return UNUSABLE;
        }
    };
    let controller = match Controller::start(client, tunables.options(Some(listen))).await {
        Ok(controller) => controller,
        Err(error) => {
            complain(&error.to_string());
            return UNUSABLE;
        }
    };
    finish::asked_to_end().await;
    controller.stop().await;
    OK
}
