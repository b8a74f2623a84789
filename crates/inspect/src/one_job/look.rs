//! Reads a Job and its surroundings from the API server with the user's rights, and no more than is needed.
//!
//! Succeeded and running Pods are not read where they show nothing: in a Job of 100,000 Pods they are nearly all. Reads
//! that are forbidden are recorded as errors; only the Job itself must be readable.
//!
//! Must not: judge, or write anything.

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Event, ResourceQuota},
};

use lakh_client::Result;
use lakh_model::{IndexSet, Job, JobKey, RestartPolicy, Time};
use lakh_wire::{ApiError, Call, Object, OddAnswer, PodDetails, paths};

use lakh_model::SYSTEM_NAMESPACE;

use crate::{
    ask::{Asker, Pages, Sight, Unseen},
    objects::ServerLease,
};

use super::{census::PodCensus, job::JobDetails, pending::PendingKind, waits::Waits};

/// Amount of data to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The Job and its Pods.
    Pods,
    /// All objects that may show why it does not progress.
    Reasons,
}

/// The objects that were read.
#[derive(Debug)]
pub(crate) struct JobSight {
    /// Time by the server's clock; by ours if its answer has none.
    pub(crate) now: Time,
    pub(crate) job: JobDetails,
    pub(crate) pods: PodCensus,
    /// Errors of reading the Pods.
    pub(crate) pods_unseen: Vec<Unseen>,
    /// Events about the Job.
    pub(crate) events: Sight<Event>,
    /// Events about a Pod that waits for the creation of its containers.
    pub(crate) pod_events: Sight<Event>,
    /// The quotas of its namespace.
    pub(crate) quotas: Sight<ResourceQuota>,
    /// The Lease that shows that the API server cannot write, if it does and may be seen.
    pub(crate) stuck_server: Option<ServerLease>,
}

impl JobSight {
    /// Creates one with a Job alone.
    pub(crate) fn of(job: JobDetails, now: Time) -> Self {
        Self {
            now,
            job,
            pods: PodCensus::default(),
            pods_unseen: Vec::new(),
            events: Sight::default(),
            pod_events: Sight::default(),
            quotas: Sight::default(),
            stuck_server: None,
        }
    }

    /// Returns all errors.
    pub(crate) fn unseen(&self) -> Vec<Unseen> {
        let pods = self.pods_unseen.iter();
        let others = [
            &self.events.unseen,
            &self.pod_events.unseen,
            &self.quotas.unseen,
        ];
        pods.chain(others.into_iter().flatten()).cloned().collect()
    }
}

/// Reads a Job and the objects of this depth.
pub(crate) async fn look(asker: &Asker, key: &JobKey, depth: Depth) -> Result<JobSight> {
    let (job, now) = read_job(asker, key).await?;
    let mut sight = JobSight::of(job, now);
    if depth == Depth::Pods {
        look_at_pods(asker, &mut sight, depth).await;
        return Ok(sight);
    }
    let uid = sight.job.job.uid.to_string();
    let quotas = paths::collection("/api/v1", Some(&key.namespace), "resourcequotas");
    let namespace = &key.namespace;
    let (events, quotas, stuck_server, ()) = tokio::join!(
        events(asker, namespace, &uid),
        asker.list_whole(quotas),
        stuck_server(asker, sight.now),
        look_at_pods(asker, &mut sight, depth),
    );
    sight.stuck_server = stuck_server;
    sight.events.take("Events of the Job", events);
    let what = format!("ResourceQuotas of namespace {namespace}");
    sight.quotas.take(&what, quotas);
    // Only a Pod's Events show why a kubelet cannot create its containers yet.
    if let Some((_, group)) = sight.pods.waiting_for(PendingKind::Making) {
        let uid = group.example.uid.to_string();
        let events = self::events(asker, namespace, &uid).await;
        let what = format!("Events of Pod {}", group.example.name);
        sight.pod_events.take(&what, events);
    }
    Ok(sight)
}

/// Reads the Job alone.
pub(crate) async fn read_job(asker: &Asker, key: &JobKey) -> Result<(JobDetails, Time)> {
    let path = paths::job(&key.namespace, &key.name);
    let (body, now) = asker.get_at(&path).await?;
    let odd = |why: String| ApiError::no_answer(format!("the Job cannot be read: {why}"));
    let json = std::str::from_utf8(&body).map_err(|error| odd(error.to_string()))?;
    let job = JobDetails::read(json).map_err(|error| odd(error.to_string()))?;
    Ok((job, now))
}

async fn events(asker: &Asker, namespace: &str, uid: &str) -> Result<Vec<Event>> {
    let events = paths::events(namespace);
    let path = format!("{events}?fieldSelector=involvedObject.uid%3D{uid}");
    asker.list_whole(path).await
}

