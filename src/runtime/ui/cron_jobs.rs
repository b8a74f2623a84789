//! Describes CronJobs for the page, with their next runs.
//!
//! The next runs are computed when a run has passed or a schedule has changed, not with each poll. Must not: start
//! runs.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::{
    cronjob::Outlook,
    model::{CronJob, Time, Uid},
};

/// Number of next runs in a description.
const RUNS: usize = 5;

/// The computed runs of all CronJobs, for one stream.
#[derive(Debug, Default)]
pub(super) struct Outlooks(HashMap<Uid, (ScheduleSeen, Result<Outlook, String>)>);

/// The inputs of an outlook, except the time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ScheduleSeen {
    schedule: String,
    time_zone: Option<String>,
    last: Option<Time>,
}

impl Outlooks {
    /// Returns the JSON of these CronJobs by UID. They are all that exist; each comes with its last Job, or null.
    pub(super) fn update(
        &mut self,
        cron_jobs: &[(CronJob, Value)],
        now: Time,
    ) -> HashMap<String, Value> {
        let mut before = std::mem::take(&mut self.0);
        let mut told = HashMap::new();
        for (cron_job, last_job) in cron_jobs {
            let reason = ScheduleSeen {
                schedule: cron_job.spec.schedule.clone(),
                time_zone: cron_job.spec.time_zone.clone(),
                last: cron_job.status.last_schedule,
            };
            let is_current = |(of, known): &(ScheduleSeen, Result<Outlook, String>)| {
                let first = known.as_ref().ok().and_then(|known| known.runs.first());
                *of == reason && first.is_none_or(|first| *first > now)
            };
            let known = before.remove(&cron_job.uid).filter(is_current);
            let known = known.unwrap_or_else(|| (reason, Outlook::of(cron_job, RUNS, now)));
            told.insert(
                cron_job.uid.to_string(),
                describe(cron_job, last_job, &known.1),
            );
            self.0.insert(cron_job.uid, known);
        }
        told
    }
}

fn describe(cron_job: &CronJob, last_job: &Value, outlook: &Result<Outlook, String>) -> Value {
    let CronJob { spec, status, .. } = cron_job;
    let active = status.active.iter().map(|job| job.name.as_str());
    let mut told = json!({
        "uid": cron_job.uid.to_string(),
        "namespace": cron_job.key.namespace,
        "name": cron_job.key.name,
        "schedule": spec.schedule,
        "timeZone": spec.time_zone,
        "suspend": spec.suspend,
        "created": cron_job.created.to_rfc3339(),
        "concurrencyPolicy": spec.concurrency.as_str(),
        "lastJob": last_job,
        "last": status.last_schedule.map(Time::to_rfc3339),
        "lastSuccess": status.last_successful.map(Time::to_rfc3339),
        "active": active.collect::<Vec<_>>(),
        "words": null,
        "next": [],
        "problem": null,
    });
    match outlook {
        Err(problem) => told["problem"] = problem.as_str().into(),
        Ok(outlook) => {
            told["words"] = outlook.words.as_str().into();
            if !spec.suspend {
                told["next"] = outlook.runs.iter().map(|run| run.to_rfc3339()).collect();
            }
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use crate::model::{CronJobSpec, CronJobStatus};

    use super::*;

    fn cron_job(schedule: &str, zone: Option<&str>) -> CronJob {
        CronJob {
            key: crate::model::JobKey {
                namespace: "a".into(),
                name: "nightly".into(),
            },
            uid: Uid::from_u128(1),
            resource_version: 1,
            deleting: false,
            created: Time::from_secs(0),
            spec: CronJobSpec {
                schedule: schedule.to_owned(),
                time_zone: zone.map(str::to_owned),
                ..CronJobSpec::default()
            },
            status: CronJobStatus::default(),
        }
    }

    fn told(outlooks: &mut Outlooks, cron_job: &CronJob, now: &str) -> Value {
        let now = Time::parse_rfc3339(now).expect("a time");
        let last_job = json!({"name": "nightly-1", "uid": "u", "result": "Failed"});
        let mut told = outlooks.update(&[(cron_job.clone(), last_job)], now);
        told.remove(&cron_job.uid.to_string()).expect("it is told")
    }

    #[test]
    fn the_next_runs_are_those_of_its_zone_and_move_on() {
        let mut outlooks = Outlooks::default();
        let nightly = cron_job("30 2 * * *", Some("Europe/Berlin"));
        let first = told(&mut outlooks, &nightly, "2026-11-26T00:00:00Z");
        assert_eq!(first["next"][0], "2026-11-26T01:30:00Z");
        assert_eq!(first["lastJob"]["result"], "Failed");
        assert_eq!(
            (&first["concurrencyPolicy"], &first["created"]),
            (&json!("Allow"), &json!("1970-01-01T00:00:00Z"))
        );
        assert_eq!(first["next"].as_array().map(Vec::len), Some(RUNS));
        let later = told(&mut outlooks, &nightly, "2026-11-26T01:30:00Z");
        assert_eq!(later["next"][0], "2026-11-27T01:30:00Z");
        let hourly = cron_job("0 * * * *", None);
        let changed = told(&mut outlooks, &hourly, "2026-11-26T01:30:00Z");
        assert_eq!(changed["next"][0], "2026-11-26T02:00:00Z");
    }

    #[test]
    fn a_cron_job_without_runs_has_a_reason() {
        let mut outlooks = Outlooks::default();
        let now = "2026-11-26T00:00:00Z";
        let mut suspended = cron_job("0 * * * *", None);
        suspended.spec.suspend = true;
        let suspended = told(&mut outlooks, &suspended, now);
        assert_eq!(
            (&suspended["next"], &suspended["suspend"]),
            (&json!([]), &json!(true))
        );
        let nowhere = told(
            &mut outlooks,
            &cron_job("0 * * * *", Some("Mars/Base")),
            now,
        );
        assert_eq!(nowhere["problem"], "unknown time zone Mars/Base");
        let invalid = told(&mut outlooks, &cron_job("never", None), now);
        let problem = invalid["problem"].as_str().expect("a problem");
        assert!(problem.starts_with("unparseable schedule"), "{problem}");
    }
}
