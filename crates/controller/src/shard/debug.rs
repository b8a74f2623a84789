//! Describes a shard's Jobs and their waits, for `/debug/jobs`.
//!
//! Must not: change anything, or be called on the path of a Pod event.

use serde_json::{Map, Value, json};

use lakh_core::decide::{IndexOverview, Overview};
use lakh_core::ownership::Standing;
use lakh_model::{
    ChildJob, Condition, ConditionKind, CronJob, IndexSet, Job, JobKey, JobSpec, JobStatus, Now,
    Time,
};

use crate::informer::Kind;

use super::{
    Shard,
    actor::Actor,
    comparison::is_doubted,
    index_map::IndexMap,
    records::{RecordPage, RecordQuery},
};

/// A query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// All Jobs, in brief.
    Jobs,
    /// All details of one Job.
    Job(JobKey),
    /// The same for one Job, with its indexes as a map and not as text.
    Indexes(JobKey),
    /// Records of some indexes of one Job.
    Records(RecordQuery),
    /// All CronJobs.
    CronJobs,
}

/// The description of a Job or CronJob.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDescription {
    /// The JSON object at `/debug/jobs`; of a CronJob the name and result of its last Job, or null.
    pub job: Value,
    /// Its indexes, if it has some and the query asks for them.
    pub indexes: Option<IndexMap>,
    /// Records of some indexes, if the query asks for them and they are kept.
    pub records: Option<RecordPage>,
    /// The CronJob.
    pub cron_job: Option<Box<CronJob>>,
}

impl From<Value> for JobDescription {
    fn from(job: Value) -> Self {
        Self {
            job,
            indexes: None,
            records: None,
            cron_job: None,
        }
    }
}

impl Shard {
    /// Answers a query. Returns an array of Jobs, because several Jobs may have had one name.
    pub fn answer_question(&self, question: &Question, now: Now) -> Vec<JobDescription> {
        let actors = self.store.all();
        match question {
            Question::Jobs => actors
                .map(|actor| actor.brief(actor.overview(now).as_ref(), now))
                .map(|told| Value::Object(told).into())
                .collect(),
            Question::Job(key) => actors
                .filter(|actor| actor.id.key == *key)
                .map(|actor| {
                    let indexes = actor.machine.as_deref().and_then(IndexOverview::of);
                    self.whole(actor, indexes.as_ref(), now).into()
                })
                .collect(),
            Question::Indexes(key) => actors
                .filter(|actor| actor.id.key == *key)
                .map(|actor| JobDescription {
                    job: self.whole(actor, None, now),
                    indexes: IndexMap::of(actor),
                    records: None,
                    cron_job: None,
                })
                .collect(),
            Question::Records(query) => actors
                .filter(|actor| query.is_about(&actor.id))
                .map(|actor| JobDescription {
                    job: Value::Object(actor.brief(None, now)),
                    indexes: None,
                    records: RecordPage::of(actor, query),
                    cron_job: None,
                })
                .collect(),
            Question::CronJobs => {
                let parts = self.cron_jobs.iter();
                let known = parts.flat_map(|part| part.known().map(move |it| (part, it)));
                known
                    .map(|(part, cron_job)| JobDescription {
                        job: part.last_job(cron_job).map_or(Value::Null, last_job),
                        indexes: None,
                        records: None,
                        cron_job: Some(Box::new(cron_job.clone())),
                    })
                    .collect()
            }
        }
    }

    /// Returns all details of a Job.
    fn whole(&self, actor: &Actor, indexes: Option<&IndexOverview>, now: Now) -> Value {
        let overview = actor.overview(now);
        let mut told = actor.brief(overview.as_ref(), now);
        let mut tell = |name: &str, value| told.insert(name.to_owned(), value);
        if let Some(job) = &actor.job {
            tell("resourceVersion", job.resource_version.to_string().into());
            tell("generation", job.generation.into());
            tell("conditions", conditions(&job.status));
            let deadline = job.spec.active_deadline.map(|limit| limit.as_secs());
            tell("activeDeadlineSeconds", deadline.into());
        }
        tell("podsKnown", actor.pods.len().into());
        tell("writesPending", actor.in_flight.into());
        let record = actor.annotated.as_ref().and_then(|it| it.record());
        let record = record.map(|record| {
            json!({
                "since": record.since().to_rfc3339(),
                "indexes": record.known(),
                "bytes": record.bytes(),
            })
        });
        tell("indexRecord", record.into());
        tell("heldUpBy", self.obstacles(actor, now).into());
        let warnings = actor.told.warnings().into_iter().map(|warning| {
            json!({
                "reason": warning.reason,
                "message": warning.message,
                "last": warning.last.to_rfc3339(),
                "count": warning.count,
            })
        });
        tell("warnings", warnings.collect());
        if let Some(overview) = &overview {
            tell("overview", overview_of(overview, indexes, now));
        }
        Value::Object(told)
    }

