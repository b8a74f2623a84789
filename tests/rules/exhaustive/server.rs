//! The API server's side, with the kubelets and the garbage collector: one Job and its few Pods.
//!
//! A Pod's UID follows from its name, and its version from how often it was changed, so that histories that
//! come to the same are the same.

use lakh::{
    decide::NewPod,
    model::{
        CompactIndex, FailedContainer, FailureFacts, Job, JobStatus, PodFlags, PodName, PodPhase,
        PodRecord, PodReplacement, Time, Uid,
        names::{generate_name, generate_name_indexed, pod_name},
    },
};

use super::shared::Shared;

/// What a container exits with whose failure fails the Job, where a policy says so.
pub(super) const FATAL: i32 = 42;

/// A version of the Job. Its number counts only beside others: [`super::world::World`] makes them small.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct JobVersion {
    pub(super) number: u16,
    pub(super) job: Shared<Job>,
}

impl JobVersion {
    /// The next one, with a change.
    pub(super) fn next(&self, change: impl FnOnce(&mut Job)) -> Self {
        let mut job = Job::clone(&self.job);
        change(&mut job);
        Self {
            number: self.number + 1,
            job: Shared::new(job),
        }
    }
}

/// A Pod as the server has it, and what really happened to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pod {
    pub(super) uid: Uid,
    pub(super) record: Shared<PodRecord>,
    /// The object is no more.
    pub(super) gone: bool,
    /// Without finalizers the object goes.
    grace_over: bool,
    pub(super) truth: Truth,
}

/// What the judge remembers of a Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    /// Whether it succeeded, if it has ended.
    pub(super) ended: Option<bool>,
    /// Its failure fails the Job.
    pub(super) fatal: bool,
    pub(super) deleted: bool,
    /// A dead controller had asked for it, and the living one could not see it when it began.
    pub(super) stray: bool,
    /// How a status has named it by its UID.
    pub(super) listed: Option<bool>,
    pub(super) counted: bool,
}

impl Pod {
    /// Whether it holds one of the places that parallelism gives.
    pub(super) fn holds_place(&self, replacement: PodReplacement) -> bool {
        let waits = replacement == PodReplacement::Failed && self.record.is_terminating();
        !self.gone && (self.record.is_active() || waits)
    }

    pub(super) fn has_finalizer(&self) -> bool {
        !self.gone && self.record.has(PodFlags::FINALIZER)
    }

    /// Whether a kubelet has still something to do for it.
    pub(super) fn lives(&self) -> bool {
        !self.gone && !self.record.phase.is_terminal()
    }
}

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// None once it is deleted.
    pub(super) job: Option<JobVersion>,
    /// All that there ever were, by UID.
    pub(super) pods: Vec<Pod>,
}

/// What a change of a Pod has the watch tell: its record, or that it is gone.
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

    /// What happened to a Pod, also if it is gone.
    pub(super) fn truth(&self, uid: Uid) -> Option<Truth> {
        let mut pods = self.pods.iter();
        Some(pods.find(|pod| pod.uid == uid)?.truth)
    }

    pub(super) fn status(&self) -> Option<&JobStatus> {
        Some(&self.job.as_ref()?.job.status)
    }

    /// Creates a Pod; its UID, and whether it is new.
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

    /// Changes a Pod, if there is one and it would be another; then it may go.
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

    /// A kubelet ends a Pod; of one that is being deleted nothing is left but finalizers.
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
