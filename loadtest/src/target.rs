//! Connects to the cluster that a scenario runs on: an embedded or an existing one.
//!
//! Responsible for: the connection, a namespace for each tenant of the run, the server's counts of calls, and the
//! cleanup. Must not: know scenarios.

use std::{
    collections::BTreeMap,
    error::Error,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use lakh::{
    client::{self, Client},
    embedded::{ClusterOptions, EmbeddedCluster, Rule, ServeOptions},
    wire::{ApiError, Call, ErrorKind, paths},
};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    metrics,
    report::Calls,
    seen::{self, Seen},
};

/// Number of calls so far, by verb, resource and whether they were refused.
pub(crate) type CallCounts = BTreeMap<(String, String, bool), u64>;

/// The cluster that a load test runs on.
pub(crate) struct Target {
    pub(crate) client: Client,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) namespace: String,
    /// Another client with Jobs on the cluster, if the scenario has one.
    pub(crate) tenant: Option<Tenant>,
    embedded: Option<EmbeddedCluster>,
}

/// Another client with Jobs on the cluster.
pub(crate) struct Tenant {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

/// HTTP methods that write, and the API's verbs for them.
const WRITES: [(&str, &str); 4] = [
    ("POST", "create"),
    ("PATCH", "patch"),
    ("PUT", "update"),
    ("DELETE", "delete"),
];

const NAMESPACES: &str = "/api/v1/namespaces";

/// Maximum number of retries of a collection delete.
const DELETIONS: u32 = 30;

/// Default retry delay for a busy server; the one that kube-apiserver sends.
const BUSY_FOR: Duration = Duration::from_secs(1);

impl Target {
    /// Starts an embedded cluster.
    pub(crate) async fn embedded(call_latency: Duration) -> Result<Self, Box<dyn Error>> {
        let is_slow = !call_latency.is_zero();
        let options = ClusterOptions {
            server: ServeOptions {
                faults: is_slow
                    .then(|| Rule::latency(call_latency))
                    .into_iter()
                    .collect(),
                ..ServeOptions::default()
            },
            ..ClusterOptions::default()
        };
        let cluster = EmbeddedCluster::start(options).await?;
        let file = format!("lakh-loadtest-{}.kubeconfig", std::process::id());
        let kubeconfig = std::env::temp_dir().join(file);
        cluster.write_kubeconfig(&kubeconfig)?;
        Ok(Self {
            client: client::connect_url(&cluster.url()).await?,
            kubeconfig,
            namespace: "default".to_owned(),
            tenant: None,
            embedded: Some(cluster),
        })
    }

    /// Creates a namespace on an existing cluster.
    pub(crate) async fn remote(kubeconfig: PathBuf) -> Result<Self, Box<dyn Error>> {
        let client = client::connect(Some(&kubeconfig), None).await?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let namespace = format!("lakh-load-{}", now.as_secs());
        create_namespace(&client, &namespace).await?;
        Ok(Self {
            client,
            kubeconfig,
            namespace,
            tenant: None,
            embedded: None,
        })
    }

    /// Creates a namespace for a tenant, which uses a kubeconfig of its own if given.
    pub(crate) async fn add_tenant(
        &mut self,
        kubeconfig: Option<&Path>,
    ) -> Result<(), Box<dyn Error>> {
        let namespace = format!("{}-tenant", self.namespace);
        create_namespace(&self.client, &namespace).await?;
        let client = match kubeconfig {
            Some(_) => client::connect(kubeconfig, None).await?,
            None => self.client.clone(),
        };
        self.tenant = Some(Tenant { client, namespace });
        Ok(())
    }

    fn namespaces(&self) -> impl Iterator<Item = &str> {
        let tenant = self.tenant.iter().map(|tenant| tenant.namespace.as_str());
        std::iter::once(self.namespace.as_str()).chain(tenant)
    }

    /// Returns true for an embedded cluster, which runs in this process.
    pub(crate) fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// Observes the events of the namespaces' Jobs and Pods.
    pub(crate) fn observe(&self, indexes: Option<u32>) -> Arc<Seen> {
        let seen = Arc::new(Seen::new(indexes));
        match &self.embedded {
            Some(cluster) => seen::follow_embedded(&cluster.server().api(), &seen),
            None => {
                for namespace in self.namespaces() {
                    seen::follow_remote(&self.client, namespace, &seen);
                }
            }
        }
        seen
    }

    /// Ends every open watch with 410; possible only on an embedded server.
    pub(crate) fn expire_watches(&self) {
        if let Some(cluster) = &self.embedded {
            cluster.server().api().forget_events();
        }
    }

    /// Returns the server's counts of calls so far.
    pub(crate) async fn call_counts(&self) -> Result<CallCounts, Box<dyn Error>> {
        if let Some(cluster) = &self.embedded {
            let counts = cluster.server().api().request_counts().into_iter();
            return Ok(sum(counts.map(|count| {
                let resource = with_subresource(count.resource, count.subresource);
                (
                    (count.verb.to_owned(), resource, count.code >= 400),
                    count.count,
                )
            })));
        }
        let body = patiently(|| self.client.get("/metrics")).await?;
        Ok(count_calls(&String::from_utf8_lossy(&body)))
    }

