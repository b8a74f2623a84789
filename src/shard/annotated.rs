//! What a Job's annotations ask for beside its work: a record of its indexes, a summary of its failures, metrics.
//!
//! A Job that asks for nothing has none of it, and costs a look at a pointer. Memory for records is given out before it is
//! used, by what a record may come to take, so that no tenant's Pods can make it more; and no namespace gets more than half.
//!
//! Must not: decide anything of a Job, or keep a Job from its work: what cannot be had is told as a Warning.

#[cfg(test)]
mod tests;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use compact_str::CompactString;
use hashbrown::HashMap;

use crate::{
    metrics::{
        Metrics,
        by_job::{JOBS_MAX, JOBS_OF_A_NAMESPACE_MAX, JobGauges, JobNumbers},
    },
    model::{
        AnnotationSwitch, INDEX_RECORD, JOB_METRICS, Job, JobAnnotations, JobKey, Monotonic, Now,
        PodEnd, PodFlags, PodPhase, PodRecord, PodTable, Report,
    },
    record::{FailureSummary, IndexOutcome, IndexRecord, RecordInput},
};

/// The reason of the Warning about an annotation that cannot be read.
const INVALID: &str = "InvalidAnnotation";

/// The reason of the Warning about one that cannot be followed.
const REFUSED: &str = "AnnotationNotFollowed";

/// So many Pods that were taken away from a Job are remembered, until it adopts them again: chosen, as this is done by hand.
const LET_GO_MAX: usize = 64;

/// Memory for records of indexes: all that have a copy of this share it.
#[derive(Clone, Debug, Default)]
pub struct RecordMemory {
    most: usize,
    used: Arc<AtomicUsize>,
}

impl RecordMemory {
    /// So many bytes.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            used: Arc::default(),
        }
    }

    /// Whether there are so many bytes more; then they are taken.
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

/// Memory for the records of all Jobs of a shard.
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

    /// Whether there are so many bytes more for a Job of this namespace; then they are its.
    fn reserve(&mut self, namespace: &str, bytes: usize) -> bool {
        let of_namespace = self.by_namespace.get(namespace).copied().unwrap_or(0);
        let is_enough = of_namespace + bytes <= self.memory.most / 2 && self.memory.take(bytes);
        if is_enough {
            *self.by_namespace.entry(namespace.into()).or_default() += bytes;
        }
        is_enough
    }

    /// A Job that is forgotten leaves what it had.
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

/// What is there for annotations to be followed.
#[derive(Debug)]
pub(super) struct Means<'a> {
    pub(super) budget: &'a mut RecordBudget,
    pub(super) metrics: &'a Metrics,
    /// All Jobs have a summary of their failures that do not say otherwise.
    pub(super) summarizes_all: bool,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Annotated {
    asks: JobAnnotations,
    record: Option<IndexRecord>,
    /// Bytes of the budget that are the record's.
    reserved: usize,
    summary: Option<FailureSummary>,
    gauges: Option<JobGauges>,
    /// What people are to be told of annotations.
    reports: Vec<Report>,
    /// Pods that somebody took away from the Job, the newest last: one that is adopted again is not another.
    let_go: Vec<PodRecord>,
}

/// Whether anything is to be done for a Job with these annotations.
pub(super) fn is_asked(job: &Job, asks: Option<&JobAnnotations>, means: &Means<'_>) -> bool {
    asks.is_some() || (means.summarizes_all && !job.status.is_finished())
}

impl Annotated {
    /// Takes in a version of the Job with these annotations; `pods` are those that are known.
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
        // Nothing more is to be told of a Job that is over.
        if is_new && !job.status.is_finished() {
            let odd = self.asks.odd().map(|(name, value)| {
                let message = format!(
                    "annotation {name}: {value:?} is neither \"true\" nor \"false\"; it is taken for \"false\""
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
                "metrics are told of {JOBS_MAX} Jobs at most, and of {JOBS_OF_A_NAMESPACE_MAX} of a namespace"
            );
            let refused = refused
                .into_iter()
                .chain(is_full.then_some((JOB_METRICS, full)));
            self.reports.extend(refused.map(|(name, why)| {
                Report::warning(
                    REFUSED,
                    &format!("annotation {name} is not followed: {why}"),
                )
            }));
        }
    }

    /// Begins, goes on with or drops the record; gives why there is none though one is wanted.
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
            let why = "the Job is not Indexed: spec.completionMode is not Indexed";
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
                "the record of {completions} indexes may take {bytes} bytes, and --index-record-memory is used up or \
                 too small for it"
            ));
        }
        // One that shrinks keeps its room: it may have used it.
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

    /// Whether there are gauges of the Job now.
    fn measure(&mut self, key: &JobKey, metrics: &Metrics) -> bool {
        if self.gauges.is_none() {
            self.gauges = metrics.by_job.join(key);
        }
        self.gauges.is_some()
    }

    /// The record of the Job's indexes, if there is one.
    pub(super) fn record(&self) -> Option<&IndexRecord> {
        self.record.as_ref()
    }

    /// A Pod of the Job came into sight.
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

    /// A Pod is the Job's no more, as somebody took its owner away.
    pub(super) fn pod_let_go(&mut self, pod: &PodRecord) {
        if self.let_go.len() == LET_GO_MAX {
            self.let_go.remove(0);
        }
        self.let_go.push(pod.clone());
    }

    /// There is a newer version of a Pod.
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

    /// Whether what is recorded of a Pod's index is another Pod's: none changes its node. Two may have run in one second.
    fn is_of_another(&self, pod: &PodRecord, end: Option<&PodEnd>) -> bool {
        let row = self.record.as_ref().zip(pod.index);
        let row = row.and_then(|(record, index)| record.of(index.get())?.end);
        row.zip(end).is_some_and(|(row, end)| {
            !row.node.is_empty() && !end.node.is_empty() && row.node != end.node
        })
    }

    /// A Pod is gone. This is how it was known, and its last version, if that was shown.
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

    /// Counts a Pod that has failed, once. `before` is how it was known.
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

    /// What people are to be told after a turn of the Job.
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

    /// When there may be more to tell though nothing happens.
    pub(super) fn poll_timeout(&self) -> Option<Monotonic> {
        self.summary.as_ref()?.poll_timeout()
    }

    /// After a turn: what there is of the Job, for metrics. Of one that is gone nothing is told any more.
    pub(super) fn note(&mut self, numbers: Option<JobNumbers>) {
        match (&mut self.gauges, numbers) {
            (Some(gauges), Some(numbers)) => gauges.set(numbers),
            (gauges, None) => *gauges = None,
            (None, Some(_)) => {}
        }
    }
}

/// Whether a Pod's end is no failure, as it was deleted before: the Job was scaled down, suspended or had ended. Who is
/// evicted or preempted is deleted, too, and says so.
fn was_stopped(before: &PodRecord, pod: &PodRecord) -> bool {
    before.has(PodFlags::DELETING) && PodEnd::of_record(pod).cause.reason.is_empty()
}

/// A summary of a Job with the failures of which there are still Pods.
fn summary_of(job: &Job, pods: &PodTable, now: Now) -> FailureSummary {
    let mut summary = FailureSummary::new(job.status.failed, now.wall);
    let failed = pods.iter().map(|(_, pod)| pod);
    for pod in failed.filter(|pod| pod.phase == PodPhase::Failed && !was_stopped(pod, pod)) {
        summary.pod_failed(&PodEnd::of_record(pod).cause);
    }
    summary
}
