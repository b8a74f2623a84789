//! Simulates the API server, the kubelets and the garbage collector, with one Job and a few Pods.
//!
//! A Pod's UID follows from its name, and its version from the number of its changes. So histories with the same result
//! end in the same situation.

use lakh::{
    decide::NewPod,
    model::{
        CompactIndex, FailedContainer, FailureFacts, Job, JobStatus, PodFlags, PodName, PodPhase,
        PodRecord, PodReplacement, Time, Uid,
        names::{generate_name, generate_name_indexed, pod_name},
    },
};

use super::shared::Shared;

/// The exit code that fails the Job, under a policy that says so.
pub(super) const FATAL: i32 = 42;

/// A version of the Job. Only the order of numbers counts, and [`super::world::World`] keeps them small.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct JobVersion {
    pub(super) number: u16,
    pub(super) job: Shared<Job>,
}

impl JobVersion {
    /// The next version, with a change.
    pub(super) fn next(&self, change: impl FnOnce(&mut Job)) -> Self {
        let mut job = Job::clone(&self.job);
        change(&mut job);
        Self {
            number: self.number + 1,
            job: Shared::new(job),
        }
    }
}

/// A Pod on the server, and its real history.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pod {
    pub(super) uid: Uid,
    pub(super) record: Shared<PodRecord>,
    /// The object is gone.
    pub(super) gone: bool,
    /// The grace period is over: without finalizers the object is removed.
    grace_over: bool,
    pub(super) truth: Truth,
}

/// The real history of a Pod, for the judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    /// The end of the Pod, if it has ended; true is success.
    pub(super) ended: Option<bool>,
    /// Its failure fails the Job.
    pub(super) fatal: bool,
    pub(super) deleted: bool,
    /// A crashed controller had requested it, and the current one did not see it at its start.
    pub(super) stray: bool,
    /// The end under which a status has listed its UID; true is success.
    pub(super) listed: Option<bool>,
    pub(super) counted: bool,
}

impl Pod {
    /// Returns true if it takes one of the places that `parallelism` gives.
    pub(super) fn holds_place(&self, replacement: PodReplacement) -> bool {
        let waits = replacement == PodReplacement::Failed && self.record.is_terminating();
        !self.gone && (self.record.is_active() || waits)
    }

    pub(super) fn has_finalizer(&self) -> bool {
        !self.gone && self.record.has(PodFlags::FINALIZER)
    }

    /// Returns true if a kubelet still has to end it.
    pub(super) fn lives(&self) -> bool {
        !self.gone && !self.record.phase.is_terminal()
    }
}

/// The server's state: one Job and its Pods. Changes of a Pod return the event for the watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// None once it is deleted.
    pub(super) job: Option<JobVersion>,
    /// All Pods that ever existed, by UID.
    pub(super) pods: Vec<Pod>,
}

/// The watch event of a Pod: its record, or none if it is gone.
pub(super) type PodNews = (Uid, Option<Shared<PodRecord>>);

impl Server {
    pub(super) fn new(job: Job) -> Self {
        let job = JobVersion {
            number: 1,
            job: Shared::new(job),
        };
        Self {
            job: Some(job),
            pods: Vec::new(),
        }
    }

