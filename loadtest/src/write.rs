//! Bare writer: creates the Pods of a Job and removes the finalizer of each at once.
//!
//! It makes only the calls that no controller can avoid: no watch, no status, no decision. Its throughput on a cluster
//! is the upper bound for any controller there.

use std::{error::Error, path::PathBuf, sync::Arc};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use lakh::{
    client::{self, Patch},
    model::{PodSuffix, TRACKING_FINALIZER, names::Series},
    wire::{ApiError, PodTemplate, decode_job, paths},
};

use crate::scenario::MAIN_JOB;

#[derive(Debug, clap::Args)]
pub(crate) struct WriteArgs {
    /// Kubeconfig of the cluster.
    #[arg(long, value_name = "PATH")]
    kubeconfig: PathBuf,
    /// Namespace of the Job, which must exist.
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Number of Pods to create.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    size: u32,
    /// Maximum number of writes in flight.
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_in_flight: usize,
}

/// Printed on standard output after the last write.
pub(crate) const DONE: &str = "done";

/// Writes all Pods, then waits on standard input.
pub(crate) async fn run(args: WriteArgs) -> Result<(), Box<dyn Error>> {
    let client = client::connect(Some(&args.kubeconfig), None).await?;
    let namespace = args.namespace.as_str();
    let job = client.get(&paths::job(namespace, MAIN_JOB)).await?;
    let job = decode_job(std::str::from_utf8(&job)?)?;
    let template = job.template.ok_or("the Job has no valid Pod template")?;
    let template = PodTemplate::new(&job.job, &template, TRACKING_FINALIZER)?;
    let pods = Arc::new(paths::pods(Some(namespace)));
    let patch = format!(
        r#"{{"metadata":{{"$deleteFromPrimitiveList/finalizers":["{TRACKING_FINALIZER}"]}}}}"#
    );
    let writes = (0..args.size).map(|index| {
        let suffix = PodSuffix::nth(Series::new(job.job.uid, Some(index)), 0);
        let (name, body) = template.pod(Some(index), None, suffix, None);
        let (client, pods, patch) = (client.clone(), Arc::clone(&pods), patch.clone());
        let pod = paths::pod(namespace, &name);
        // Each write has its own task, as in the controller, so that both processors are used.
        async move {
            let written = tokio::spawn(async move {
                client.create(&pods, body).await?;
                client
                    .patch(&pod, Patch::Strategic, patch.into_bytes())
                    .await
            });
            written
                .await
                .unwrap_or_else(|error| Err(ApiError::no_answer(error.to_string())))
        }
    });
    stream::iter(writes)
        .buffer_unordered(args.max_in_flight.max(1))
        .try_for_each(async |_| Ok(()))
        .await?;
    println!("{DONE}");
    // The process stays alive to be measured, until its parent ends it.
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
