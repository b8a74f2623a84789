//! One look at a CronJob as text: what is known, how the server answers, what comes of it.
//!
//! A row of `tests/golden/cronjob.rows` has the row of the rules, the words of the case, and what the
//! look asked for. `UPDATE_GOLDEN=1` rewrites the last column: read the difference. Times are seconds
//! from 2016-05-19T10:00:00Z; a blank in a schedule is written `_`.

use std::{fmt::Write as _, fs, time::Duration};

use lakh::{
    cronjob::{Answer, CronJobSync, Effect, Next, NotCreated},
    model::{
        ActiveJob, ChildJob, ConcurrencyPolicy, ConditionKind, CronJob, CronJobSpec, CronJobStatus,
        JobKey, Severity, Time, Uid,
    },
};

const ROWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/cronjob.rows");

/// 2016-05-19T10:00:00Z, a Thursday.
const T: i64 = 1_463_652_000;

/// Who the CronJob is.
const OWN: Uid = Uid::from_u128(0xc);

struct Case {
    cron_job: CronJob,
    live: Option<CronJob>,
    jobs: Vec<ChildJob>,
    now: Time,
    /// Names that the server has no Job of.
    gone: Vec<String>,
    /// What the server does not do: `get`, `delete`, `status`, `getcron`, or how a creation fails.
    fails: Vec<String>,
}

fn at(text: &str) -> Time {
    let millis: f64 = text.parse().unwrap_or_else(|_| panic!("{text}: seconds"));
    Time::from_millis(T * 1000 + (millis * 1000.0) as i64)
}

/// A Job's UID is made of its name, so that cases need not say it.
fn uid(name: &str) -> Uid {
    Uid::from_u128(
        name.bytes()
            .fold(7, |sum, byte| sum * 131 + u128::from(byte)),
    )
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

/// `name`, `name:Complete@start-completion` or `name:Failed@start`; `?` for a time that is not known.
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
        complete: end == Some(ConditionKind::Complete),
        end,
        start: time(start),
        completion: time(completion),
    }
}

fn read(words: &str) -> Case {
    let mut case = Case {
        cron_job: CronJob {
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
        },
        live: None,
        jobs: Vec::new(),
        now: at("0"),
        gone: Vec::new(),
        fails: Vec::new(),
    };
    for word in words.split_whitespace() {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let cron_job = &mut case.cron_job;
        let (spec, status) = (&mut cron_job.spec, &mut cron_job.status);
        let limit = || (value != "nil").then(|| value.parse().expect("a number"));
        match word {
            "now" => case.now = at(value),
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
            "deleting" => cron_job.deleting = true,
            "ok" => spec.successful_jobs = limit(),
            "bad" => spec.failed_jobs = limit(),
            "active" => status.active = active(value),
            "live" => {
                let mut live = cron_job.clone();
                live.status.active = active(value);
                live.status.last_schedule = Some(at("0"));
                live.resource_version = 9;
                case.live = Some(live);
            }
            "job" => case.jobs.push(child(value)),
            "gone" => case.gone.push(value.to_owned()),
            "fails" => case.fails.push(value.to_owned()),
            _ => panic!("{word}"),
        }
    }
    case
}

impl Case {
    fn fails(&self, what: &str) -> bool {
        self.fails.iter().any(|fails| fails == what)
    }

    fn answer(&self, effect: &Effect, said: &mut String) -> Answer {
        match effect {
            Effect::GetCronJob => {
                said.push_str("get cronjob");
                if self.fails("getcron") {
                    return Answer::Failed("no".to_owned());
                }
                let live = self.live.clone();
                Answer::CronJob(Box::new(live.unwrap_or_else(|| self.cron_job.clone())))
            }
            Effect::GetJob(name) => {
                let _ = write!(said, "get {name}");
                if self.fails("get") {
                    return Answer::Failed("no".to_owned());
                }
                if self.gone.iter().any(|gone| gone == name) {
                    return Answer::NotFound("not found".to_owned());
                }
                let foreign = self.fails("foreign");
                Answer::Job {
                    uid: uid(name),
                    resource_version: 6,
                    controller: (!foreign).then_some(OWN),
                }
            }
            Effect::DeleteJob(name) => {
                let _ = write!(said, "delete {name}");
                match self.fails("delete") {
                    true => Answer::Failed("no".to_owned()),
                    false => Answer::Deleted,
                }
            }
            Effect::CreateJob(job) => {
                let _ = write!(said, "create {} {}", job.name, job.timestamp);
                if self.fails("taken") || self.fails("foreign") {
                    Answer::NotCreated(NotCreated::NameTaken)
                } else if self.fails("terminating") {
                    Answer::NotCreated(NotCreated::NamespaceTerminating)
                } else if self.fails("denied") {
                    Answer::NotCreated(NotCreated::Other("exceeded quota".to_owned()))
                } else {
                    Answer::Created {
                        uid: uid(&job.name),
                        resource_version: 6,
                    }
                }
            }
            Effect::WriteStatus(status, version) => {
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
                    true => Answer::Failed("conflict".to_owned()),
                    false => Answer::StatusWritten,
                }
            }
            Effect::Report(_) | Effect::Over(_) => unreachable!("they have no answer"),
        }
    }

    fn run(&self) -> String {
        let mut sync = CronJobSync::new(self.cron_job.clone(), self.jobs.clone(), self.now);
        let mut all: Vec<String> = Vec::new();
        loop {
            let effect = sync.poll();
            let mut said = String::new();
            match &effect {
                Effect::Over(next) => {
                    all.push(match next {
                        Next::Nothing => "nothing".to_owned(),
                        Next::Retry => "retry".to_owned(),
                        Next::At(time) => {
                            let millis = time.as_millis() - self.now.as_millis();
                            format!("next {}s", millis as f64 / 1000.0)
                        }
                    });
                    return all.join("; ");
                }
                Effect::Report(report) => {
                    let sign = match report.severity {
                        Severity::Normal => '+',
                        Severity::Warning => '!',
                    };
                    all.push(format!("{sign}{} <{}>", report.reason, report.message));
                    continue;
                }
                _ => {}
            }
            let answer = self.answer(&effect, &mut said);
            all.push(said);
            sync.handle(answer);
        }
    }
}

#[test]
fn each_row_of_the_rules() {
    let text = fs::read_to_string(ROWS).expect("it is there");
    let mut fresh = String::new();
    for line in text.lines() {
        if line.is_empty() || line.starts_with('#') {
            fresh.push_str(line);
        } else {
            let mut columns = line.splitn(3, " | ");
            let (row, words) = (columns.next().unwrap_or(""), columns.next().unwrap_or(""));
            let words = words.trim_end_matches([' ', '|']);
            let _ = write!(fresh, "{row} | {words} | {}", read(words).run());
        }
        fresh.push('\n');
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(ROWS, fresh).expect("it can be written");
        return;
    }
    for (want, got) in text.lines().zip(fresh.lines()) {
        assert_eq!(got, want);
    }
}
