//! Builds the requests of a CronJob's sync, and decodes their responses.
//!
//! Must not: know which CronJob is synced.

use serde_json::value::RawValue;

use lakh_core::cronjob::{CallAnswer, NewJob, NotCreated};
use lakh_model::{ChildJob, CronJob, CronJobStatus, JobKey, Now, Time, Uid};
use lakh_wire::{
    self, ApiError, Call, DecodedCronJob, ErrorKind, ExpectedAnswer, Patch, decode_cron_job,
    decode_job, paths,
};

use crate::{machine::CallResult, metrics::Metrics, shard::outbox::Named};

pub(super) fn get_cron_job(key: &JobKey) -> Named {
    let path = paths::cron_job(&key.namespace, &key.name);
    let expected = ExpectedAnswer::Named(key.name.as_str().into());
    Named::new("get", "cronjobs", Call::get(path), expected)
}

pub(super) fn delete_job(key: &JobKey, uid: Uid, name: &str) -> Named {
    let path = paths::job(&key.namespace, name);
    let options = lakh_wire::background_deletion(uid);
    let deletion = Call::delete_with(path, options);
    Named::new("delete", "jobs", deletion, ExpectedAnswer::DeletionOf(uid))
}

pub(super) fn create_job(
    cron_job: &CronJob,
    template: &RawValue,
    job: &NewJob,
) -> Result<Named, serde_json::Error> {
    let body = lakh_wire::job_of_cron_job(cron_job, template, &job.name, &job.timestamp)?;
    let path = paths::jobs(Some(&cron_job.key.namespace));
    let expected = ExpectedAnswer::Named(job.name.as_str().into());
    Ok(Named::new(
        "create",
        "jobs",
        Call::create(path, body),
        expected,
    ))
}

pub(super) fn write_status((key, uid): (&JobKey, Uid), status: &CronJobStatus, on: u64) -> Named {
    let path = paths::cron_job_status(&key.namespace, &key.name);
    let body = lakh_wire::cron_job_status_patch(key, uid, on, status);
    let patch = Call::patch(path, Patch::Merge, body);
    Named::new(
        "patch",
        "cronjobs/status",
        patch,
        ExpectedAnswer::OfUid(uid),
    )
}

/// Decodes the response to a GET.
pub(super) fn found<T>(
    result: CallResult,
    decode: fn(&str) -> serde_json::Result<T>,
    read: impl FnOnce(T) -> CallAnswer,
) -> CallAnswer {
    match result.map(|answer| decode(&String::from_utf8_lossy(&answer))) {
        Ok(Ok(decoded)) => read(decoded),
        Ok(Err(error)) => CallAnswer::Failed(error.to_string()),
        Err(error) => refusal(&error),
    }
}

/// Returns the created Job, if the creation succeeded.
pub(super) fn made(result: &CallResult) -> Option<ChildJob> {
    let answer = String::from_utf8_lossy(result.as_ref().ok()?);
    let job = decode_job(&answer).ok()?;
    Some(lakh_wire::child_job(&job))
}

/// Decodes the response to the creation of a Job scheduled for `scheduled`.
pub(super) fn created(
    result: CallResult,
    scheduled: Time,
    metrics: &Metrics,
    now: Now,
) -> CallAnswer {
    match result {
        Ok(answer) => match lakh_wire::ack_of_write(&answer) {
            Some((uid, resource_version, _)) => {
                let late = now.wall.since(scheduled);
                metrics.cron_job_skew.observe(late.as_secs_f64());
                CallAnswer::Created {
                    uid,
                    resource_version,
                }
            }
            None => CallAnswer::NotCreated(NotCreated::Other("odd answer".to_owned())),
        },
        Err(error) => CallAnswer::NotCreated(match error.kind {
            ErrorKind::AlreadyExists => NotCreated::NameTaken,
            ErrorKind::NamespaceTerminating => NotCreated::NamespaceTerminating,
            _ => NotCreated::Other(error.to_string()),
        }),
    }
}

pub(super) fn refusal(error: &ApiError) -> CallAnswer {
    match error.kind {
        ErrorKind::NotFound => CallAnswer::NotFound(error.to_string()),
        _ => CallAnswer::Failed(error.to_string()),
    }
}

/// Decodes the CronJob with this UID from a GET, for its template. A version newer than the cached one is fine: the
/// owner has changed the CronJob since.
pub(super) fn template_of(result: CallResult, uid: Uid) -> Result<DecodedCronJob, String> {
    let answer = result.map_err(|error| error.to_string())?;
    let found = decode_cron_job(&String::from_utf8_lossy(&answer));
    let found = found.map_err(|error| error.to_string())?;
    match found.cron_job.uid == uid {
        true => Ok(found),
        false => Err("another CronJob has the name".to_owned()),
    }
}
