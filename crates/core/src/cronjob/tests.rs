//! Tests Jobs that the status has lost, and names that other Jobs have taken. The rules themselves
//! (docs/rules/cronjobs.md) have their rows in `tests/golden/cronjob.rows`.

use std::time::Duration;

use crate::model::{
    ActiveJob, ChildJob, ConcurrencyPolicy, ConditionKind, CronJob, CronJobSpec, CronJobStatus,
    JobKey, Report, Time, Uid,
};

use super::{CallAnswer, CronJobEffect, CronJobSync, FoundJob, Next, NotCreated};

/// A full hour.
const HOUR: Time = Time::from_secs(2_000_001_600);
const OWN: Uid = Uid::from_u128(1);
const FIRST: Uid = Uid::from_u128(2);
const SECOND: Uid = Uid::from_u128(3);

fn hours(count: u64) -> Time {
    HOUR + Duration::from_secs(3600 * count)
}

/// A CronJob that runs each hour and has run at [`HOUR`].
fn cron_job(concurrency: ConcurrencyPolicy) -> CronJob {
    CronJob {
        key: JobKey {
            namespace: "default".into(),
            name: "c".into(),
        },
        uid: OWN,
        resource_version: 5,
        deleting: false,
        created: Time::from_secs(HOUR.as_secs() - 60),
        spec: CronJobSpec {
            schedule: "0 * * * *".to_owned(),
            concurrency,
            successful_jobs: Some(0),
            ..CronJobSpec::default()
        },
        status: CronJobStatus {
            last_schedule: Some(HOUR),
            ..CronJobStatus::default()
        },
    }
}

fn name(run: Time) -> String {
    format!("c-{}", run.as_secs() / 60)
}

fn child(uid: Uid, run: Time, end: Option<ConditionKind>) -> ChildJob {
    ChildJob {
        name: name(run).into(),
        uid,
        scheduled: Some(run),
        end,
        complete: end == Some(ConditionKind::Complete),
        start: Some(run),
        completion: end.map(|_| run),
    }
}

fn active(uid: Uid, run: Time) -> ActiveJob {
    ActiveJob {
        name: name(run).into(),
        uid,
        resource_version: 1,
    }
}

fn job(uid: Uid) -> CallAnswer {
    CallAnswer::Job(FoundJob {
        uid,
        resource_version: 1,
        controller: Some(OWN),
    })
}

/// Polls until a request that is not an Event.
fn asks(sync: &mut CronJobSync) -> CronJobEffect {
    loop {
        match sync.poll() {
            CronJobEffect::Report(_) => {}
            effect => return effect,
        }
    }
}

#[test]
fn a_job_that_was_made_and_forgotten_holds_up_the_next_run() {
    let known = cron_job(ConcurrencyPolicy::Forbid);
    let forgotten = vec![child(FIRST, hours(1), None)];
    let mut sync = CronJobSync::new(known.clone(), forgotten, hours(2));
    assert_eq!(asks(&mut sync), CronJobEffect::GetCronJob);
    sync.handle(CallAnswer::CronJob(Box::new(known)));
    assert_eq!(
        asks(&mut sync),
        CronJobEffect::GetJob(name(hours(1)).into())
    );
    sync.handle(job(FIRST));
    let status = CronJobStatus {
        active: vec![active(FIRST, hours(1))],
        last_schedule: Some(hours(1)),
        last_successful: None,
    };
    assert_eq!(asks(&mut sync), CronJobEffect::WriteStatus(status, 5));
}

