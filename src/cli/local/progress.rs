//! Shows the progress of Jobs: bars on a terminal, plain lines elsewhere.

use std::{
    fmt,
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use crate::{cli::words::harmless, clock::instant};

use super::{
    bars::{Bar, BarColour, Bars},
    watch::{Followed, Following},
};

/// More Jobs than this share one bar.
const BARS_MAX: usize = 16;

/// Minimum time between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Progress while Jobs run, on standard error.
#[derive(Debug)]
pub(super) struct ProgressDisplay {
    form: ProgressForm,
    /// The API server, for the command that resumes a suspended Job.
    server: String,
    /// Hints that were printed as plain lines.
    hinted: Vec<String>,
}

#[derive(Debug)]
enum ProgressForm {
    /// One for each Job, or one for all.
    Bars(Bars),
    Lines {
        said_at: Option<Instant>,
        said: String,
    },
}

impl ProgressDisplay {
    /// Uses bars if standard error is a terminal.
    pub(super) fn new(server: &str) -> Self {
        let form = match std::io::stderr().is_terminal() {
            true => ProgressForm::Bars(Bars::default()),
            false => ProgressForm::Lines {
                said_at: None,
                said: String::new(),
            },
        };
        Self {
            form,
            server: server.to_owned(),
            hinted: Vec::new(),
        }
    }

    /// Shows the current progress.
    pub(super) fn show(&mut self, following: &Following) {
        let hints = hints(following, &self.server);
        match &mut self.form {
            ProgressForm::Bars(bars) => bars.draw(&self::bars(following), &hints),
            ProgressForm::Lines { said_at, said } => {
                for hint in hints {
                    if !self.hinted.contains(&hint) {
                        crate::cli::say(&hint);
                        self.hinted.push(hint);
                    }
                }
                let early = said_at.is_some_and(|at| at.elapsed() < LINE_EVERY);
                if early && !following.is_over() {
                    return;
                }
                let line = line(following);
                if line != *said {
                    crate::cli::say(&line);
                    *said = line;
                    *said_at = Some(instant());
                }
            }
        }
    }
}

fn bars(following: &Following) -> Vec<Bar> {
    let jobs = &following.jobs;
    match jobs.len() <= BARS_MAX {
        true => jobs
            .iter()
            .map(|job| {
                bar(
                    format!("{}/{}", job.namespace, job.name),
                    std::slice::from_ref(job),
                )
            })
            .collect(),
        false => vec![bar(format!("{} Jobs", jobs.len()), jobs)],
    }
}

fn bar(name: String, jobs: &[Followed]) -> Bar {
    let totals = ProgressTotals::of(jobs);
    Bar {
        name,
        done: totals.succeeded,
        all: totals.wanted,
        words: totals.parts(),
        colour: totals.colour(),
    }
}

/// Returns how to resume a Job if only suspended ones are left: nothing here resumes them.
fn hints(following: &Following, server: &str) -> Vec<String> {
    let open = following.jobs.iter().filter(|job| job.end.is_none());
    let open: Vec<&Followed> = open.collect();
    if open.iter().any(|job| !job.is_suspended()) {
        return Vec::new();
    }
    let hint = |job: &&Followed| {
        format!(
            "{}/{} is suspended, and nothing here resumes it: Ctrl-C ends the run, kubectl -s {server} patch job -n {} {} \
             --type=merge -p '{{\"spec\":{{\"suspend\":false}}}}' resumes it",
            job.namespace, job.name, job.namespace, job.name
        )
    };
    // The first one stands for all.
    open.iter().map(hint).take(1).collect()
}

/// Formats all Jobs as one line: the name of a single Job, or the number of Jobs that have ended.
fn line(following: &Following) -> String {
    let jobs = &following.jobs;
    let totals = ProgressTotals::of(jobs);
    let who = match jobs.as_slice() {
        [job] => format!("{}/{}", job.namespace, job.name),
        _ => format!("{}/{} Jobs ended", totals.ended, jobs.len()),
    };
    format!(
        "{who}: {}/{} succeeded, {totals}",
        totals.succeeded, totals.wanted
    )
}

/// Sums over some Jobs.
struct ProgressTotals {
    succeeded: u64,
    wanted: u64,
    active: u64,
    failed: u64,
    ended: usize,
    /// Successes per second so far.
    rate: f64,
    /// All have ended.
    over: bool,
    /// At least one has failed.
    lost: bool,
    /// Reason why one of them makes no progress.
    why: Option<String>,
}

impl ProgressTotals {
    fn of(jobs: &[Followed]) -> Self {
        let sum = |field: &str| jobs.iter().map(|job| job.count(field)).sum::<u64>();
        let wall = jobs.iter().map(Followed::wall).max().unwrap_or_default();
        let succeeded = sum("succeeded");
        let ended = jobs.iter().filter(|job| job.end.is_some()).count();
        Self {
            succeeded,
            wanted: jobs.iter().map(|job| job.wanted).sum(),
            active: sum("active"),
            failed: sum("failed"),
            ended,
            rate: succeeded as f64 / wall.as_secs_f64().max(0.001),
            over: ended == jobs.len(),
            lost: jobs.iter().any(|job| matches!(job.end, Some((_, false)))),
            why: jobs.iter().find_map(|job| job.why.clone()),
        }
    }

    /// Returns red once a Job has failed, yellow if Pods have failed or a Job makes no progress.
    fn colour(&self) -> BarColour {
        match (self.lost, self.failed, &self.why) {
            (true, ..) => BarColour::Red,
            (false, 0, None) => BarColour::Green,
            (false, ..) => BarColour::Yellow,
        }
    }

    /// Returns the words beside a bar, the most important first: those that do not fit are left out.
    fn parts(&self) -> Vec<String> {
        let (active, failed, rate) = (self.active, self.failed, self.rate);
        let mut parts = Vec::new();
        if let Some(why) = &self.why {
            parts.extend((failed > 0).then(|| format!("{failed} failed")));
            parts.push(harmless(why).replace('\n', " "));
            return parts;
        }
        parts.extend(self.lost.then(|| "Failed".to_owned()));
        parts.push(format!("{failed} failed"));
        parts.push(format!("{active} active"));
        parts.extend(self.left().map(|left| format!("{left:.0} s left")));
        parts.push(format!("{rate:.0} Pods/s"));
        parts
    }

    /// Returns the estimated seconds left; unknown while nothing runs.
    fn left(&self) -> Option<f64> {
        let is_going = self.succeeded > 0 && !self.over && self.active > 0;
        is_going.then(|| self.wanted.saturating_sub(self.succeeded) as f64 / self.rate)
    }
}

impl fmt::Display for ProgressTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (active, failed, rate) = (self.active, self.failed, self.rate);
        if let Some(why) = &self.why {
            return write!(f, "{failed} failed, {why}");
        }
        if self.lost {
            f.write_str("Failed: ")?;
        }
        write!(f, "{active} active, {failed} failed, {rate:.0} Pods/s")?;
        match self.left() {
            Some(left) => write!(f, ", {left:.0} s left"),
            None => Ok(()),
        }
    }
}
