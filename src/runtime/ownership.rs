//! Which Pods should come to a Job, and which should leave it.
//!
//! Two small stores: the selectors of the Jobs that are at work, and the labels of Pods that have
//! no owner. Of Pods that have one nothing is kept; their labels are compared as they are read.
//! What is to be done comes out as [`Chore`]s.
//!
//! Must not: send anything, or know how a Job is doing.

use std::{collections::BTreeMap, sync::Arc};

use compact_str::CompactString;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;

use crate::{
    model::{Job, JobKey, PodFlags, Uid},
    wire::{Controller, DecodedPod, Labels, Selector},
};

use super::store::Orphan;

/// Something to be done to a Pod, outside of any Job's turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chore {
    /// It has no owner: our finalizer goes.
    Free(Orphan),
    /// It has no owner and a Job means it: it becomes the Job's.
    Adopt(Claim),
    /// Its Job no longer means it: it is no longer the Job's.
    Release(Claim),
}

/// A Pod and a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) job: Uid,
    pub(super) key: JobKey,
    pub(super) pod: Uid,
    pub(super) name: CompactString,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Ownership(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    namespaces: BTreeMap<CompactString, Namespace>,
    /// Pods that were adopted by the version of the answer, until the watch tells of it: what it
    /// tells of them before is no longer true.
    adopted: HashMap<Uid, u64>,
    /// Pods that are being adopted, until it is known what came of it, and by whom.
    claims: HashMap<Uid, Vec<Uid>>,
    /// How many Pods a Job is adopting.
    claiming: HashMap<Uid, usize>,
}

#[derive(Debug, Default)]
struct Namespace {
    jobs: BTreeMap<Uid, Claimant>,
    ownerless: BTreeMap<Uid, Ownerless>,
}

#[derive(Debug)]
struct Claimant {
    key: JobKey,
    selector: Arc<Selector>,
}

#[derive(Debug)]
struct Ownerless {
    name: CompactString,
    labels: Labels,
    version: u64,
}

impl Ownership {
    /// Takes in a version of a Job of ours; gives the Pods that it should adopt.
    pub(super) fn job(&self, job: &Job, selector: Option<&Arc<Selector>>) -> Vec<Chore> {
        let mut known = self.0.lock();
        let at_work = !job.deleting && !job.status.is_finished();
        let Some(selector) = selector.filter(|_| at_work) else {
            known.forget_job(job.uid, &job.key.namespace);
            return Vec::new();
        };
        let namespace = known.namespace(&job.key.namespace);
        if namespace.jobs.contains_key(&job.uid) {
            // A Job's selector never changes.
            return Vec::new();
        }
        let meant = namespace.ownerless.iter();
        let meant = meant.filter(|(_, pod)| selector.matches(&pod.labels));
        let chores = meant.map(|(pod, ownerless)| {
            Chore::Adopt(Claim {
                job: job.uid,
                key: job.key.clone(),
                pod: *pod,
                name: ownerless.name.clone(),
            })
        });
        let chores: Vec<Chore> = chores.collect();
        let claimant = Claimant {
            key: job.key.clone(),
            selector: Arc::clone(selector),
        };
        namespace.jobs.insert(job.uid, claimant);
        known.claim(&chores);
        chores
    }

    /// Whether a Job is adopting Pods, and so does not yet know how many it has.
    pub(super) fn is_claiming(&self, job: Uid) -> bool {
        self.0.lock().claiming.contains_key(&job)
    }

    /// Takes in that an adoption came to nothing, for now.
    pub(super) fn give_up(&self, claim: &Claim) {
        let mut known = self.0.lock();
        // Of a Pod that was adopted, the watch will tell by whom.
        if !known.adopted.contains_key(&claim.pod) {
            known.unclaim(claim.pod);
        }
    }

    /// Takes in that Jobs are gone.
    pub(super) fn jobs_gone(&self, gone: &[Uid]) {
        let mut known = self.0.lock();
        for namespace in known.namespaces.values_mut() {
            for job in gone {
                namespace.jobs.remove(job);
            }
        }
        for job in gone {
            known.claiming.remove(job);
        }
        known.tidy();
    }

    /// Takes in a version of a Pod; gives what is to be done about it.
    pub(super) fn pod(&self, pod: &DecodedPod) -> Vec<Chore> {
        let uid = pod.record.uid;
        let mut known = self.0.lock();
        match &pod.controller {
            Controller::None => known.ownerless(pod),
            Controller::Job { uid: job, .. } => {
                known.forget_pod(uid, &pod.namespace);
                let release = known.strays(pod, *job);
                release.map(Chore::Release).into_iter().collect()
            }
            Controller::Other => {
                known.forget_pod(uid, &pod.namespace);
                Vec::new()
            }
        }
    }

    /// Takes in that a Pod is gone.
    pub(super) fn pod_gone(&self, pod: Uid, namespace: &str) {
        self.0.lock().forget_pod(pod, namespace);
    }

