//! Simulates an API server with one Job and its Pods, and applies writes to them.

use std::collections::BTreeMap;

use lakh::{
    decide::{CreateError, NewPod},
    model::{
        CompactIndex, FailureFacts, Job, JobStatus, PodFlags, PodName, PodPhase, PodRecord, Time,
        Uid,
        names::{generate_name, generate_name_indexed, pod_name},
    },
};

use super::rules;

/// A Pod on the server.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) record: PodRecord,
    pub(crate) name: String,
    /// The failure facts that readers see once it failed or is being deleted.
    pub(crate) facts: FailureFacts,
    /// Its grace period is over: without finalizers the object is removed.
    pub(crate) grace_over: bool,
}

impl Pod {
    /// Sets the record's failure as a decoder would.
    fn show_failure(&mut self) {
        let ended = self.record.phase == PodPhase::Succeeded;
        let disrupted = !self.facts.conditions.is_empty() && !ended;
        let over = self.record.phase == PodPhase::Failed || self.record.is_terminating();
        self.record.failure = (over || disrupted).then(|| Box::new(self.facts.clone()));
    }
}

/// An API server with one Job and its Pods. Each change gets the next resourceVersion.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) job: Job,
    pub(crate) pods: BTreeMap<Uid, Pod>,
    version: u64,
    uids: u128,
}

impl Server {
    pub(crate) fn new(job: Job) -> Self {
        Self {
            job,
            pods: BTreeMap::new(),
            version: 1000,
            uids: 1000,
        }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(crate) fn put(&mut self, mut pod: Pod) {
        pod.record.resource_version = self.next_version();
        pod.show_failure();
        self.pods.insert(pod.record.uid, pod);
    }

    pub(crate) fn name_of(&self, new: &NewPod) -> String {
        let job = &self.job.key.name;
        let prefix = match new.index {
            Some(index) => generate_name_indexed(job, index),
            None => generate_name(job),
        };
        pod_name(&prefix, new.suffix).to_string()
    }

    pub(crate) fn create(&mut self, new: &NewPod, now: Time) -> Result<Uid, CreateError> {
        let job = self.job.key.name.clone();
        let name = self.name_of(new);
        if let Some(taken) = self.pods.values().find(|pod| pod.name == name) {
            // All Pods here belong to this Job, so it is the requested one.
            return Ok(taken.record.uid);
        }
        self.uids += 1;
        let uid = Uid::from_u128(self.uids);
        let record = PodRecord {
            uid,
            name: PodName::new(&job, &name),
            index: new.index.and_then(CompactIndex::new),
            created: seconds(now),
            finished: seconds(now),
            flags: PodFlags::default().with(PodFlags::FINALIZER, true),
            ..PodRecord::default()
        };
        self.put(Pod {
            record,
            name,
            facts: FailureFacts {
                counts: new.failures.unwrap_or_default(),
                ..FailureFacts::default()
            },
            grace_over: false,
        });
        Ok(uid)
    }

    /// Adds a Pod that a user created to the Job. It runs, and has the finalizer from now on.
    pub(crate) fn adopt(&mut self, index: Option<u32>, now: Time) -> Uid {
        self.uids += 1;
        let uid = Uid::from_u128(self.uids);
        let name = format!("stranger-{}", self.uids);
        let flags = PodFlags::default()
            .with(PodFlags::FINALIZER, true)
            .with(PodFlags::ASSIGNED, true);
        let record = PodRecord {
            uid,
            name: PodName::new(&self.job.key.name, &name),
            index: index.and_then(CompactIndex::new),
            created: seconds(now),
            finished: seconds(now),
            phase: PodPhase::Running,
            flags,
            ..PodRecord::default()
        };
        self.put(Pod {
            record,
            name,
            facts: FailureFacts::default(),
            grace_over: false,
        });
        uid
    }

    /// Changes a Pod if it exists. It is removed if nothing keeps it any more.
    pub(crate) fn change(&mut self, uid: Uid, change: impl FnOnce(&mut Pod)) {
        let version = self.next_version();
        let Some(pod) = self.pods.get_mut(&uid) else {
            return;
        };
        change(pod);
        pod.record.resource_version = version;
        pod.show_failure();
        let flags = pod.record.flags;
        if flags.has(PodFlags::DELETING) && pod.grace_over && !flags.has(PodFlags::FINALIZER) {
            self.pods.remove(&uid);
        }
    }

    pub(crate) fn delete(&mut self, uid: Uid, now: Time) {
        self.change(uid, |pod| {
            if !pod.record.has(PodFlags::DELETING) {
                pod.record.flags.set(PodFlags::DELETING, true);
                if !pod.record.phase.is_terminal() {
                    pod.record.finished = seconds(now);
                }
            }
            pod.grace_over |= pod.record.phase.is_terminal() || !pod.record.has(PodFlags::ASSIGNED);
        });
    }

    pub(crate) fn remove_finalizer(&mut self, uid: Uid) {
        self.change(uid, |pod| pod.record.flags.set(PodFlags::FINALIZER, false));
    }

    /// Ends a Pod as a kubelet does. From then on only finalizers keep a Pod that is being deleted.
    pub(crate) fn end(&mut self, uid: Uid, phase: PodPhase, now: Time) {
        self.change(uid, |pod| {
            pod.record.phase = phase;
            pod.record.flags.set(PodFlags::READY, false);
            pod.record.finished = seconds(now);
            pod.grace_over |= pod.record.has(PodFlags::DELETING);
        });
    }

    /// Accepts a status based on version `base`, or returns the reason for the refusal.
    pub(crate) fn write_status(&mut self, status: &JobStatus, base: u64) -> Result<(), String> {
        if base != self.job.resource_version {
            return Err("conflict".to_owned());
        }
        let violations = rules::violations(&self.job.spec, &self.job.status, status);
        if !violations.is_empty() {
            return Err(violations.join("; "));
        }
        self.job.status = status.clone();
        self.job.resource_version = self.next_version();
        Ok(())
    }

    /// Changes the Job as a user does.
    pub(crate) fn change_job(&mut self, change: impl FnOnce(&mut Job)) {
        change(&mut self.job);
        self.job.generation += 1;
        self.job.resource_version = self.next_version();
    }
}

/// Seconds as stored in Pod records.
pub(crate) fn seconds(time: Time) -> u32 {
    u32::try_from(time.as_secs()).expect("a time of this test")
}
