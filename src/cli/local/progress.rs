//! Shows how the Jobs are coming along: bars on a terminal, plain lines elsewhere.

use std::{
    fmt,
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::clock::instant;

use super::watch::{Followed, Following};

/// More Jobs than this share one bar.
const BARS_MAX: usize = 16;

/// Plain lines come at most this often.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// What is shown while Jobs run, on standard error.
#[derive(Debug)]
pub(super) enum ProgressDisplay {
    /// One for each Job, or one for all.
    Bars(Vec<ProgressBar>),
    Lines {
        said_at: Option<Instant>,
        said: String,
    },
}

impl ProgressDisplay {
    /// Bars if standard error is a terminal.
    pub(super) fn new(following: &Following) -> Self {
        if std::io::stderr().is_terminal() {
            Self::Bars(bars(following))
        } else {
            Self::Lines {
                said_at: None,
                said: String::new(),
            }
        }
    }

    /// Shows how it stands.
    pub(super) fn show(&mut self, following: &Following) {
        match self {
            Self::Bars(bars) => {
                let each = following.jobs.len().div_ceil(bars.len().max(1));
                for (bar, jobs) in bars.iter().zip(following.jobs.chunks(each.max(1))) {
                    set(bar, jobs);
                }
            }
            Self::Lines { said_at, said } => {
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

    /// Leaves what is shown as it is.
    pub(super) fn finish(&self) {
        if let Self::Bars(bars) = self {
            for bar in bars {
                bar.abandon();
            }
        }
    }
}

fn bars(following: &Following) -> Vec<ProgressBar> {
    let all = MultiProgress::new();
    let bar = |name: String, wanted: u64| {
        let bar = all.add(ProgressBar::new(wanted));
        bar.set_style(style("green"));
        bar.set_prefix(cut(&name, PREFIX));
        bar
    };
    let jobs = &following.jobs;
    if jobs.len() <= BARS_MAX {
        jobs.iter()
            .map(|job| bar(format!("{}/{}", job.namespace, job.name), job.wanted))
            .collect()
    } else {
        let wanted = jobs.iter().map(|job| job.wanted).sum();
        vec![bar(format!("{} Jobs", jobs.len()), wanted)]
    }
}

/// How wide a Job's name and what is said of it may be.
const PREFIX: usize = 24;
const MESSAGE: usize = 46;

fn style(color: &str) -> ProgressStyle {
    let template = format!(
        "{{prefix:{PREFIX}!}} {{wide_bar:.{color}/black}} {{pos:>7}}/{{len:7}} {{msg:{MESSAGE}!}}"
    );
    ProgressStyle::with_template(&template)
        .expect("the template is well-formed")
        .progress_chars("━━─")
}

/// A text that is cut says so.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most - 1) {
        Some((end, _)) if text.chars().count() > most => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}

fn set(bar: &ProgressBar, jobs: &[Followed]) {
    let totals = ProgressTotals::of(jobs);
    bar.set_position(totals.succeeded);
    bar.set_style(style(totals.color()));
    bar.set_message(cut(&totals.to_string(), MESSAGE));
    if totals.ended == jobs.len() {
        bar.abandon();
    }
}

/// All Jobs in one line: of one Job its name, of more how many have ended.
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

/// How some Jobs stand, together.
struct ProgressTotals {
    succeeded: u64,
    wanted: u64,
    active: u64,
    failed: u64,
    ended: usize,
    /// Successes per second so far.
    rate: f64,
    /// Whether all have ended.
    over: bool,
    /// Whether one has ended as failed.
    lost: bool,
    /// Why one of them stands still.
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

    /// Red once a Job has failed, yellow when Pods have or nothing moves.
    fn color(&self) -> &'static str {
        match (self.lost, self.failed, &self.why) {
            (true, ..) => "red",
            (false, 0, None) => "green",
            (false, ..) => "yellow",
        }
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
        // Nobody knows how long it takes when nothing runs.
        if self.succeeded > 0 && !self.over && active > 0 {
            let left = self.wanted.saturating_sub(self.succeeded) as f64 / rate;
            write!(f, ", {left:.0} s left")?;
        }
        Ok(())
    }
}
