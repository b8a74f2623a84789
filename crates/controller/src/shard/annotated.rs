//! Implements the Job annotations: an index record, a failure summary, and metrics per Job.
//!
//! A Job without these annotations costs one pointer check. Memory for a record is reserved in advance for its maximum
//! size, so Pods cannot make it grow. One namespace gets at most half of the memory.
//!
//! Must not: decide anything of a Job, or delay a Job. An annotation that cannot be honored is reported as a Warning.

#[cfg(test)]
mod tests;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use compact_str::CompactString;
use hashbrown::HashMap;

use lakh_model::{
    AnnotationSwitch, INDEX_RECORD, JOB_METRICS, Job, JobAnnotations, JobKey, Monotonic, Now,
    PodEnd, PodFlags, PodPhase, PodRecord, PodTable, Report,
};
use lakh_record::{FailureSummary, IndexOutcome, IndexRecord, RecordInput};

use crate::metrics::{
    Metrics,
    by_job::{JOBS_MAX, JOBS_OF_A_NAMESPACE_MAX, JobGauges, JobNumbers},
};

/// Reason of the Warning about an annotation that cannot be parsed.
const INVALID: &str = "InvalidAnnotation";

/// Reason of the Warning about an annotation that cannot be honored.
const REFUSED: &str = "AnnotationNotFollowed";

/// The number of Pods removed from a Job that are remembered until the Job adopts them again. A guess: owners are
/// removed by hand.
const LET_GO_MAX: usize = 64;

/// Memory for index records, shared by all clones.
#[derive(Clone, Debug, Default)]
pub struct RecordMemory {
    most: usize,
    used: Arc<AtomicUsize>,
}

impl RecordMemory {
    /// Creates a memory of this many bytes.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            used: Arc::default(),
        }
    }

    /// Reserves the bytes. Returns false if they are not available.
    fn take(&self, bytes: usize) -> bool {
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.most);
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Memory for the records of a shard's Jobs, accounted by namespace.
#[derive(Debug, Default)]
pub(super) struct RecordBudget {
    memory: RecordMemory,
    by_namespace: HashMap<CompactString, usize>,
}

impl RecordBudget {
    pub(super) fn new(memory: RecordMemory) -> Self {
        Self {
            memory,
            by_namespace: HashMap::new(),
        }
    }

    /// Reserves bytes for a Job of this namespace. Returns false if they are not available.
    fn reserve(&mut self, namespace: &str, bytes: usize) -> bool {
        let of_namespace = self.by_namespace.get(namespace).copied().unwrap_or(0);
        let is_enough = of_namespace + bytes <= self.memory.most / 2 && self.memory.take(bytes);
        if is_enough {
            *self.by_namespace.entry(namespace.into()).or_default() += bytes;
        }
        is_enough
    }

    /// Releases the memory of a forgotten Job.
    pub(super) fn forget(&mut self, namespace: &str, annotated: Option<&Annotated>) {
        if let Some(annotated) = annotated {
            self.release(namespace, annotated.reserved);
        }
    }

    fn release(&mut self, namespace: &str, bytes: usize) {
        self.memory.give_back(bytes);
        if let Some(of_namespace) = self.by_namespace.get_mut(namespace) {
            *of_namespace -= bytes;
            if *of_namespace == 0 {
                self.by_namespace.remove(namespace);
            }
        }
    }
}

/// The resources for honoring annotations.
#[derive(Debug)]
pub(super) struct Means<'a> {
    pub(super) budget: &'a mut RecordBudget,
    pub(super) metrics: &'a Metrics,
    /// All Jobs get a failure summary, unless an annotation turns it off.
    pub(super) summarizes_all: bool,
}

/// The state kept for one Job's annotations.
///
/// [`Annotated::follow`] applies the annotations of each Job version. The `pod_*` methods apply changes of its Pods.
#[derive(Debug, Default)]
pub(super) struct Annotated {
    asks: JobAnnotations,
    record: Option<IndexRecord>,
    /// Bytes of the budget that are reserved for the record.
    reserved: usize,
    summary: Option<FailureSummary>,
    gauges: Option<JobGauges>,
    /// Warnings about annotations that are not recorded yet.
    reports: Vec<Report>,
    /// Pods whose owner was removed, the newest last. If the Job adopts one again, it is not counted as another Pod.
    let_go: Vec<PodRecord>,
}

/// Returns true if a Job with these annotations needs state.
pub(super) fn is_asked(job: &Job, asks: Option<&JobAnnotations>, means: &Means<'_>) -> bool {
    asks.is_some() || (means.summarizes_all && !job.status.is_finished())
}

