//! Computes the columns of metrics and commands: the difference between the end of the failures and a run without
//! failures.
//!
//! Must not: change the world.

use std::collections::BTreeMap;

use lakh_inspect::doctor::Verdict;

use super::{
    FAILING,
    calls::{CallKind, Fault},
    commands,
    world::World,
};

/// The metrics that show failures, and how.
const METRICS: [(&str, Tells); 8] = [
    ("lakh_failed_tries_total", Tells::Rise),
    ("lakh_api_calls_total", Tells::Code),
    ("rest_client_requests_total", Tells::Code),
    ("lakh_lease_writable", Tells::Zero),
    ("leader_election_master_status", Tells::Zero),
    ("lakh_watch_age_seconds", Tells::Age),
    ("lakh_writes_pending", Tells::Rise),
    ("lakh_events_dropped_total", Tells::Rise),
];

/// The way in which a metric shows a failure.
#[derive(Clone, Copy, Debug)]
enum Tells {
    /// It is higher than in the run without failures.
    Rise,
    /// The same, and its label `code` is not one of success.
    Code,
    /// The same, and it is more than a minute.
    Age,
    /// It is 0, but not in the run without failures.
    Zero,
}

/// Phrases that advise to start a controller.
const START: [&str; 5] = [
    "tart kube-controller-manager",
    "or lakh with --mode",
    "tart lakh in mode",
    "tart that controller",
    "tart the controller of that name",
];

/// The values of metrics, by family and labels.
type Samples = BTreeMap<(String, String), f64>;

/// Metrics and findings of a run without failures.
pub(super) struct Baseline {
    metrics: Samples,
    /// The cause of each Job by `lakh why`.
    causes: BTreeMap<String, &'static str>,
    doctor: Vec<(&'static str, Verdict)>,
}

impl Baseline {
    /// Runs the row without a failure.
    pub(super) fn play(none: &'static CallKind, fault: &Fault) -> Self {
        let mut world = World::new(none, fault);
        world.run_until(FAILING);
        let said = commands::run(world.server(), &world.job_names());
        let why = said.why.into_iter();
        Self {
            metrics: samples(&world.metrics_text()),
            causes: why.map(|(job, (cause, _))| (job, cause)).collect(),
            doctor: said.doctor,
        }
    }

    /// Returns the findings of the commands without a failure, in a sentence.
    pub(super) fn text(&self) -> String {
        let causes = self.causes.iter();
        let causes: Vec<String> = causes
            .map(|(job, cause)| format!("{job} `{cause}`"))
            .collect();
        format!(
            "`lakh why` gives: {}. `lakh doctor`: {}.",
            causes.join(", "),
            verdicts(&self.doctor)
        )
    }

    /// Returns the columns of metrics, `lakh why` and `lakh doctor`, and the errors in them.
    pub(super) fn columns(&self, world: &mut World<'_>) -> ([String; 3], Vec<String>) {
        let said = commands::run(world.server(), &world.job_names());
        let mut wrong = Vec::new();
        let mut is_worked_on = false;
        for (job, (_, text)) in &said.why {
            let shows = world.shows_controller(job);
            is_worked_on |= shows;
            if shows && counsels_start(text) {
                wrong.push(format!("lakh why counsels a second controller: {text}"));
            }
        }
        if is_worked_on && counsels_start(&said.doctor_text) {
            let text = &said.doctor_text;
            wrong.push(format!("lakh doctor counsels a second controller: {text}"));
        }
        let mut jobs_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (job, (cause, _)) in &said.why {
            if self.causes.get(job) != Some(cause) {
                jobs_of.entry(cause).or_default().push(job);
            }
        }
        let causes = jobs_of.into_iter();
        let causes: Vec<String> = causes
            .map(|(cause, jobs)| format!("`{cause}` ({})", jobs.join(", ")))
            .collect();
        let mut doctor = said.doctor;
        doctor.retain(|found| !self.doctor.contains(found));
        let columns = [
            self.telling(&samples(&world.metrics_text())),
            or_dash(causes.join("; ")),
            verdicts(&doctor),
        ];
        (columns, wrong)
    }

    /// Returns the metrics that show the failure.
    fn telling(&self, now: &Samples) -> String {
        let mut told = Vec::new();
        for (family, tells) in METRICS {
            let of_family = now.iter().filter(|((name, _), _)| name == family);
            let mut series = Vec::new();
            for (key, value) in of_family {
                let (_, labels) = key;
                let before = self.metrics.get(key).copied().unwrap_or_default();
                let is_success = |code: &str| code.len() == 3 && code.starts_with('2');
                let tells = match tells {
                    Tells::Rise => *value > before,
                    Tells::Age => *value > before && *value > 60.0,
                    Tells::Code => *value > before && !labels.split(' ').any(is_success),
                    Tells::Zero => *value == 0.0 && before != 0.0,
                };
                if tells {
                    series.push(match labels.as_str() {
                        "" => value.to_string(),
                        labels => format!("{value} (`{labels}`)"),
                    });
                }
            }
            if !series.is_empty() {
                told.push(format!("`{family}` {}", series.join(", ")));
            }
        }
        or_dash(told.join("; "))
    }
}

fn counsels_start(text: &str) -> bool {
    START.iter().any(|words| text.contains(words))
}

fn or_dash(text: String) -> String {
    match text.as_str() {
        "" => "–".to_owned(),
        _ => text,
    }
}

fn verdicts(found: &[(&'static str, Verdict)]) -> String {
    let words = found.iter().map(|(check, verdict)| {
        let verdict = match verdict {
            Verdict::Failed => "failed",
            Verdict::Warning => "warning",
            Verdict::Unseen => "not seen",
            Verdict::Ok => "ok",
        };
        format!("{verdict} `{check}`")
    });
    or_dash(words.collect::<Vec<_>>().join(", "))
}

/// Parses a scrape into samples: label values in a row, without the host's.
fn samples(text: &str) -> Samples {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (family, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split(',');
        let labels = labels.filter_map(|label| label.split_once('='));
        let labels = labels.filter(|(name, _)| *name != "host");
        let values: Vec<&str> = labels.map(|(_, value)| value.trim_matches('"')).collect();
        let key = (family.to_owned(), values.join(" "));
        Some((key, value.parse().ok()?))
    });
    samples.collect()
}
