//! Tracks the Jobs that ask for the failure summary or the index record. Only for their Pods is it read how they ended;
//! of all other Pods nothing is read beyond the needs of decisions.
//!
//! Jobs are listed before Pods, so their annotations are known before any of their Pods arrives. In a cluster in which
//! no Job asks, each Pod costs one comparison.
//!
//! Must not: keep the contents of Pods.

use std::sync::Arc;

use hashbrown::HashMap;

use lakh_model::{AnnotationSwitch, Controller, DecodedPod, PodEnd, PodPhase, Uid};
use lakh_wire::{DecodedJob, Object, OddAnswer, PodDetails};

use super::news::{Change, Extent, Kind, Observed};

/// Jobs that ask how their Pods end, by UID. Call [`look`](Self::look) with each decoded object and
/// [`complete`](Self::complete) at the end of each list.
#[derive(Debug, Default)]
pub(super) struct AskedJobs {
    /// The failure summary is on for all Jobs.
    summarizes_all: bool,
    jobs: HashMap<Uid, AskedJob>,
}

#[derive(Debug)]
struct AskedJob {
    /// Namespace of the list that shows the Job; none for all namespaces.
    namespace: Option<Arc<str>>,
    /// Version of the list that showed it last; for a watch event, that of the list before the watch.
    listed: u64,
    /// Succeeded Pods are read, too.
    wants_all: bool,
}

impl AskedJobs {
    /// Starts without Jobs. `summarizes_all` turns the failure summary on for all Jobs.
    pub(super) fn new(summarizes_all: bool) -> Self {
        Self {
            summarizes_all,
            jobs: HashMap::new(),
        }
    }

    /// Handles an object that `read` was decoded from, given its list's extent and version. A Job is recorded if it
    /// asks. A Pod's end is read if its Job asks.
    pub(super) fn look(
        &mut self,
        read: &mut Observed<'_>,
        object: Object<'_>,
        change: Change,
        (extent, listed): (&Extent, u64),
    ) {
        match read {
            Observed::Pod(pod) if self.wants(pod, change) => {
                pod.end = end_of(PodDetails::read(object))
            }
            Observed::Job(job) => {
                let listed = match change {
                    Change::Listed(version) => version,
                    Change::Applied | Change::Deleted => listed,
                };
                self.job(job, change, extent, listed);
            }
            _ => {}
        }
    }

    /// Does the same for a Pod that was decoded from a line of a watch.
    pub(super) fn look_at_line(&self, pod: &mut DecodedPod<'_>, line: &[u8], change: Change) {
        if self.wants(pod, change) {
            pod.end = end_of(PodDetails::read_line(line));
        }
    }

    /// Records or removes a Job that a list of this version, or a watch after it, has shown.
    fn job(&mut self, job: &DecodedJob, change: Change, extent: &Extent, listed: u64) {
        let uid = job.job.uid;
        let annotations = job.annotations.as_deref();
        let annotations = annotations.filter(|_| change != Change::Deleted);
        let is_on = |switch: &AnnotationSwitch| *switch == AnnotationSwitch::On;
        let wants_all = annotations.is_some_and(|it| is_on(&it.index_record));
        let wants_failed = annotations.is_some_and(|it| is_on(&it.failure_summary));
        if !(wants_all || wants_failed) {
            self.jobs.remove(&uid);
            return;
        }
        let job = AskedJob {
            namespace: extent.namespace.clone(),
            listed,
            wants_all,
        };
        self.jobs.insert(uid, job);
    }

    /// Removes the Jobs that a complete list has not shown: they are gone.
    pub(super) fn complete(&mut self, extent: &Extent, version: u64) {
        if extent.kind != Kind::Job {
            return;
        }
        self.jobs
            .retain(|_, job| job.namespace != extent.namespace || job.listed == version);
    }

    /// Returns true if the Pod has ended and its Job asks how.
    fn wants(&self, pod: &DecodedPod<'_>, change: Change) -> bool {
        if self.jobs.is_empty() && !self.summarizes_all {
            return false;
        }
        let phase = pod.record.phase;
        if !phase.is_terminal() && change != Change::Deleted {
            return false;
        }
        let Controller::Job(job) = &pod.controller else {
            return false;
        };
        let has_failed = phase == PodPhase::Failed;
        match self.jobs.get(&job.uid) {
            Some(asked) => asked.wants_all || has_failed,
            None => self.summarizes_all && has_failed,
        }
    }
}

