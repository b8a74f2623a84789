//! Implements `--fix`: removes the finalizer from Pods that it keeps although their Job is gone or finished.
//!
//! Listed objects may be stale, so each Job is read again, then each Pod. That a Job of this UID is gone or finished
//! never changes. The patch contains UID and version of the Pod, so a Pod that has changed since, or another one of its
//! name, is not patched.
//!
//! Must not: write anything but that patch, or free a Pod of an unfinished Job or of another controller's Job.

use std::collections::{BTreeSet, HashMap};

use futures::{StreamExt as _, stream};
use serde::Serialize;

use lakh_model::{Controller, JobId};
use lakh_wire::{ApiError, Call, ErrorKind, Patch, freeing_patch_of_version, paths};

use super::{
    Asker,
    facts::{Facts, jobs::JobFacts, pods::HeldPod},
    judge::pods::{Stuck, is_meant, over, stuck},
    patient::Patient,
};

/// Concurrent requests: other clients need the server, too.
const AT_ONCE: usize = 8;

/// The results of `--fix`.
#[derive(Debug, Default, Serialize)]
pub(super) struct FixedPods {
    pub(super) pods: Vec<FixedPod>,
}

/// The result for one Pod.
#[derive(Debug, Serialize)]
pub(super) struct FixedPod {
    /// Namespace and name.
    pub(super) pod: String,
    #[serde(flatten)]
    pub(super) fate: PodFate,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "fate")]
pub(super) enum PodFate {
    /// The finalizer was removed.
    Freed {
        /// The finalizer.
        finalizer: &'static str,
    },
    /// The finalizer was already removed, or the Pod is gone.
    FreeAlready,
    /// The finalizer was not removed.
    LeftAlone {
        /// The reason.
        why: String,
    },
}

/// Current permission to free the Pods of Jobs, and Pods without an owner.
struct Permits {
    /// For each Job, the reason against it, if there is one.
    jobs: HashMap<JobId, Result<(), String>>,
    /// The Jobs of a namespace, one of which may match a Pod without an owner.
    beside: HashMap<String, Result<Vec<JobFacts>, String>>,
}

/// Frees all Pods that may be freed, and removes them from `facts`.
pub(super) async fn fix(asker: &Asker, patient: &Patient, facts: &mut Facts) -> FixedPods {
    let stuck = stuck(patient, facts);
    let stuck = stuck.into_iter().filter(|(_, why)| why.is_free_to_go());
    let pods: Vec<HeldPod> = stuck.map(|(pod, _)| pod.clone()).collect();
    let permits = permits(asker, patient, &pods).await;
    let freed = pods.iter().map(|pod| free(asker, &permits, pod));
    let fates: Vec<PodFate> = stream::iter(freed).buffered(AT_ONCE).collect().await;
    let is_free = |fate: &PodFate| !matches!(fate, PodFate::LeftAlone { .. });
    let free = pods.iter().zip(&fates).filter(|(_, fate)| is_free(fate));
    let free: BTreeSet<_> = free.map(|(pod, _)| pod.uid).collect();
    facts.pods.found.retain(|pod| !free.contains(&pod.uid));
    let pods = pods.iter().zip(fates).map(|(pod, fate)| FixedPod {
        pod: format!("{}/{}", pod.namespace, pod.name),
        fate,
    });
    FixedPods {
        pods: pods.collect(),
    }
}

async fn permits(asker: &Asker, patient: &Patient, pods: &[HeldPod]) -> Permits {
    let (mut owners, mut namespaces) = (BTreeSet::new(), BTreeSet::new());
    for pod in pods {
        match &pod.controller {
            Controller::Job(id) => drop(owners.insert(id.clone())),
            Controller::None => drop(namespaces.insert(pod.namespace.to_string())),
            Controller::Other => {}
        }
    }
    let jobs = stream::iter(owners).map(async |id| {
        let permit = permit(asker, patient, &id).await;
        (id, permit)
    });
    let beside = stream::iter(namespaces).map(async |namespace| {
        let call = Call::get(paths::jobs(Some(&namespace)));
        let read = |json: &str| JobFacts::read(json).map(Some);
        let jobs = asker.list(call, read).await;
        (namespace, jobs.map_err(|error| error.message))
    });
    Permits {
        jobs: jobs.buffer_unordered(AT_ONCE).collect().await,
        beside: beside.buffer_unordered(AT_ONCE).collect().await,
    }
}