#[test]
fn a_fetched_cron_job_replaces_an_outdated_cached_one() {
    let known = cron_job(ConcurrencyPolicy::Allow);
    let mut fresh = known.clone();
    fresh.status.active = vec![active(SECOND, hours(2)), active(OWN, hours(3))];
    fresh.status.last_schedule = Some(hours(3));
    let jobs = vec![
        child(FIRST, hours(1), None),
        child(OWN, hours(3), Some(ConditionKind::Failed)),
        child(SECOND, hours(2), None),
    ];
    let mut sync = CronJobSync::new(known.clone(), jobs, hours(3));
    assert_eq!(asks(&mut sync), CronJobEffect::GetCronJob);
    sync.handle(CallAnswer::CronJob(Box::new(known)));
    assert_eq!(
        asks(&mut sync),
        CronJobEffect::GetJob(name(hours(1)).into())
    );
    sync.handle(job(FIRST));
    assert_eq!(asks(&mut sync), CronJobEffect::GetCronJob);
    sync.handle(CallAnswer::CronJob(Box::new(fresh)));
    // The finished Job was compared with stale data; the recovered Job is not in the fresh status.
    let status = CronJobStatus {
        active: vec![active(SECOND, hours(2)), active(FIRST, hours(1))],
        last_schedule: Some(hours(3)),
        last_successful: None,
    };
    assert_eq!(asks(&mut sync), CronJobEffect::WriteStatus(status, 5));
}

#[test]
fn the_later_success_is_kept_when_the_known_cron_job_turns_out_to_be_old() {
    for (found, stored) in [(hours(1), hours(2)), (hours(2), hours(1))] {
        let known = cron_job(ConcurrencyPolicy::Allow);
        let mut fresh = known.clone();
        fresh.status.active = vec![active(SECOND, hours(3))];
        fresh.status.last_schedule = Some(hours(3));
        fresh.status.last_successful = Some(stored);
        let status = CronJobStatus {
            last_successful: Some(hours(2)),
            ..fresh.status.clone()
        };
        let jobs = vec![
            child(FIRST, found, Some(ConditionKind::Complete)),
            child(SECOND, hours(3), None),
        ];
        let mut sync = CronJobSync::new(known, jobs, hours(3));
        assert_eq!(asks(&mut sync), CronJobEffect::GetCronJob);
        sync.handle(CallAnswer::CronJob(Box::new(fresh)));
        assert_eq!(asks(&mut sync), CronJobEffect::WriteStatus(status, 5));
    }
}

#[test]
fn a_runs_job_is_not_deleted_before_the_status_records_the_run() {
    let known = cron_job(ConcurrencyPolicy::Allow);
    let ended = vec![child(FIRST, hours(1), Some(ConditionKind::Complete))];
    let mut sync = CronJobSync::new(known.clone(), ended.clone(), hours(1));
    let status = CronJobStatus {
        active: Vec::new(),
        last_schedule: Some(hours(1)),
        last_successful: Some(hours(1)),
    };
    assert_eq!(
        asks(&mut sync),
        CronJobEffect::WriteStatus(status.clone(), 5)
    );
    sync.handle(CallAnswer::StatusWritten);
    assert_eq!(asks(&mut sync), CronJobEffect::Over(Next::At(hours(1))));
    let told = CronJob { status, ..known };
    let mut sync = CronJobSync::new(told, ended, hours(1));
    assert_eq!(
        asks(&mut sync),
        CronJobEffect::DeleteJob(FIRST, name(hours(1)).into())
    );
}

#[test]
fn a_run_that_has_not_come_by_a_clock_that_went_back_is_not_forgotten() {
    let known = cron_job(ConcurrencyPolicy::Allow);
    let ended = vec![child(FIRST, hours(9), Some(ConditionKind::Failed))];
    let mut sync = CronJobSync::new(known, ended, HOUR);
    let next = hours(1) + Duration::from_millis(100);
    assert_eq!(asks(&mut sync), CronJobEffect::Over(Next::At(next)));
}

#[test]
fn a_job_that_has_the_name_of_one_under_way_holds_up_but_is_not_replaced() {
    let mut known = cron_job(ConcurrencyPolicy::Forbid);
    known.status.active = vec![active(FIRST, HOUR)];
    let mut sync = CronJobSync::new(known.clone(), Vec::new(), hours(1));
    assert_eq!(asks(&mut sync), CronJobEffect::GetJob(name(HOUR).into()));
    sync.handle(job(SECOND));
    let next = hours(2) + Duration::from_millis(100);
    assert_eq!(asks(&mut sync), CronJobEffect::Over(Next::At(next)));
    known.spec.concurrency = ConcurrencyPolicy::Replace;
    let jobs = vec![child(FIRST, HOUR, None)];
    let mut sync = CronJobSync::new(known, jobs, hours(1));
    assert_eq!(asks(&mut sync), CronJobEffect::GetJob(name(HOUR).into()));
    sync.handle(job(SECOND));
    let missing = format!("Active job went missing: {}", name(HOUR));
    let report = Report::normal("MissingJob", &missing);
    assert_eq!(sync.poll(), CronJobEffect::Report(report));
    assert!(matches!(asks(&mut sync), CronJobEffect::CreateJob(_)));
}