impl Annotated {
    /// Applies a version of the Job with these annotations; `pods` are its cached Pods.
    pub(super) fn follow(
        &mut self,
        job: &Job,
        asks: JobAnnotations,
        pods: &PodTable,
        means: Means<'_>,
        now: Now,
    ) {
        let before = std::mem::replace(&mut self.asks, asks);
        let is_new = before != self.asks;
        // A finished Job gets no further Warnings.
        if is_new && !job.status.is_finished() {
            let odd = self.asks.odd().map(|(name, value)| {
                let message = format!(
                    "annotation {name}: {value:?} is neither \"true\" nor \"false\"; lakh treats it as \"false\""
                );
                Report::warning(INVALID, &message)
            });
            self.reports = odd.collect();
        }
        let wants = |switch: &AnnotationSwitch, usual| match switch {
            AnnotationSwitch::On => true,
            AnnotationSwitch::Unset => usual,
            AnnotationSwitch::Off | AnnotationSwitch::Odd(_) => false,
        };
        let records = wants(&self.asks.index_record, false);
        let summarizes = wants(&self.asks.failure_summary, means.summarizes_all);
        let measures = wants(&self.asks.job_metrics, false);
        let why = self.keep_record(records, job, pods, means.budget, now);
        if !summarizes {
            self.summary = None;
        } else if self.summary.is_none() && !job.status.is_finished() {
            self.summary = Some(summary_of(job, pods, now));
        }
        let is_full = measures && !self.measure(&job.key, means.metrics);
        if !measures {
            self.gauges = None;
        }
        if is_new {
            let refused = why.map(|why| (INDEX_RECORD, why));
            let full = format!(
                "at most {JOBS_MAX} Jobs have their own metrics, {JOBS_OF_A_NAMESPACE_MAX} per namespace"
            );
            let refused = refused
                .into_iter()
                .chain(is_full.then_some((JOB_METRICS, full)));
            self.reports.extend(refused.map(|(name, why)| {
                Report::warning(REFUSED, &format!("lakh ignores annotation {name}: {why}"))
            }));
        }
    }

    /// Creates, keeps or drops the record. Returns the reason if a wanted record is refused.
    fn keep_record(
        &mut self,
        is_wanted: bool,
        job: &Job,
        pods: &PodTable,
        budget: &mut RecordBudget,
        now: Now,
    ) -> Option<String> {
        let namespace = &job.key.namespace;
        let indexes = job.spec.completions.filter(|_| job.spec.is_indexed());
        let Some(completions) = indexes.filter(|_| is_wanted) else {
            self.record = None;
            budget.release(namespace, std::mem::take(&mut self.reserved));
            let why = "spec.completionMode is not Indexed";
            return is_wanted.then(|| why.to_owned());
        };
        let known = self.record.as_ref().map(IndexRecord::completions);
        if known == Some(completions) {
            return None;
        }
        let bytes = IndexRecord::most_bytes(completions);
        let more = bytes.saturating_sub(self.reserved);
        if !budget.reserve(namespace, more) {
            return Some(format!(
                "the record of {completions} indexes may need {bytes} bytes, which exceeds the free memory of \
                 --index-record-memory"
            ));
        }
        // A record that shrinks keeps its reservation, because it may have used the memory.
        self.reserved += more;
        if let Some(record) = &mut self.record {
            record.handle(RecordInput::Completions(completions));
            return None;
        }
        self.record = Some(IndexRecord::new(completions, now.wall));
        for (_, pod) in pods.iter() {
            self.record_seen(pod, None);
        }
        None
    }

    /// Returns true if the Job has gauges now.
    fn measure(&mut self, key: &JobKey, metrics: &Metrics) -> bool {
        if self.gauges.is_none() {
            self.gauges = metrics.by_job.join(key);
        }
        self.gauges.is_some()
    }

    /// Returns the record of the Job's indexes.
    pub(super) fn record(&self) -> Option<&IndexRecord> {
        self.record.as_ref()
    }

    /// Handles a Pod that was added to the Job.
    pub(super) fn pod_seen(&mut self, pod: &PodRecord, end: Option<&PodEnd>) {
        if let Some(place) = self.let_go.iter().position(|it| it.uid == pod.uid) {
            let known = self.let_go.remove(place);
            return self.pod_changed(&known, pod, end);
        }
        self.record_seen(pod, end);
        self.count_failure(None, pod, end);
    }

    fn record_seen(&mut self, pod: &PodRecord, end: Option<&PodEnd>) {
        let Some((record, index)) = self.record.as_mut().zip(pod.index) else {
            return;
        };
        let index = index.get();
        record.handle(RecordInput::Seen { index });
        self.record_end(pod, end);
    }

    /// Handles the removal of a Pod's owner reference.
    pub(super) fn pod_let_go(&mut self, pod: &PodRecord) {
        if self.let_go.len() == LET_GO_MAX {
            self.let_go.remove(0);
        }
        self.let_go.push(pod.clone());
    }