    /// Returns the reasons why a Job is not synced or its finalizers stay.
    fn obstacles(&self, actor: &Actor, now: Now) -> Vec<String> {
        let mut obstacles = Vec::new();
        let mut note = |is_so: bool, text: &str| {
            if is_so {
                obstacles.push(text.to_owned());
            }
        };
        note(
            now.monotonic >= self.leads_until,
            "this replica is not the leader",
        );
        note(self.outbox.is_closed(), "this replica is shutting down");
        note(
            self.history_ended,
            "the API server's data is older than before, as after a restored backup; everything is relisted",
        );
        for kind in [Kind::Job, Kind::Pod, Kind::Workload, Kind::PodGroup] {
            let text = format!("the list of {} is not complete", kind.plural());
            note(!self.known.has(kind), &text);
        }
        note(
            !self.is_heard,
            "a watch broke, and the API server has not responded since; no finalizer is removed until then",
        );
        note(
            is_doubted(&self.unconfirmed, actor),
            "a connection broke before a watch has confirmed the last status write; no finalizer is removed until then",
        );
        note(
            actor.waits_for_pods(),
            "another controller has changed the status; the Job's Pods are being relisted",
        );
        note(
            self.rounds.claims.holds(&actor.id),
            "adoption or release of Pods is in progress",
        );
        obstacles
    }
}

impl Actor {
    fn overview(&self, now: Now) -> Option<Overview> {
        Some(Overview::of(self.machine.as_deref()?, now))
    }

    /// Why Pods that are wanted are not created, until when, and the API server's last refusal; none if they are created.
    fn blocked(&self, known: &Overview, now: Now) -> Option<Value> {
        let refused = known.are_creations_refused && known.missing + known.creating > 0;
        let mut waits = known.waits.iter();
        let wait = waits.find(|(why, _)| BLOCKING.contains(why));
        if wait.is_none() && !refused {
            return None;
        }
        let refusal = refused.then(|| self.told.last_warning(CREATION_FAILED));
        Some(json!({
            "by": if refused { "refusal" } else { wait.map_or("", |(why, _)| *why) },
            "until": wait.map(|(_, left)| (now.wall + *left).to_rfc3339()),
            "message": refusal.flatten(),
        }))
    }

    /// Returns a Job's identity, state, progress and first wait.
    fn brief(&self, overview: Option<&Overview>, now: Now) -> Map<String, Value> {
        let status = self.job.as_ref().map(|job: &Job| &job.status);
        let waits = overview.and_then(|known| known.waits.first().copied());
        let spec = self.job.as_ref().map(|job| &job.spec);
        let told = json!({
            "namespace": self.id.key.namespace,
            "name": self.id.key.name,
            "uid": self.id.uid.to_string(),
            "state": state(self.standing()),
            "result": status.and_then(end).map(verdict_kind),
            "created": self.job.as_ref().and_then(|job| job.created).map(Time::to_rfc3339),
            "started": status.and_then(|status| status.start_time).map(Time::to_rfc3339),
            "ended": status.and_then(end).and_then(|end| end.last_transition).map(Time::to_rfc3339),
            "reason": status.and_then(verdict).map(|verdict| verdict.reason.as_str()),
            "verdict": overview.and_then(verdict_of).or_else(|| status.and_then(verdict).map(verdict_kind)),
            "wasSuspended": status.is_some_and(was_suspended),
            "deleting": self.job.as_ref().is_some_and(|job| job.deleting),
            "suspend": spec.map(|spec| spec.suspend),
            "indexed": spec.is_some_and(JobSpec::is_indexed),
            "perIndex": spec.is_some_and(|spec| spec.per_index.is_some()),
            "parallelism": spec.map(|spec| spec.parallelism),
            "completions": spec.and_then(|spec| spec.completions),
            "managedBy": spec.and_then(|spec| spec.managed_by.as_deref()),
            "contested": overview.is_some_and(|known| known.is_contested),
            "missing": overview.map(|known| known.missing),
            "creating": overview.map(|known| known.creating),
            "blocked": overview.and_then(|known| self.blocked(known, now)),
            "ready": overview.map_or_else(|| status.and_then(|of| of.ready), |known| Some(known.sums.ready)),
            "failedIndexes": overview.map(|known| known.sums.failed).or_else(|| failed_indexes(self.job.as_ref()?)),
            "active": overview.map(|known| known.sums.active),
            "succeeded": overview.map_or_else(|| status.map(|of| of.succeeded), |known| Some(known.succeeded)),
            "failed": overview.map_or_else(|| status.map(|of| of.failed), |known| Some(known.failed)),
            "waitsFor": waits.map(|(why, _)| why),
            "until": waits.map(|(_, left)| (now.wall + left).to_rfc3339()),
        });
        match told {
            Value::Object(told) => told,
            _ => Map::new(),
        }
    }
}