#[test]
fn a_job_that_takes_the_name_just_before_the_deletion_stays() {
    let mut known = cron_job(ConcurrencyPolicy::Replace);
    known.status.active = vec![active(FIRST, HOUR)];
    let jobs = vec![child(FIRST, HOUR, None)];
    let mut sync = CronJobSync::new(known, jobs, hours(1));
    assert_eq!(asks(&mut sync), CronJobEffect::GetJob(name(HOUR).into()));
    sync.handle(job(FIRST));
    let delete = CronJobEffect::DeleteJob(FIRST, name(HOUR).into());
    assert_eq!(asks(&mut sync), delete);
    let conflict = "the UID in the precondition is another one";
    sync.handle(CallAnswer::Failed(conflict.to_owned()));
    let report = Report::warning("FailedDelete", &format!("Deleted job: {conflict}"));
    assert_eq!(sync.poll(), CronJobEffect::Report(report));
    assert_eq!(asks(&mut sync), CronJobEffect::Over(Next::Retry));
}

#[test]
fn a_forgotten_run_is_known_by_its_time_not_by_its_minute() {
    let mut known = cron_job(ConcurrencyPolicy::Allow);
    known.spec.schedule = "@every 90s".to_owned();
    let run = HOUR + Duration::from_secs(90);
    let ended = vec![child(FIRST, run, Some(ConditionKind::Failed))];
    let mut sync = CronJobSync::new(known.clone(), ended.clone(), run);
    let status = CronJobStatus {
        last_schedule: Some(run),
        ..CronJobStatus::default()
    };
    assert_eq!(
        asks(&mut sync),
        CronJobEffect::WriteStatus(status.clone(), 5)
    );
    // A user wrote a time that is not within the name's minute.
    let mut odd = ended;
    odd[0].scheduled = Some(hours(1));
    let mut sync = CronJobSync::new(known, odd, run);
    let minute = Some(HOUR + Duration::from_secs(60));
    let status = CronJobStatus {
        last_schedule: minute,
        ..status
    };
    assert_eq!(asks(&mut sync), CronJobEffect::WriteStatus(status, 5));
}

#[test]
fn a_job_that_is_found_by_its_name_is_taken_in_once() {
    let known = cron_job(ConcurrencyPolicy::Allow);
    let mut sync = CronJobSync::new(known, Vec::new(), hours(1));
    assert!(matches!(asks(&mut sync), CronJobEffect::CreateJob(_)));
    sync.handle(CallAnswer::NotCreated(NotCreated::NameTaken));
    assert_eq!(
        asks(&mut sync),
        CronJobEffect::GetJob(name(hours(1)).into())
    );
    sync.handle(job(FIRST));
    let status = CronJobStatus {
        active: vec![active(FIRST, hours(1))],
        last_schedule: Some(hours(1)),
        last_successful: None,
    };
    assert_eq!(asks(&mut sync), CronJobEffect::WriteStatus(status, 5));
}

/// Another owner's Job has the name of the run: it is not listed, and the next look comes with the next run.
#[test]
fn a_job_of_another_owner_is_not_taken_in() {
    for controller in [None, Some(Uid::from_u128(99))] {
        let known = cron_job(ConcurrencyPolicy::Allow);
        let mut sync = CronJobSync::new(known, Vec::new(), hours(1));
        assert!(matches!(asks(&mut sync), CronJobEffect::CreateJob(_)));
        sync.handle(CallAnswer::NotCreated(NotCreated::NameTaken));
        assert!(matches!(asks(&mut sync), CronJobEffect::GetJob(_)));
        sync.handle(CallAnswer::Job(FoundJob {
            uid: FIRST,
            resource_version: 9,
            controller,
        }));
        assert!(matches!(asks(&mut sync), CronJobEffect::Over(Next::At(_))));
    }
}