    /// Handles a newer version of a Pod.
    pub(super) fn pod_changed(
        &mut self,
        before: &PodRecord,
        after: &PodRecord,
        end: Option<&PodEnd>,
    ) {
        let is_news = before.phase != after.phase;
        if is_news || !self.is_of_another(after, end) {
            self.record_end(after, end);
        }
        self.count_failure(Some(before), after, end);
    }

    /// Returns true if the recorded end of the Pod's index is from another Pod. A Pod never changes its node. Two Pods
    /// of an index may run within one second, so times do not distinguish them.
    fn is_of_another(&self, pod: &PodRecord, end: Option<&PodEnd>) -> bool {
        let row = self.record.as_ref().zip(pod.index);
        let row = row.and_then(|(record, index)| record.of(index.get())?.end);
        row.zip(end).is_some_and(|(row, end)| {
            !row.node.is_empty() && !end.node.is_empty() && row.node != end.node
        })
    }

    /// Handles a deleted Pod. `known` is its cached version, `last` its last version if the event has it.
    pub(super) fn pod_gone(
        &mut self,
        known: &PodRecord,
        last: Option<(&PodRecord, Option<&PodEnd>)>,
    ) {
        if let Some((last, end)) = last.filter(|(last, _)| last.phase.is_terminal()) {
            self.pod_changed(known, last, end);
        } else if !known.phase.is_terminal()
            && let Some((record, index)) = self.record.as_mut().zip(known.index)
        {
            let end = match last.and_then(|(_, end)| end) {
                Some(end) => end.clone(),
                None => PodEnd::of_record(known),
            };
            record.handle(RecordInput::Ended {
                index: index.get(),
                outcome: IndexOutcome::Gone,
                at: 0,
                end: &end,
            });
        }
    }

    fn record_end(&mut self, pod: &PodRecord, end: Option<&PodEnd>) {
        let Some((record, index)) = self.record.as_mut().zip(pod.index) else {
            return;
        };
        let outcome = match pod.phase {
            PodPhase::Succeeded => IndexOutcome::Succeeded,
            PodPhase::Failed => IndexOutcome::Failed,
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => return,
        };
        let brief;
        let end = match end {
            Some(end) => end,
            None => {
                brief = PodEnd::of_record(pod);
                &brief
            }
        };
        record.handle(RecordInput::Ended {
            index: index.get(),
            outcome,
            at: pod.finished,
            end,
        });
    }

    /// Counts a failed Pod once. `before` is its previous version.
    fn count_failure(&mut self, before: Option<&PodRecord>, pod: &PodRecord, end: Option<&PodEnd>) {
        let Some(summary) = &mut self.summary else {
            return;
        };
        let was_over = before.is_some_and(|before| before.phase.is_terminal());
        if was_over || pod.phase != PodPhase::Failed || was_stopped(before.unwrap_or(pod), pod) {
            return;
        }
        match end {
            Some(end) => summary.pod_failed(&end.cause),
            None => summary.pod_failed(&PodEnd::of_record(pod).cause),
        }
    }

    /// Returns the Events to record after a sync of the Job.
    pub(super) fn take_reports(
        &mut self,
        job: Option<&Job>,
        is_gone: bool,
        now: Now,
    ) -> Vec<Report> {
        let mut reports = std::mem::take(&mut self.reports);
        let has_ended = job.is_some_and(|job| job.status.is_finished());
        if let Some(summary) = self.summary.as_mut().filter(|_| !is_gone) {
            reports.extend(summary.poll_report(has_ended, now));
        }
        reports
    }

    /// Returns when the next Event may be due without any input.
    pub(super) fn poll_timeout(&self) -> Option<Monotonic> {
        self.summary.as_ref()?.poll_timeout()
    }

    /// Updates the Job's gauges after a sync. Without numbers, for a Job that is gone, it removes them.
    pub(super) fn note(&mut self, numbers: Option<JobNumbers>) {
        match (&mut self.gauges, numbers) {
            (Some(gauges), Some(numbers)) => gauges.set(numbers),
            (gauges, None) => *gauges = None,
            (None, Some(_)) => {}
        }
    }
}

/// Returns true if a Pod's end is no failure because it was deleted before: the Job was scaled down, suspended or had
/// ended. Evicted and preempted Pods are deleted, too, but have a reason.
fn was_stopped(before: &PodRecord, pod: &PodRecord) -> bool {
    before.has(PodFlags::DELETING) && PodEnd::of_record(pod).cause.reason.is_empty()
}

/// Creates a summary with the failures of the Pods that still exist.
fn summary_of(job: &Job, pods: &PodTable, now: Now) -> FailureSummary {
    let mut summary = FailureSummary::new(job.status.failed, now.wall);
    let failed = pods.iter().map(|(_, pod)| pod);
    for pod in failed.filter(|pod| pod.phase == PodPhase::Failed && !was_stopped(pod, pod)) {
        summary.pod_failed(&PodEnd::of_record(pod).cause);
    }
    summary
}