/// Returns how a Pod ended. A decode error leaves this unknown: the Pod itself was decoded.
fn end_of(read: Result<PodDetails, OddAnswer>) -> Option<Box<PodEnd>> {
    Some(Box::new(read.ok()?.end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lakh_model::TRACKING_FINALIZER;
    use lakh_wire::{PodDecoder, decode_job};

    fn job(number: u32, annotations: &str) -> DecodedJob {
        let json = format!(
            r#"{{"metadata":{{"name":"j","namespace":"default","resourceVersion":"5",
            "uid":"00000000-0000-0000-0000-00000000000{number}","annotations":{{{annotations}}}}},
            "spec":{{"template":{{"spec":{{}}}}}}}}"#
        );
        decode_job(&json).expect("a good Job")
    }

    fn wants(asked: &AskedJobs, job: u32, phase: &str, change: Change) -> bool {
        let json = format!(
            r#"{{"metadata":{{"name":"j-x","namespace":"default","resourceVersion":"7",
            "uid":"00000000-0000-0000-0000-000000000009","ownerReferences":[{{"apiVersion":"batch/v1",
            "kind":"Job","name":"j","controller":true,"uid":"00000000-0000-0000-0000-00000000000{job}"}}]}},
            "status":{{"phase":"{phase}"}}}}"#
        );
        let finalizer = TRACKING_FINALIZER;
        let pod = PodDecoder { finalizer }.decode(Object::Json(&json));
        asked.wants(&pod.expect("a good Pod"), change)
    }

    const RECORD: &str = r#""lakh.dev/index-record":"true""#;
    const SUMMARY: &str = r#""lakh.dev/failure-summary":"true""#;

    fn extent() -> Extent {
        Extent {
            kind: Kind::Job,
            namespace: None,
        }
    }

    #[test]
    fn only_ends_are_read_and_only_for_jobs_that_ask() {
        let mut asked = AskedJobs::new(false);
        for (number, annotations) in [(1, RECORD), (2, SUMMARY), (3, "")] {
            asked.job(&job(number, annotations), Change::Listed(5), &extent(), 5);
        }
        let wanted = |phase, change| [1, 2, 3].map(|job| wants(&asked, job, phase, change));
        assert_eq!(wanted("Running", Change::Applied), [false; 3]);
        assert_eq!(wanted("Running", Change::Deleted), [true, false, false]);
        assert_eq!(wanted("Succeeded", Change::Applied), [true, false, false]);
        assert_eq!(wanted("Failed", Change::Applied), [true, true, false]);
        let all = AskedJobs::new(true);
        assert!(wants(&all, 3, "Failed", Change::Applied));
        assert!(!wants(&all, 3, "Succeeded", Change::Applied));
    }

    #[test]
    fn a_job_that_is_gone_or_asks_no_more_asks_no_more() {
        let mut asked = AskedJobs::new(false);
        let ask =
            |asked: &AskedJobs| [1, 2].map(|job| wants(asked, job, "Failed", Change::Applied));
        for number in [1, 2] {
            asked.job(&job(number, RECORD), Change::Listed(5), &extent(), 5);
        }
        asked.complete(&extent(), 5);
        assert_eq!(ask(&asked), [true, true]);
        asked.job(&job(1, ""), Change::Applied, &extent(), 5);
        assert_eq!(ask(&asked), [false, true]);
        asked.job(&job(1, RECORD), Change::Applied, &extent(), 5);
        asked.job(&job(2, RECORD), Change::Deleted, &extent(), 5);
        assert_eq!(ask(&asked), [true, false]);
        asked.complete(&extent(), 9);
        assert_eq!(ask(&asked), [false, false]);
    }

    #[test]
    fn a_list_of_one_namespace_says_nothing_of_others() {
        let of = |name: &str| Extent {
            kind: Kind::Job,
            namespace: Some(name.into()),
        };
        let mut asked = AskedJobs::new(false);
        asked.job(&job(1, RECORD), Change::Listed(5), &of("a"), 5);
        asked.complete(&of("b"), 6);
        assert!(wants(&asked, 1, "Failed", Change::Applied));
        asked.complete(&of("a"), 7);
        assert!(!wants(&asked, 1, "Failed", Change::Applied));
    }
}
