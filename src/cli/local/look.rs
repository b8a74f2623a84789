//! Reads a Job, its Pods and its Events.
//!
//! Responsible for: requests to the cluster, limited to an amount that a user wants to read. Must not: judge the
//! result; [`super::standstill`] does.

use serde_json::Value;

use crate::{
    client::Client,
    wire::{ApiError, paths},
};

use super::{
    standstill::{JobObjects, list},
    watch::Followed,
};

/// Maximum number of Pods read per phase; in a bigger Job they stand for all.
const MOST: usize = 500;

/// Reads the current objects of a Job.
pub(super) async fn look(client: &Client, job: &Followed) -> Result<JobObjects, ApiError> {
    let mut objects = JobObjects {
        job: get(client, &paths::job(&job.namespace, &job.name)).await?,
        all_pods: true,
        ..JobObjects::default()
    };
    let manual = objects.job["spec"]["manualSelector"] == true;
    let labels = match manual {
        true => String::new(),
        false => format!(
            "&labelSelector=batch.kubernetes.io/controller-uid%3D{}",
            job.uid
        ),
    };
    let pods = paths::pods(Some(&job.namespace));
    for phase in ["Pending", "Running", "Failed", "Succeeded"] {
        if phase == "Succeeded" && objects.job["status"]["active"].as_u64() > Some(0) {
            // They matter only when nothing runs: they decide whether earlier failures still count.
            objects.all_pods = false;
            continue;
        }
        let path = format!("{pods}?limit={MOST}&fieldSelector=status.phase%3D{phase}{labels}");
        let mut page = get(client, &path).await?;
        objects.all_pods &= page["metadata"]["continue"].is_null();
        objects.pods.extend(items(&mut page).filter(|pod| {
            let mut owners = list(&pod["metadata"]["ownerReferences"]);
            owners.any(|owner| owner["uid"] == *job.uid)
        }));
    }
    let events = paths::events(&job.namespace);
    let path = format!("{events}?fieldSelector=involvedObject.uid%3D{}", job.uid);
    objects.events.extend(items(&mut get(client, &path).await?));
    Ok(objects)
}

async fn get(client: &Client, path: &str) -> Result<Value, ApiError> {
    let answer = client.get(path).await?;
    serde_json::from_slice(&answer)
        .map_err(|error| ApiError::no_answer(format!("invalid response: {error}")))
}

fn items(list: &mut Value) -> impl Iterator<Item = Value> {
    let items = list["items"].as_array_mut().map(std::mem::take);
    items.into_iter().flatten()
}