/// The reason of Events about Pods that could not be created.
const CREATION_FAILED: &str = "FailedCreate";

/// Waits that mean: Pods are wanted, and none is created until they end.
const BLOCKING: [&str; 5] = [
    "pod creation backoff",
    "pod creation retry",
    "index backoff",
    "gang",
    "lost creations",
];

fn last_job(job: &ChildJob) -> Value {
    json!({
        "name": job.name,
        "uid": job.uid.to_string(),
        "result": job.end.map(ConditionKind::as_str),
    })
}

fn state(standing: Standing) -> &'static str {
    match standing {
        Standing::AtWork => "at work",
        Standing::Finished => "finished",
        Standing::Gone => "gone",
        Standing::Unseen => "not seen; known by its Pods",
        Standing::External => "managed by another controller",
    }
}

/// The conditions of a finished Job.
const ENDS: [ConditionKind; 2] = [ConditionKind::Complete, ConditionKind::Failed];

/// The conditions that announce a Job's end, in the order of [`ENDS`].
const VERDICTS: [ConditionKind; 2] = [
    ConditionKind::SuccessCriteriaMet,
    ConditionKind::FailureTarget,
];

/// Returns the condition that ended the Job.
fn end(status: &JobStatus) -> Option<&Condition> {
    ENDS.iter().find_map(|kind| status.true_condition(*kind))
}

/// Returns the condition that ended the Job, or announces its end.
fn verdict(status: &JobStatus) -> Option<&Condition> {
    let mut announced = VERDICTS.iter();
    end(status).or_else(|| announced.find_map(|kind| status.true_condition(*kind)))
}

/// Returns the kind of the final condition for that verdict.
fn verdict_kind(verdict: &Condition) -> &'static str {
    let fails = verdict.is(ConditionKind::Failed) || verdict.is(ConditionKind::FailureTarget);
    ENDS[usize::from(fails)].as_str()
}

fn verdict_of(known: &Overview) -> Option<&'static str> {
    let (verdict, _) = known.verdict.as_ref()?;
    Some(ENDS[usize::from(!verdict.success)].as_str())
}

/// Counts the failed indexes of a Job without a machine. A list longer than 8 KiB is not parsed, because all Jobs are
/// described at once.
fn failed_indexes(job: &Job) -> Option<u32> {
    const READ: usize = 8 << 10;
    let list = job.status.failed_indexes.as_deref()?;
    let limit = job.spec.completions?;
    (list.len() <= READ).then(|| IndexSet::parse(list, limit).len())
}

/// Returns true if the Job is or was suspended. Its start time is then that of its last resumption.
fn was_suspended(status: &JobStatus) -> bool {
    let mut conditions = status.conditions.iter();
    conditions.any(|condition| condition.is(ConditionKind::Suspended))
}

/// A Job's conditions. Another client may write any number of any length, so both are bounded.
fn conditions(status: &JobStatus) -> Value {
    const CONDITIONS: usize = 16;
    const MESSAGE: usize = 1_000;
    let conditions = status.conditions.iter().take(CONDITIONS);
    let conditions = conditions.map(|condition| {
        json!({
            "type": condition.kind,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message.chars().take(MESSAGE).collect::<String>(),
            "since": condition.last_transition.map(Time::to_rfc3339),
        })
    });
    conditions.collect()
}

fn overview_of(known: &Overview, indexes: Option<&IndexOverview>, now: Now) -> Value {
    let verdict = known.verdict.as_ref().map(|(verdict, is_announced)| {
        json!({
            "condition": if verdict.success { "Complete" } else { "Failed" },
            "reason": verdict.reason,
            "message": verdict.message,
            "announced": is_announced,
        })
    });
    let waits = known.waits.iter().map(|(why, left)| {
        json!({
            "for": why,
            "seconds": left.as_secs_f64(),
            "until": Time::to_rfc3339(now.wall + *left),
        })
    });
    json!({
        "pods": {
            "active": known.sums.active,
            "ready": known.sums.ready,
            "terminating": known.sums.terminating,
            "succeeded": known.succeeded,
            "failed": known.failed,
            "endedAndNotYetNamed": known.sums.to_be_named,
            "withFinalizer": known.sums.with_finalizer,
            "beingCreated": known.creating,
            "missing": known.missing,
        },
        "indexes": indexes.map(indexes_of),
        "verdict": verdict,
        "statusWriteUnderWay": known.writes_status,
        "anotherController": known.is_contested,
        "waits": waits.collect::<Vec<_>>(),
    })
}

fn indexes_of(indexes: &IndexOverview) -> Value {
    json!({
        "completed": indexes.completed.to_string(),
        "failed": indexes.failed.as_ref().map(IndexSet::to_string),
        "inBackoff": indexes.in_backoff.to_string(),
        "withoutPod": indexes.without_pod.to_string(),
    })
}