/// Checks that Pods of a Job may be freed: it is gone, or finished and not another controller's.
async fn permit(asker: &Asker, patient: &Patient, id: &JobId) -> Result<(), String> {
    let path = paths::job(&id.key.namespace, &id.key.name);
    let body = match asker.send(&Call::get(path)).await {
        Ok(body) => body,
        Err(ApiError {
            kind: ErrorKind::NotFound,
            ..
        }) => return Ok(()),
        Err(error) => return Err(format!("could not read its Job: {error}")),
    };
    let job = std::str::from_utf8(&body)
        .map_err(|error| error.to_string())
        .and_then(|json| JobFacts::read(json).map_err(|error| error.to_string()))
        .map_err(|error| format!("could not decode its Job: {error}"))?;
    if job.id.uid != id.uid {
        return Ok(());
    }
    match job.is_at_work() {
        true => Err("its Job is still active".to_owned()),
        false if over(patient, &job) == Stuck::Foreign => {
            Err("another controller manages its Job".to_owned())
        }
        false => Ok(()),
    }
}

async fn free(asker: &Asker, permits: &Permits, listed: &HeldPod) -> PodFate {
    // A Pod may have both finalizers: then the second round removes the other one.
    let mut fate = PodFate::FreeAlready;
    loop {
        let path = paths::pod(&listed.namespace, &listed.name);
        let pod = match asker.send(&Call::get(path.clone())).await {
            Ok(body) => read(&body),
            Err(ApiError {
                kind: ErrorKind::NotFound,
                ..
            }) => return fate,
            Err(error) => Err(error.message),
        };
        let pod = match pod {
            Ok(Some(pod)) if pod.uid == listed.uid => pod,
            Ok(_) => return fate,
            Err(error) => return left(format!("could not read the Pod: {error}")),
        };
        if let Err(why) = may_go(permits, listed, &pod) {
            return left(why);
        }
        let patch = freeing_patch_of_version(pod.uid, pod.version, pod.finalizer);
        let call = Call::patch(paths::unchecked(path), Patch::Strategic, patch);
        match asker.send(&call).await {
            Ok(_) => {
                fate = PodFate::Freed {
                    finalizer: pod.finalizer,
                };
            }
            Err(error) if error.is_of_no_such_object() => return fate,
            Err(error) if error.kind == ErrorKind::Conflict => {
                return left("the Pod has changed; run lakh doctor again".to_owned());
            }
            Err(error) => return left(error.message),
        }
    }
}

/// Checks that a Pod may be freed in its current state.
fn may_go(permits: &Permits, listed: &HeldPod, pod: &HeldPod) -> Result<(), String> {
    if pod.controller != listed.controller {
        return Err("the Pod has another owner now".to_owned());
    }
    match &pod.controller {
        Controller::Job(id) => permits
            .jobs
            .get(id)
            .cloned()
            .unwrap_or_else(|| Err("its Job was not read".to_owned())),
        Controller::None => match permits.beside.get(pod.namespace.as_str()) {
            Some(Ok(jobs)) if is_meant(pod, jobs) => {
                Err("a Job selects the Pod and may adopt it".to_owned())
            }
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(format!("could not read the Jobs of its namespace: {error}")),
            None => Err("the Jobs of its namespace were not read".to_owned()),
        },
        Controller::Other => Err("its owner is not a Job".to_owned()),
    }
}

fn left(why: String) -> PodFate {
    PodFate::LeftAlone { why }
}

fn read(body: &[u8]) -> Result<Option<HeldPod>, String> {
    let json = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    HeldPod::read(json).map_err(|error| error.to_string())
}
