//! Runs syncs of a CronJob against cases as text: the cached state, the server's responses, and the outcome.
//!
//! A row of `tests/golden/cronjob.rows` has the rules (docs/rules/cronjobs.md) that it tests, the words of the case,
//! and the requests of the sync. After `~` comes another sync, on the state that the first one left: its words change
//! the CronJob and the time, and list the Jobs and failures anew. `changed` runs no sync, but handles a change of
//! schedule or time zone. `UPDATE_GOLDEN=1` rewrites the last column; read the diff. Times are seconds from
//! 2016-05-19T10:00:00Z, or RFC 3339. A space in a schedule is written `_`. `rows.rs` checks that no rule is left out.

use std::{fmt::Write as _, time::Duration};

use lakh::{
    cronjob::{
        CallAnswer, CronJobEffect, CronJobSync, FoundJob, Next, NotCreated, look_after_change,
    },
    model::{
        ActiveJob, ChildJob, ConcurrencyPolicy, ConditionKind, CronJob, CronJobSpec, CronJobStatus,
        JobKey, Report, Severity, Time, Uid,
    },
};

use crate::common::rows;

const ROWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/cronjob.rows");

/// 2016-05-19T10:00:00Z, a Thursday.
const T: i64 = 1_463_652_000;

/// The CronJob's UID.
const OWN: Uid = Uid::from_u128(0xc);

struct Case {
    cron_job: CronJob,
    now: Time,
    live: Option<CronJob>,
    jobs: Vec<ChildJob>,
    /// Schedule or time zone have changed; no sync runs.
    changed: bool,
    /// Names without a Job on the server.
    gone: Vec<String>,
    /// Names that belong to another Job on the server.
    other: Vec<String>,
    /// Requests that fail: `get`, `delete`, `status`, `getcron`, or the kind of a failed creation.
    fails: Vec<String>,
}

fn at(text: &str) -> Time {
    if let Some(time) = Time::parse_rfc3339(text) {
        return time;
    }
    let millis: f64 = text.parse().unwrap_or_else(|_| panic!("{text}: seconds"));
    Time::from_millis(T * 1000 + (millis * 1000.0) as i64)
}

/// Derives a Job's UID from its name, so that cases need no UIDs.
fn uid(name: &str) -> Uid {
    let digit = |sum: u128, byte| sum.wrapping_mul(131).wrapping_add(u128::from(byte));
    Uid::from_u128(name.bytes().fold(7, digit))
}

fn active(names: &str) -> Vec<ActiveJob> {
    let names = names.split(',').filter(|name| !name.is_empty());
    let job = |name: &str| ActiveJob {
        name: name.into(),
        uid: uid(name),
        resource_version: 5,
    };
    names.map(job).collect()
}

/// `name`, `name:Complete@start/completion` or `name:Failed@start`; `?` for an unknown time.
fn child(text: &str) -> ChildJob {
    let (name, end) = text.split_once(':').unwrap_or((text, ""));
    let (end, times) = end.split_once('@').unwrap_or((end, "?/?"));
    let (start, completion) = times.split_once('/').unwrap_or((times, "?"));
    let time = |text: &str| (text != "?").then(|| at(text));
    let end = match end {
        "" => None,
        "Complete" => Some(ConditionKind::Complete),
        "Failed" => Some(ConditionKind::Failed),
        _ => panic!("{text}"),
    };
    ChildJob {
        name: name.into(),
        uid: uid(name),
        scheduled: None,
        complete: end == Some(ConditionKind::Complete),
        end,
        start: time(start),
        completion: time(completion),
    }
}

impl Case {
    fn new() -> Self {
        let cron_job = CronJob {
            key: JobKey {
                namespace: "d".into(),
                name: "c".into(),
            },
            uid: OWN,
            resource_version: 5,
            deleting: false,
            created: at("0"),
            spec: CronJobSpec {
                schedule: "0 * * * ?".to_owned(),
                successful_jobs: Some(3),
                failed_jobs: Some(1),
                ..CronJobSpec::default()
            },
            status: CronJobStatus::default(),
        };
        Self::of(cron_job, at("0"))
    }

    fn of(cron_job: CronJob, now: Time) -> Self {
        Self {
            cron_job,
            now,
            live: None,
            jobs: Vec::new(),
            changed: false,
            gone: Vec::new(),
            other: Vec::new(),
            fails: Vec::new(),
        }
    }

    fn take_in(&mut self, word: &str) {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let cron_job = &mut self.cron_job;
        let (spec, status) = (&mut cron_job.spec, &mut cron_job.status);
        let limit = || (value != "nil").then(|| value.parse().expect("a number"));
        match word {
            "now" => self.now = at(value),
            "name" => cron_job.key.name = value.into(),
            "created" => cron_job.created = at(value),
            "last" => status.last_schedule = Some(at(value)),
            "success" => status.last_successful = Some(at(value)),
            "schedule" => spec.schedule = value.replace('_', " "),
            "tz" => spec.time_zone = Some(value.to_owned()),
            "sds" => {
                let secs = value.parse().expect("seconds");
                spec.starting_deadline = Some(Duration::from_secs(secs));
            }
            "Forbid" => spec.concurrency = ConcurrencyPolicy::Forbid,
            "Replace" => spec.concurrency = ConcurrencyPolicy::Replace,
            "Allow" => spec.concurrency = ConcurrencyPolicy::Allow,
            "suspend" => spec.suspend = true,
            "resume" => spec.suspend = false,
            "changed" => self.changed = true,
            "deleting" => cron_job.deleting = true,
            "ok" => spec.successful_jobs = limit(),
            "bad" => spec.failed_jobs = limit(),
            "active" => status.active = active(value),
            "live" => {
                let mut live = cron_job.clone();
                live.status.active = active(value);
                live.status.last_schedule = Some(at("0"));
                live.resource_version = 9;
                self.live = Some(live);
            }
            "job" => self.jobs.push(child(value)),
            "gone" => self.gone.push(value.to_owned()),
            "other" => self.other.push(value.to_owned()),
            "fails" => self.fails.push(value.to_owned()),
            _ => panic!("{word}"),
        }
    }
}

