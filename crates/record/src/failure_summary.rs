//! Summarizes the causes of a Job's failed Pods in one Event that is updated rarely.
//!
//! The first report follows a minute after the first failure. Each further wait is four times as long, up to a few
//! reports, and a last one follows the Job's end. So one line of the Job's Events says how many Pods failed and why,
//! however many there were.
//!
//! Must not: decide anything, or report on a Job without failures.

use std::{fmt::Write as _, time::Duration};

use lakh_model::{EndCause, Monotonic, Now, Report, Time};

/// The reason of the Event.
pub const FAILURE_SUMMARY_REASON: &str = "FailureSummary";

/// The time from the first failure to the first report. A Job that fails at once has ended by then, and has one report.
const FIRST_WAIT: Duration = Duration::from_secs(60);

/// The factor between consecutive waits: 1 min, 4 min, 16 min, 1 h, 4 h.
const GROWTH: u32 = 4;

/// The maximum number of reports before the Job has ended.
const TELLINGS: u32 = 5;

/// The maximum number of causes counted separately: tenants choose exit codes.
const CAUSES: usize = 64;

/// The maximum number of causes in a message, to keep it readable.
const SHOWN: usize = 8;

/// Counts one Job's failed Pods by cause and schedules the reports.
#[derive(Debug)]
pub struct FailureSummary {
    causes: Vec<(EndCause, u32)>,
    /// Failed Pods of causes beyond the maximum.
    others: u32,
    /// All failed Pods.
    failed: u32,
    /// Failed Pods covered by the last report.
    told: u32,
    tellings: u32,
    /// When the next report may be sent.
    due: Option<Monotonic>,
    /// When counting began, if the Job already had failures by then.
    counts_since: Option<Time>,
    has_ended: bool,
}

impl FailureSummary {
    /// Creates an empty summary. `failed` is the count in the Job's status.
    pub fn new(failed: u32, now: Time) -> Self {
        Self {
            causes: Vec::new(),
            others: 0,
            failed: 0,
            told: 0,
            tellings: 0,
            due: None,
            counts_since: (failed > 0).then_some(now),
            has_ended: false,
        }
    }

    /// Counts a failed Pod. Call it once for each.
    pub fn pod_failed(&mut self, cause: &EndCause) {
        self.failed = self.failed.saturating_add(1);
        if let Some((_, count)) = self.causes.iter_mut().find(|(known, _)| known == cause) {
            *count = count.saturating_add(1);
        } else if self.causes.len() < CAUSES {
            self.causes.push((cause.clone(), 1));
        } else {
            self.others = self.others.saturating_add(1);
        }
    }

    /// Returns the report that is due now, if any.
    pub fn poll_report(&mut self, has_ended: bool, now: Now) -> Option<Report> {
        if self.failed == self.told || self.has_ended {
            return None;
        }
        self.has_ended = has_ended;
        if !has_ended {
            let due = *self.due.get_or_insert(now.monotonic + FIRST_WAIT);
            if now.monotonic < due || self.tellings == TELLINGS {
                return None;
            }
            self.tellings += 1;
            let wait = FIRST_WAIT * GROWTH.pow(self.tellings);
            self.due = Some(now.monotonic + wait);
        }
        self.told = self.failed;
        Some(Report::warning(FAILURE_SUMMARY_REASON, &self.message()))
    }

    /// When to poll for a report if no event comes first.
    pub fn poll_timeout(&self) -> Option<Monotonic> {
        let is_news = self.failed > self.told && self.tellings < TELLINGS && !self.has_ended;
        self.due.filter(|_| is_news)
    }

    fn message(&self) -> String {
        let mut causes: Vec<&(EndCause, u32)> = self.causes.iter().collect();
        causes.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        let (shown, rest) = causes.split_at(causes.len().min(SHOWN));
        let mut parts: Vec<String> = shown
            .iter()
            .map(|(cause, count)| format!("{count} {}", words(cause)))
            .collect();
        let rest = rest.iter().map(|(_, count)| count);
        let others = rest.fold(self.others, |sum, count| sum.saturating_add(*count));
        if others > 0 {
            parts.push(format!("{others} with other causes"));
        }
        let pods = if self.failed == 1 { "Pod" } else { "Pods" };
        let mut message = format!("{} {pods} failed: {}", self.failed, parts.join(", "));
        if let Some(since) = self.counts_since {
            let since = since.to_rfc3339();
            let _ = write!(message, "; Pods deleted before {since} are not included");
        }
        message
    }
}

fn words(cause: &EndCause) -> String {
    match (cause.exit_code, cause.reason.as_str()) {
        (None, "") => "without an exit code".to_owned(),
        (None, reason) => reason.to_owned(),
        (Some(code), "") => format!("exit code {code}"),
        (Some(code), reason) => format!("exit code {code} ({reason})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Now {
        Now::at(Time::from_secs(1_000_000 + secs))
    }

    fn message(report: Option<Report>) -> Option<String> {
        report.map(|report| report.message)
    }

    #[test]
    fn the_summary_lists_causes_by_frequency() {
        let mut summary = FailureSummary::new(0, at(0).wall);
        let causes = [
            (8, EndCause::new(None, "Evicted")),
            (50, EndCause::new(Some(1), "")),
            (800, EndCause::new(Some(137), "OOMKilled")),
        ];
        for (count, cause) in &causes {
            (0..*count).for_each(|_| summary.pod_failed(cause));
        }
        assert_eq!(
            message(summary.poll_report(true, at(0))).as_deref(),
            Some("858 Pods failed: 800 exit code 137 (OOMKilled), 50 exit code 1, 8 Evicted")
        );
        assert_eq!(summary.poll_report(true, at(1)), None, "once at the end");
    }

    #[test]
    fn reports_come_at_growing_intervals() {
        let mut summary = FailureSummary::new(0, at(0).wall);
        assert_eq!(summary.poll_report(false, at(0)), None);
        assert_eq!(summary.poll_timeout(), None, "nobody wakes for nothing");
        let mut told = Vec::new();
        for second in 0..1_000_000 {
            summary.pod_failed(&EndCause::new(Some(1), ""));
            if summary.poll_report(false, at(second)).is_some() {
                told.push(second);
            }
        }
        assert_eq!(told, [60, 300, 1260, 5100, 20_460]);
        assert_eq!(summary.poll_timeout(), None);
        let end = message(summary.poll_report(true, at(1_000_000)));
        assert_eq!(
            end.as_deref(),
            Some("1000000 Pods failed: 1000000 exit code 1")
        );
    }

    #[test]
    fn a_job_wakes_only_for_unreported_failures() {
        let mut summary = FailureSummary::new(0, at(0).wall);
        summary.pod_failed(&EndCause::new(Some(1), ""));
        assert_eq!(summary.poll_report(false, at(0)), None);
        assert_eq!(summary.poll_timeout(), Some(at(60).monotonic));
        assert!(summary.poll_report(false, at(60)).is_some());
        assert_eq!(summary.poll_timeout(), None);
        assert_eq!(summary.poll_report(true, at(61)), None, "nothing is new");
    }

    #[test]
    fn causes_without_end_do_not_grow_it() {
        let mut summary = FailureSummary::new(3, at(0).wall);
        for code in 0..100_000 {
            summary.pod_failed(&EndCause::new(Some(code), "Reason"));
        }
        assert_eq!(summary.causes.len(), CAUSES);
        let message = message(summary.poll_report(true, at(9))).expect("it tells");
        assert!(
            message.contains(", 99992 with other causes; Pods deleted before 1970-01-12T13:46:40Z")
        );
        assert!(message.len() < 1024, "the limit of an Event's message");
    }
}
