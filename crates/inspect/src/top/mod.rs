//! `lakh top`: shows all Jobs of a cluster on a terminal, and one of them with all its indexes, whichever controller
//! runs them.
//!
//! [`model`] is the state of the view as a value: messages of feeds, keys and the time go in. [`draw`] renders it. A
//! thin shell runs both: [`shell`] waits for messages and keys, [`feed`] watches, [`page_look`] reads one Job as
//! `lakh status` does, [`terminal`] takes the terminal and restores it. `docs/top.md` says which objects it reads.
//!
//! Exit codes: 0, it was quit; 2, there is no terminal, flags are invalid, or a signal ended it.

mod draw;
mod feed;
mod layout;
mod model;
mod page_look;
mod records;
mod shell;
mod terminal;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::Args;
use tokio::task::LocalSet;

use lakh_clock::Clock;

use lakh_model::names::is_subdomain;

use super::{Problem, ask::Asker, connect::configure, finish::Requests};
use draw::Looks;
use model::{JobScope, TopModel};
use terminal::TopScreen;

/// Show all Jobs in the terminal, live, and the indexes, failures and Events of a selected Job.
///
/// Works on any cluster, whichever controller runs the Jobs, and only reads from the API server. Press ? for the keys.
/// Exit codes: 0, the user quit; 2, there is no terminal, or a signal ended the command.
#[derive(Args, Debug)]
pub struct TopArgs {
    /// Namespace to show. Default: the namespace of the kubeconfig's context, or default.
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// Show the Jobs of all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Path of the cluster's kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the Pod's own ServiceAccount.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Default: its current context.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Draw with ASCII characters only. Default: only if the locale is not UTF-8.
    #[arg(long)]
    ascii: bool,
}

/// Shows the Jobs until the user quits.
pub async fn run(args: TopArgs, requests: Requests) -> Result<u8, Problem> {
    if let Some(odd) = args.namespace.as_ref().filter(|name| !is_subdomain(name)) {
        return Err(
            format!("--namespace {odd}: must be a valid object name (DNS subdomain)").into(),
        );
    }
    terminal::check()?;
    let client = configure(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let home = args.namespace.as_deref();
    let home = home.unwrap_or(client.default_namespace()).to_owned();
    let scope = match args.all_namespaces {
        true => JobScope::All,
        false => JobScope::Home,
    };
    let (asker, clock) = (Asker::quiet(client), Clock::default());
    let model = TopModel::new(
        asker.url().trim_end_matches('/').to_owned(),
        home,
        scope,
        clock.now(),
    );
    let looks = Looks {
        is_ascii: args.ascii || !terminal::has_utf8(),
        has_colour: terminal::has_colour(),
    };
    let shell = shell::run(asker, model, TopScreen::enter(looks)?, clock, requests);
    // Everything runs on one thread.
    LocalSet::new().run_until(shell).await
}