impl Case {
    fn fails(&self, what: &str) -> bool {
        self.fails.iter().any(|fails| fails == what)
    }

    fn answer(&self, effect: &CronJobEffect, said: &mut String) -> CallAnswer {
        match effect {
            CronJobEffect::GetCronJob => {
                said.push_str("get cronjob");
                if self.fails("getcron") {
                    return CallAnswer::Failed("no".to_owned());
                }
                let live = self.live.clone();
                CallAnswer::CronJob(Box::new(live.unwrap_or_else(|| self.cron_job.clone())))
            }
            CronJobEffect::GetJob(name) => {
                let _ = write!(said, "get {name}");
                if self.fails("get") {
                    return CallAnswer::Failed("no".to_owned());
                }
                if self.gone.iter().any(|gone| gone == name) {
                    return CallAnswer::NotFound("not found".to_owned());
                }
                let foreign = self.fails("foreign");
                let other = self.other.iter().any(|other| other == name);
                CallAnswer::Job(FoundJob {
                    uid: if other { Uid::from_u128(1) } else { uid(name) },
                    resource_version: 6,
                    controller: (!foreign).then_some(OWN),
                })
            }
            CronJobEffect::DeleteJob(of, name) => {
                let _ = write!(said, "delete {name}");
                let other = self.other.iter().any(|other| other == name);
                if self.fails("delete") {
                    CallAnswer::Failed("no".to_owned())
                } else if other || *of != uid(name) {
                    CallAnswer::Failed("conflict".to_owned())
                } else {
                    CallAnswer::Deleted
                }
            }
            CronJobEffect::CreateJob(job) => {
                let _ = write!(said, "create {} {}", job.name, job.timestamp);
                if self.fails("taken") || self.fails("foreign") {
                    CallAnswer::NotCreated(NotCreated::NameTaken)
                } else if self.fails("terminating") {
                    CallAnswer::NotCreated(NotCreated::NamespaceTerminating)
                } else if self.fails("denied") {
                    CallAnswer::NotCreated(NotCreated::Other("exceeded quota".to_owned()))
                } else {
                    CallAnswer::Created {
                        uid: uid(&job.name),
                        resource_version: 6,
                    }
                }
            }
            CronJobEffect::WriteStatus(status, version) => {
                let names: Vec<&str> = status.active.iter().map(|job| job.name.as_str()).collect();
                let time = |time: Option<Time>| {
                    time.map_or("-".to_owned(), |time| (time.as_secs() - T).to_string())
                };
                let (last, success) = (time(status.last_schedule), time(status.last_successful));
                let names = names.join(",");
                let _ = write!(
                    said,
                    "status@{version} [{names}] last={last} success={success}"
                );
                match self.fails("status") {
                    true => CallAnswer::Failed("conflict".to_owned()),
                    false => CallAnswer::StatusWritten,
                }
            }
            CronJobEffect::Report(_) | CronJobEffect::Over(_) => {
                unreachable!("they have no answer")
            }
        }
    }

    /// Runs one sync and returns its requests. The CronJob keeps the status that was written.
    fn look(&mut self) -> String {
        let mut sync = CronJobSync::new(self.cron_job.clone(), self.jobs.clone(), self.now);
        let mut all: Vec<String> = Vec::new();
        loop {
            let effect = sync.poll();
            let mut said = String::new();
            match &effect {
                CronJobEffect::Over(next) => {
                    all.push(self.say_next(*next));
                    return all.join("; ");
                }
                CronJobEffect::Report(report) => {
                    all.push(say_report(report));
                    continue;
                }
                _ => {}
            }
            let answer = self.answer(&effect, &mut said);
            all.push(said);
            if let (CronJobEffect::WriteStatus(status, version), CallAnswer::StatusWritten) =
                (effect, &answer)
            {
                self.cron_job.status = status;
                self.cron_job.resource_version = version + 1;
            }
            sync.handle(answer);
        }
    }

    fn say_next(&self, next: Next) -> String {
        match next {
            Next::Nothing => "nothing".to_owned(),
            Next::Retry => "retry".to_owned(),
            Next::At(time) => {
                let millis = time.as_millis() - self.now.as_millis();
                format!("next {}s", millis as f64 / 1000.0)
            }
        }
    }
}

fn say_report(report: &Report) -> String {
    let sign = match report.severity {
        Severity::Normal => '+',
        Severity::Warning => '!',
    };
    format!("{sign}{} <{}>", report.reason, report.message)
}

/// Runs the syncs of a row.
fn run(words: &str) -> String {
    let mut case = Case::new();
    let mut said = Vec::new();
    for look in words.split(" ~ ") {
        look.split_whitespace().for_each(|word| case.take_in(word));
        said.push(if case.changed {
            match look_after_change(&case.cron_job, case.now) {
                Ok(at) => case.say_next(Next::At(at)),
                Err(report) => say_report(&report),
            }
        } else {
            case.look()
        });
        case = Case::of(case.cron_job, case.now);
    }
    said.join(" ~ ")
}

#[test]
fn each_row_of_the_rules() {
    rows::check(ROWS, run);
}