    /// Takes in that a list of Pods showed these and no others as of `version`.
    pub(super) fn retain_pods(&self, scope: Option<&str>, listed: &HashSet<Uid>, version: u64) {
        let mut known = self.0.lock();
        for (name, namespace) in &mut known.namespaces {
            if scope.is_none_or(|scope| name == scope) {
                namespace
                    .ownerless
                    .retain(|uid, pod| listed.contains(uid) || pod.version > version);
            }
        }
        let unlisted = |uid: &Uid| !listed.contains(uid);
        let lost: Vec<Uid> = known.claims.keys().copied().filter(unlisted).collect();
        for pod in lost {
            known.unclaim(pod);
        }
        known
            .adopted
            .retain(|uid, at| listed.contains(uid) || *at > version);
        known.tidy();
    }

    /// Takes in the answer to an adoption.
    pub(super) fn adopted(&self, claim: &Claim, version: u64) {
        let mut known = self.0.lock();
        let namespace = known.namespaces.get_mut(&claim.key.namespace);
        let ownerless = namespace.and_then(|found| found.ownerless.remove(&claim.pod));
        // If it is not known as ownerless any more, the watch was faster.
        if ownerless.is_some() {
            known.adopted.insert(claim.pod, version);
        }
    }

    /// Whether a chore is still to be done, as far as is known.
    pub(super) fn wants(&self, chore: &Chore) -> bool {
        let known = self.0.lock();
        let namespace = |claim: &Claim| known.namespaces.get(&claim.key.namespace);
        match chore {
            Chore::Free(orphan) => !known.adopted.contains_key(&orphan.uid),
            Chore::Adopt(claim) => namespace(claim).is_some_and(|found| {
                found.ownerless.contains_key(&claim.pod) && found.jobs.contains_key(&claim.job)
            }),
            Chore::Release(claim) => {
                namespace(claim).is_some_and(|found| found.jobs.contains_key(&claim.job))
            }
        }
    }
}

impl Known {
    fn namespace(&mut self, name: &CompactString) -> &mut Namespace {
        self.namespaces.entry(name.clone()).or_default()
    }

    /// Keeps a Pod without owner; gives the adoptions by all Jobs that mean it. Of two, the first
    /// has it: the server takes no second controller.
    fn ownerless(&mut self, pod: &DecodedPod) -> Vec<Chore> {
        let record = &pod.record;
        let labels = pod.labels.as_deref().map(Labels::read).unwrap_or_default();
        if record.has(PodFlags::DELETING) || labels.is_empty() {
            self.forget_pod(record.uid, &pod.namespace);
            return Vec::new();
        }
        if let Some(adopted) = self.adopted.get(&record.uid) {
            if *adopted >= record.resource_version {
                return Vec::new();
            }
            self.adopted.remove(&record.uid);
        }
        self.unclaim(record.uid);
        let namespace = self.namespace(&pod.namespace);
        let jobs = namespace.jobs.iter();
        let meaning = jobs.filter(|(_, job)| job.selector.matches(&labels));
        let chores = meaning.map(|(job, claimant)| {
            Chore::Adopt(Claim {
                job: *job,
                key: claimant.key.clone(),
                pod: record.uid,
                name: pod.name.clone(),
            })
        });
        let chores: Vec<Chore> = chores.collect();
        let ownerless = Ownerless {
            name: pod.name.clone(),
            labels,
            version: record.resource_version,
        };
        namespace.ownerless.insert(record.uid, ownerless);
        self.claim(&chores);
        chores
    }

    fn claim(&mut self, chores: &[Chore]) {
        for chore in chores {
            if let Chore::Adopt(claim) = chore {
                self.claims.entry(claim.pod).or_default().push(claim.job);
                *self.claiming.entry(claim.job).or_default() += 1;
            }
        }
    }

    fn unclaim(&mut self, pod: Uid) {
        for job in self.claims.remove(&pod).unwrap_or_default() {
            if let Some(count) = self.claiming.get_mut(&job) {
                *count -= 1;
                if *count == 0 {
                    self.claiming.remove(&job);
                }
            }
        }
    }

    /// The release of a Pod that its Job no longer means.
    fn strays(&self, pod: &DecodedPod, job: Uid) -> Option<Claim> {
        let claimant = self.namespaces.get(&pod.namespace)?.jobs.get(&job)?;
        let labels = pod.labels.as_deref().map(Labels::read).unwrap_or_default();
        // A Pod without labels is meant by nobody.
        let meant = !labels.is_empty() && claimant.selector.matches(&labels);
        (!meant).then(|| Claim {
            job,
            key: claimant.key.clone(),
            pod: pod.record.uid,
            name: pod.name.clone(),
        })
    }

    fn forget_pod(&mut self, pod: Uid, namespace: &str) {
        self.adopted.remove(&pod);
        self.unclaim(pod);
        if let Some(found) = self.namespaces.get_mut(namespace)
            && found.ownerless.remove(&pod).is_some()
        {
            self.tidy();
        }
    }