    pub(super) fn pod(&self, uid: Uid) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.uid == uid && !pod.gone)
    }

    /// The real history of a Pod, also if it is gone.
    pub(super) fn truth(&self, uid: Uid) -> Option<Truth> {
        let mut pods = self.pods.iter();
        Some(pods.find(|pod| pod.uid == uid)?.truth)
    }

    pub(super) fn status(&self) -> Option<&JobStatus> {
        Some(&self.job.as_ref()?.job.status)
    }

    /// Creates a Pod. Returns its UID, and its event if it is new.
    pub(super) fn create(
        &mut self,
        job: &str,
        new: &NewPod,
        stray: bool,
        now: Time,
    ) -> (Uid, Option<PodNews>) {
        let prefix = match new.index {
            Some(index) => generate_name_indexed(job, index),
            None => generate_name(job),
        };
        let name = PodName::new(job, &pod_name(&prefix, new.suffix));
        let same_name = self.pods.iter().filter(|pod| pod.record.name == name);
        let mut before = 0;
        for pod in same_name {
            if !pod.gone {
                return (pod.uid, None);
            }
            before += 1;
        }
        let letters = new.suffix.as_str().bytes();
        let number = letters.fold(before, |number, letter| number << 8 | u128::from(letter));
        let uid = Uid::from_u128(number);
        let record = PodRecord {
            uid,
            name,
            index: new.index.and_then(CompactIndex::new),
            created: seconds(now),
            finished: seconds(now),
            flags: PodFlags::default()
                .with(PodFlags::FINALIZER, true)
                .with(PodFlags::ASSIGNED, true),
            resource_version: 1,
            ..PodRecord::default()
        };
        let record = Shared::new(record);
        self.pods.push(Pod {
            uid,
            record: record.clone(),
            gone: false,
            grace_over: false,
            truth: Truth {
                stray,
                ..Truth::default()
            },
        });
        self.pods.sort_unstable_by_key(|pod| pod.uid);
        (uid, Some((uid, Some(record))))
    }

    /// Changes a Pod, if it exists and the change has an effect. It is removed if nothing keeps it any more.
    fn change(
        &mut self,
        uid: Uid,
        change: impl FnOnce(&mut Pod, &mut PodRecord),
    ) -> Option<PodNews> {
        let pod = self
            .pods
            .iter_mut()
            .find(|pod| pod.uid == uid && !pod.gone)?;
        let mut record = PodRecord::clone(&pod.record);
        change(pod, &mut record);
        let flags = record.flags;
        pod.gone =
            flags.has(PodFlags::DELETING) && pod.grace_over && !flags.has(PodFlags::FINALIZER);
        if record == *pod.record && !pod.gone {
            return None;
        }
        record.resource_version += 1;
        pod.record = Shared::new(record);
        let shown = (!pod.gone).then(|| pod.record.clone());
        Some((uid, shown))
    }

    pub(super) fn delete(&mut self, uid: Uid, now: Time) -> Option<PodNews> {
        self.change(uid, |pod, record| {
            pod.truth.deleted = true;
            pod.grace_over |= record.phase.is_terminal();
            if !record.has(PodFlags::DELETING) {
                record.flags.set(PodFlags::DELETING, true);
                if !record.phase.is_terminal() {
                    record.finished = seconds(now);
                }
            }
        })
    }

    pub(super) fn remove_finalizer(&mut self, uid: Uid) -> Option<PodNews> {
        self.change(uid, |_, record| {
            record.flags.set(PodFlags::FINALIZER, false)
        })
    }

    pub(super) fn run(&mut self, uid: Uid) -> Option<PodNews> {
        self.change(uid, |_, record| record.phase = PodPhase::Running)
    }

    /// Ends a Pod as a kubelet does. From then on only finalizers keep a Pod that is being deleted.
    pub(super) fn end(&mut self, uid: Uid, code: i32, now: Time) -> Option<PodNews> {
        self.change(uid, |pod, record| {
            let success = code == 0;
            pod.truth.ended = Some(success);
            pod.truth.fatal = code == FATAL;
            record.phase = match success {
                true => PodPhase::Succeeded,
                false => PodPhase::Failed,
            };
            record.failure = (!success).then(|| {
                let container = FailedContainer {
                    name: "main".into(),
                    exit_code: code,
                };
                Box::new(FailureFacts {
                    containers: vec![container],
                    ..FailureFacts::default()
                })
            });
            record.finished = seconds(now);
            pod.grace_over |= record.has(PodFlags::DELETING);
        })
    }
}

fn seconds(time: Time) -> u32 {
    u32::try_from(time.as_secs()).expect("a time of this test")
}
