//! Discovers whether a server has Workloads and PodGroups, and in which version of their API.
//!
//! Must not: know their use.

use crate::{
    client::Client,
    wire::{ApiError, ErrorKind, SchedulingApi},
};

/// The server has no usable API for gangs.
#[derive(Debug, thiserror::Error)]
pub enum GangError {
    /// It serves no version of the API that has both kinds.
    #[error(
        "the API server does not serve Workload and PodGroup of scheduling.k8s.io (v1alpha2 or later); \
         it must be started with --feature-gates=GenericWorkload=true and a --runtime-config that has \
         the version"
    )]
    NotServed,
    /// Its API discovery failed.
    #[error("could not discover the API group scheduling.k8s.io: {0}")]
    Unknown(String),
}

/// Returns the API version that the server offers.
pub(super) async fn discover(client: &Client) -> Result<SchedulingApi, GangError> {
    let unknown = |error: serde_json::Error| GangError::Unknown(error.to_string());
    let group = client.get(&SchedulingApi::group_path()).await;
    let group = group.map_err(not_served)?;
    for api in SchedulingApi::offered(&group).map_err(unknown)? {
        let kinds = client.get(&api.path()).await.map_err(not_served)?;
        if SchedulingApi::serves_gangs(&kinds).map_err(unknown)? {
            tracing::info!(version = api.api_version(), "gang scheduling is enabled");
            return Ok(api);
        }
    }
    Err(GangError::NotServed)
}

fn not_served(error: ApiError) -> GangError {
    match error.kind {
        ErrorKind::NotFound => GangError::NotServed,
        _ => GangError::Unknown(error.to_string()),
    }
}