    fn forget_job(&mut self, job: Uid, namespace: &str) {
        self.claiming.remove(&job);
        if let Some(found) = self.namespaces.get_mut(namespace)
            && found.jobs.remove(&job).is_some()
        {
            self.tidy();
        }
    }

    /// Drops namespaces of which nothing is known.
    fn tidy(&mut self) {
        self.namespaces
            .retain(|_, found| !found.jobs.is_empty() || !found.ownerless.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobSpec, JobStatus, PodRecord};

    const POD: Uid = Uid::from_u128(100);

    fn job(uid: u128) -> Job {
        Job {
            key: JobKey {
                namespace: "ml".into(),
                name: format!("job-{uid}").into(),
            },
            uid: Uid::from_u128(uid),
            resource_version: 1,
            generation: 1,
            deleting: false,
            spec: JobSpec::default(),
            status: JobStatus::default(),
        }
    }

    fn selector() -> Arc<Selector> {
        let json = r#"{"matchLabels":{"app":"train"}}"#;
        Arc::new(serde_json::from_str(json).expect("a selector"))
    }

    fn pod(version: u64, owner: Option<u128>, app: &str) -> DecodedPod {
        let labels = serde_json::value::RawValue::from_string(format!(r#"{{"app":"{app}"}}"#));
        DecodedPod {
            namespace: "ml".into(),
            name: "p".into(),
            controller: owner.map_or(Controller::None, |uid| Controller::Job {
                uid: Uid::from_u128(uid),
                name: format!("job-{uid}").into(),
            }),
            labels: Some(labels.expect("JSON")),
            record: PodRecord {
                uid: POD,
                resource_version: version,
                ..PodRecord::default()
            },
        }
    }

    fn claim(uid: u128) -> Claim {
        Claim {
            job: Uid::from_u128(uid),
            key: job(uid).key,
            pod: POD,
            name: "p".into(),
        }
    }

    #[test]
    fn a_pod_without_owner_is_claimed_whichever_comes_first() {
        let ownership = Ownership::default();
        assert_eq!(ownership.pod(&pod(1, None, "train")), []);
        assert_eq!(
            ownership.job(&job(1), Some(&selector())),
            [Chore::Adopt(claim(1))]
        );
        assert_eq!(ownership.job(&job(1), Some(&selector())), [], "once");
        assert!(ownership.is_claiming(Uid::from_u128(1)));
        ownership.job(&job(2), Some(&selector()));
        let both = [1, 2].map(|uid| Chore::Adopt(claim(uid)));
        assert_eq!(ownership.pod(&pod(2, None, "train")), both);
        assert_eq!(ownership.pod(&pod(3, None, "other")), []);
        assert!(!ownership.is_claiming(Uid::from_u128(1)));
        assert!(ownership.0.lock().claims.is_empty());
    }

    #[test]
    fn only_jobs_at_work_claim() {
        let ownership = Ownership::default();
        ownership.job(&job(1), Some(&selector()));
        let chore = Chore::Release(claim(1));
        let chores = ownership.pod(&pod(1, Some(1), "other"));
        assert_eq!(chores, std::slice::from_ref(&chore));
        assert!(ownership.wants(&chore));
        let deleting = Job {
            deleting: true,
            ..job(1)
        };
        assert_eq!(ownership.job(&deleting, Some(&selector())), []);
        assert!(!ownership.wants(&chore));
        assert_eq!(ownership.pod(&pod(2, Some(1), "other")), []);
        assert_eq!(ownership.pod(&pod(3, None, "train")), []);
        ownership.pod_gone(POD, "ml");
        assert!(ownership.0.lock().namespaces.is_empty(), "nothing is left");
    }

    #[test]
    fn what_is_told_late_of_an_adopted_pod_counts_for_nothing() {
        let ownership = Ownership::default();
        ownership.job(&job(1), Some(&selector()));
        let adopt = ownership.pod(&pod(5, None, "train"));
        assert_eq!(adopt, [Chore::Adopt(claim(1))]);
        ownership.adopted(&claim(1), 9);
        let free = Chore::Free(Orphan {
            uid: POD,
            namespace: "ml".into(),
            name: "p".into(),
        });
        assert_eq!(ownership.pod(&pod(7, None, "train")), []);
        assert!(!ownership.wants(&adopt[0]) && !ownership.wants(&free));
        assert!(
            ownership.is_claiming(Uid::from_u128(1)),
            "its record is not there yet"
        );
        assert_eq!(ownership.pod(&pod(9, Some(1), "train")), []);
        assert!(!ownership.is_claiming(Uid::from_u128(1)));
        assert_eq!(
            ownership.pod(&pod(10, None, "train")),
            adopt,
            "its owner was taken again"
        );
        assert!(ownership.wants(&adopt[0]) && ownership.wants(&free));
    }
}