/// Finds the Lease of an API server that has stopped to renew it. Without the right to list Leases there is none.
async fn stuck_server(asker: &Asker, now: Time) -> Option<ServerLease> {
    let leases = "/apis/coordination.k8s.io/v1";
    let path = paths::collection(leases, Some(SYSTEM_NAMESPACE), "leases");
    let leases: Vec<Lease> = asker.list_whole(path).await.ok()?;
    let leases = leases.iter();
    let of_servers = leases.filter_map(|lease| ServerLease::read(lease, now));
    let (newest, is_stuck) = ServerLease::newest(of_servers)?;
    is_stuck.then_some(newest)
}

/// Field selectors of Pods by phase: no Pod is read if the Job's status shows as much.
const TROUBLED: &str = "status.phase!=Succeeded,status.phase!=Running";
const UNFINISHED: &str = "status.phase!=Succeeded";
const RUNNING: &str = "status.phase=Running";
const SUCCEEDED: &str = "status.phase=Succeeded";

async fn look_at_pods(asker: &Asker, sight: &mut JobSight, depth: Depth) {
    let job = sight.job.clone();
    if ask(asker, sight, first_phases(&job), Pages::Small).await {
        if needs_successes(sight, depth) {
            sight.pods.has_successes = ask(asker, sight, SUCCEEDED, Pages::Small).await;
        }
        let status = job.status();
        let known = status.ready.unwrap_or(0).saturating_add(sight.pods.pending);
        let is_unready = status.active > known && first_phases(&job) == TROUBLED;
        if is_unready && depth == Depth::Reasons {
            // Some running Pods are not ready: a sample probably shows the cause for all of them.
            ask(asker, sight, RUNNING, Pages::First).await;
        }
        if !job.has_begun() && depth == Depth::Reasons {
            // Without a status, any Pod shows that a controller works on the Job.
            for phases in [RUNNING, SUCCEEDED] {
                if sight.pods.seen == 0 {
                    ask(asker, sight, phases, Pages::First).await;
                }
            }
        }
    }
    sight.pods.finish();
}

/// Returns true if succeeded Pods are needed.
fn needs_successes(sight: &JobSight, depth: Depth) -> bool {
    let JobSight { now, job, pods, .. } = sight;
    if job.end().is_some() || job.job.spec.suspend {
        return false;
    }
    // A success ends a run of failures, and so the backoff.
    let ends_wait = job.status().succeeded > 0 && Waits::seeming(job, pods, *now).job.is_some();
    // These Pods may be kept by finalizers, or may not be counted.
    let is_still = job.status().active == 0 && job.has_begun();
    let is_going = job.verdict().is_some() || job.job.deleting;
    ends_wait || (depth == Depth::Reasons && (is_still || is_going))
}

/// Returns true if a look lists the Job's running Pods, too.
pub(crate) fn lists_running(job: &JobDetails) -> bool {
    first_phases(job) == UNFINISHED
}

fn first_phases(job: &JobDetails) -> &'static str {
    let Job { spec, status, .. } = &job.job;
    let restarts = spec.restart_policy == RestartPolicy::OnFailure;
    let is_going = status.terminating.unwrap_or(0) > 0 || job.job.deleting;
    match restarts || is_going || job.verdict().is_some() {
        true => UNFINISHED,
        false => TROUBLED,
    }
}

/// Reads the Job's Pods in some phases; returns true if the server answered.
async fn ask(asker: &Asker, sight: &mut JobSight, phases: &str, pages: Pages) -> bool {
    let JobSight { job, pods, .. } = sight;
    let (path, uid) = (pods_path(job, phases), job.job.uid);
    let before = pods.clone();
    let seen = asker.again(async || {
        *pods = before.clone();
        let take = |object: Object<'_>| {
            let pod = PodDetails::read(object)?;
            // The selector may match other owners' Pods.
            if pod.owner == Some(uid) {
                pods.take(pod);
            }
            Ok::<(), OddAnswer>(())
        };
        let call = Call::get_compact(path.clone());
        asker.each(call, pages, take).await
    });
    match seen.await {
        Ok(_) => true,
        Err(error) => {
            let what = format!("Pods of namespace {}", job.job.key.namespace);
            sight.pods_unseen.push(Unseen::new(&what, &error));
            false
        }
    }
}

fn pods_path(job: &JobDetails, phases: &str) -> String {
    let JobKey { namespace, .. } = &job.job.key;
    paths::pods_of_job(namespace, job.job.uid, job.selector.as_ref(), phases)
}

/// Returns the indexes with a running Pod. Only the metadata of these Pods are read.
pub(crate) async fn running_indexes(asker: &Asker, job: &JobDetails) -> Result<IndexSet> {
    let (path, uid) = (pods_path(job, RUNNING), job.job.uid);
    asker
        .again(async || {
            let mut indexes = IndexSet::default();
            let take = |object: Object<'_>| {
                let pod = PodDetails::read(object)?;
                let is_live = pod.owner == Some(uid) && pod.deletion.is_none();
                if let Some(index) = pod.index.filter(|_| is_live) {
                    indexes.insert(index);
                }
                Ok::<(), OddAnswer>(())
            };
            let call = Call::list_compact_metadata(path.clone());
            asker.each(call, Pages::Small, take).await?;
            Ok(indexes)
        })
        .await
}