    /// Deletes everything that the run has created.
    pub(crate) async fn finish(self) -> Result<(), Box<dyn Error>> {
        if let Some(cluster) = self.embedded {
            std::fs::remove_file(&self.kubeconfig)?;
            cluster.shutdown().await;
            return Ok(());
        }
        let made = self.namespaces().flat_map(|namespace| {
            let background = json!({"propagationPolicy": "Background"});
            [
                (paths::jobs(Some(namespace)), background.clone()),
                (
                    paths::pods(Some(namespace)),
                    json!({"gracePeriodSeconds": 0}),
                ),
                (format!("{NAMESPACES}/{namespace}"), background),
            ]
        });
        for (path, options) in made {
            let mut tries = 0;
            loop {
                let call = Call::delete_collection(&path, options.to_string());
                match self.client.send(&call).await {
                    // With many Pods, the deletion takes longer than the timeout of a call. Pods deleted so far stay
                    // deleted.
                    Err(error) if error.code == 0 && tries < DELETIONS => tries += 1,
                    Err(error) if error.kind != ErrorKind::NotFound => return Err(error.into()),
                    Ok(_) | Err(_) => break,
                }
            }
        }
        Ok(())
    }
}

/// Retries a call while the server is too busy, as other clients do.
pub(crate) async fn patiently<T, A>(call: impl Fn() -> A) -> Result<T, ApiError>
where
    A: Future<Output = Result<T, ApiError>>,
{
    loop {
        match call().await {
            Err(error) if error.kind == ErrorKind::Busy => {
                sleep(error.retry_after.unwrap_or(BUSY_FOR)).await;
            }
            answer => return answer,
        }
    }
}

async fn create_namespace(client: &Client, name: &str) -> Result<(), ApiError> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let body = body.to_string().into_bytes();
    let created = patiently(|| client.create(NAMESPACES, body.clone()));
    created.await.map(drop)
}

/// Returns the calls made between two counts.
pub(crate) fn difference(before: &CallCounts, after: &CallCounts, pods: f64) -> Vec<Calls> {
    let grown = after.iter().filter_map(|(key, count)| {
        let more = count.saturating_sub(before.get(key).copied().unwrap_or(0));
        (more > 0).then_some((key, more))
    });
    let writes = grown.filter(|((verb, ..), _)| WRITES.iter().any(|(_, word)| word == verb));
    let calls = writes.map(|((verb, resource, refused), count)| Calls {
        verb: verb.clone(),
        resource: resource.clone(),
        refused: *refused,
        count,
        per_pod: count as f64 / pods,
    });
    calls.collect()
}

/// Parses the metrics of a real API server.
fn count_calls(text: &str) -> CallCounts {
    let samples = metrics::samples(text, "apiserver_request_total");
    sum(samples.filter_map(|sample| {
        let label = |name: &str| sample.labels.get(name).copied().unwrap_or_default();
        let (_, verb) = WRITES.iter().find(|(http, _)| *http == label("verb"))?;
        let resource = with_subresource(label("resource"), label("subresource"));
        let refused = label("code").parse::<u16>().ok()? >= 400;
        Some((((*verb).to_owned(), resource, refused), sample.value as u64))
    }))
}

fn with_subresource(resource: &str, subresource: &str) -> String {
    match subresource {
        "" => resource.to_owned(),
        subresource => format!("{resource}/{subresource}"),
    }
}

fn sum(counts: impl Iterator<Item = ((String, String, bool), u64)>) -> CallCounts {
    let mut sums = CallCounts::new();
    for (key, count) in counts {
        *sums.entry(key).or_default() += count;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_by_verb_resource_and_refusal() {
        let before = count_calls(
            "apiserver_request_total{code=\"201\",resource=\"pods\",subresource=\"\",verb=\"POST\"} 5\n",
        );
        let after = count_calls(
            "apiserver_request_total{code=\"201\",dry_run=\"\",resource=\"pods\",subresource=\"\",verb=\"POST\"} 15\n\
             apiserver_request_total{code=\"429\",resource=\"pods\",subresource=\"\",verb=\"POST\"} 2\n\
             apiserver_request_total{code=\"200\",resource=\"jobs\",subresource=\"status\",verb=\"PATCH\"} 1\n\
             apiserver_request_total{code=\"200\",resource=\"pods\",subresource=\"\",verb=\"LIST\"} 9\n",
        );
        let calls = difference(&before, &after, 10.0);
        let counts: Vec<_> = calls
            .iter()
            .map(|call| {
                let what = format!("{} {}", call.verb, call.resource);
                (what, call.refused, call.count, call.per_pod)
            })
            .collect();
        assert_eq!(
            counts,
            [
                ("create pods".to_owned(), false, 10, 1.0),
                ("create pods".to_owned(), true, 2, 0.2),
                ("patch jobs/status".to_owned(), false, 1, 0.1),
            ]
        );
    }
}
