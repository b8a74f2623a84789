//! Limits the Events of one Job, as client-go's event correlator does.
//!
//! Three steps. Aggregation: the tenth and later different messages with one type and reason within ten minutes become
//! one Event, marked as combined. Repetition: an Event that was recorded before is not created again; its count grows.
//! Spam filter: each type has a burst of 25 requests, then one more per five minutes. A suppressed Event is counted,
//! and the next request for it has the count. Warnings have a budget of their own, so that a thousand created Pods do
//! not hide a later failure.
//!
//! An Event with a summary stays one Event, whatever its message becomes.
//!
//! Unlike client-go: of the 25 requests, ten are reserved for Events about the Job as a whole, so that 100,000
//! creations do not hide the Job's end.
//!
//! Must not: read the clock or send anything.

use std::{
    hash::{DefaultHasher, Hash, Hasher as _},
    time::Duration,
};

use lakh_core::decide::{Report, Severity};
use lakh_model::{Monotonic, Now, Time};
use lakh_record::FAILURE_SUMMARY_REASON;

/// Requests that a Job may cause at once.
const BURST: u32 = 25;

/// Requests of the burst that are reserved for Events about the Job as a whole.
const RESERVED: u32 = 10;

/// The time until one more request is allowed.
const REFILL: Duration = Duration::from_secs(300);

/// With this many different messages, they are combined.
const SIMILAR_MAX: usize = 10;

/// After this time without similar messages, aggregation starts anew.
const SIMILAR_FOR: Duration = Duration::from_secs(600);

/// The longest message in bytes, as for an Event of `events.k8s.io` (`noteLengthLimit`). A webhook may respond with
/// more.
const MESSAGE_MAX: usize = 1_024;

/// The number of Events of a Job, and of types and reasons, that are remembered; far more than are sent.
const REMEMBERED: usize = 64;

/// Prefix of a combined Event's message.
const COMBINED: &str = "(combined from similar events): ";

/// The subject of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// The Job as a whole.
    Job,
    /// One of its Pods.
    Pod,
    /// A CronJob.
    CronJob,
}

/// An Event to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Telling {
    /// Number of the Event among those of the Job, part of its name.
    pub(super) number: u32,
    /// Hash of the reason and message: another controller may send a different Event at the same moment.
    pub(super) fingerprint: u32,
    pub(super) report: Report,
    pub(super) first: Time,
    pub(super) last: Time,
    /// Occurrences; more than one means that the Event was sent or suppressed before.
    pub(super) count: u32,
}

/// Decides which Events of a Job are sent, and with which count. Small as long as there are none.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    /// Budgets of Normal Events and of Warnings.
    spent: [Spent; 2],
    groups: Vec<Group>,
    known: Vec<Correlation>,
    numbers: u32,
}

/// A token bucket, stored as the number of tokens spent.
#[derive(Debug, Default)]
struct Spent {
    count: u32,
    refilled_at: Monotonic,
}

/// Different messages with one type and reason.
#[derive(Debug)]
struct Group {
    severity: Severity,
    reason: String,
    /// Hashes of the messages.
    messages: Vec<u64>,
    last: Monotonic,
}

/// An Event that was sent or suppressed.
#[derive(Debug)]
struct Correlation {
    number: u32,
    severity: Severity,
    reason: String,
    /// The latest message.
    message: String,
    /// The Event is combined or a summary: any message with this reason belongs to it.
    has_any_message: bool,
    first: Time,
    last: Time,
    count: u32,
}

/// A Warning of a Job as last recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Warning<'a> {
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
    pub(super) last: Time,
    pub(super) count: u32,
}

impl Correlator {
    /// Returns the Warnings that are remembered, the newest first.
    pub(super) fn warnings(&self) -> Vec<Warning<'_>> {
        let warnings = self.known.iter();
        let warnings = warnings.filter(|known| known.severity == Severity::Warning);
        let mut warnings: Vec<_> = warnings
            .map(|known| Warning {
                reason: &known.reason,
                message: &known.message,
                last: known.last,
                count: known.count,
            })
            .collect();
        warnings.sort_by_key(|warning| std::cmp::Reverse(warning.last));
        warnings
    }

    /// The message of the newest Warning with a reason.
    pub(super) fn last_warning(&self, reason: &str) -> Option<&str> {
        let warnings = self.known.iter();
        let warnings =
            warnings.filter(|known| known.severity == Severity::Warning && known.reason == reason);
        let newest = warnings.max_by_key(|known| known.last);
        newest.map(|known| known.message.as_str())
    }

    /// Records an occurrence. Returns the Event to send, unless it is suppressed.
    pub(super) fn hear(&mut self, about: About, mut report: Report, now: Now) -> Option<Telling> {
        shorten(&mut report.message);
        // A summary is sent again each time.
        let grows = report.reason == FAILURE_SUMMARY_REASON;
        let combined = !grows && self.is_combined(&report, now.monotonic);
        if combined {
            report.message.insert_str(0, COMBINED);
        }
        let (number, first, count) = self.count(&report, combined || grows, now.wall);
        if !self.spent[report.severity as usize].spend(about, now.monotonic) {
            return None;
        }
        let message = match (grows, combined) {
            (true, _) => "",
            (false, true) => COMBINED,
            (false, false) => &report.message,
        };
        let fingerprint = fingerprint(&report.reason, message);
        Some(Telling {
            number,
            fingerprint,
            report,
            first,
            last: now.wall,
            count,
        })
    }

    /// Returns true if a message is one of too many similar ones.
    fn is_combined(&mut self, report: &Report, now: Monotonic) -> bool {
        let same =
            |group: &Group| group.severity == report.severity && group.reason == report.reason;
        let at = self.groups.iter().position(same).unwrap_or_else(|| {
            if self.groups.len() == REMEMBERED {
                self.groups.remove(0);
            }
            self.groups.push(Group {
                severity: report.severity,
                reason: report.reason.clone(),
                messages: Vec::new(),
                last: now,
            });
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        if now.since(group.last) > SIMILAR_FOR {
            group.messages.clear();
        }
        group.last = now;
        let message = hash(&report.message);
        let is_other = !group.messages.contains(&message);
        // A tenth message is never stored: it suffices to know that there are nine.
        let is_full = group.messages.len() + 1 >= SIMILAR_MAX;
        if is_other && !is_full {
            group.messages.push(message);
        }
        is_other && is_full
    }

    /// Counts an Event. Returns its number, its first occurrence and its count.
    fn count(&mut self, report: &Report, any_message: bool, now: Time) -> (u32, Time, u32) {
        let same = |known: &&mut Correlation| {
            known.severity == report.severity
                && known.reason == report.reason
                && known.has_any_message == any_message
                && (any_message || known.message == report.message)
        };
        if let Some(known) = self.known.iter_mut().find(same) {
            known.message.clone_from(&report.message);
            known.count = known.count.saturating_add(1);
            known.last = now;
            return (known.number, known.first, known.count);
        }
        if self.known.len() == REMEMBERED {
            self.known.remove(0);
        }
        self.numbers += 1;
        self.known.push(Correlation {
            number: self.numbers,
            severity: report.severity,
            reason: report.reason.clone(),
            message: report.message.clone(),
            has_any_message: any_message,
            first: now,
            last: now,
            count: 1,
        });
        (self.numbers, now, 1)
    }
}

/// Hashes an Event's reason and message to 24 bits.
fn fingerprint(reason: &str, message: &str) -> u32 {
    (hash(&(reason, message)) & 0xff_ffff) as u32
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Truncates a message that is too long.
fn shorten(message: &mut String) {
    const CUT: &str = "...";
    if message.len() > MESSAGE_MAX {
        let most = MESSAGE_MAX - COMBINED.len() - CUT.len();
        message.truncate(message.floor_char_boundary(most));
        message.push_str(CUT);
    }
}

impl Spent {
    fn spend(&mut self, about: About, now: Monotonic) -> bool {
        while self.count > 0 && now.since(self.refilled_at) >= REFILL {
            self.count -= 1;
            self.refilled_at = self.refilled_at + REFILL;
        }
        if self.count == 0 {
            self.refilled_at = now;
        }
        let most = match about {
            About::Job | About::CronJob => BURST,
            About::Pod => BURST - RESERVED,
        };
        let may = self.count < most;
        self.count += u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(pod: u32) -> Report {
        Report::normal("SuccessfulCreate", &format!("Created pod: {pod}"))
    }

    fn at(secs: i64) -> Now {
        Now::at(Time::from_secs(1000 + secs))
    }

    #[test]
    fn the_tenth_similar_message_is_combined() {
        let mut correlator = Correlator::default();
        let told: Vec<Telling> = (0..12)
            .filter_map(|pod| correlator.hear(About::Job, created(pod), at(i64::from(pod))))
            .collect();
        for (pod, telling) in told[..9].iter().enumerate() {
            assert_eq!(telling.report.message, format!("Created pod: {pod}"));
            assert_eq!((telling.number as usize, telling.count), (pod + 1, 1));
        }
        let combined = &told[9];
        assert_eq!(
            combined.report.message,
            "(combined from similar events): Created pod: 9"
        );
        assert_eq!((combined.number, combined.count), (10, 1));
        assert_eq!(
            (
                told[11].number,
                told[11].count,
                told[11].first,
                told[11].last
            ),
            (10, 3, at(9).wall, at(11).wall),
            "later ones count on"
        );
    }

    #[test]
    fn other_reasons_are_no_similar_messages() {
        let mut correlator = Correlator::default();
        for pod in 0..20 {
            correlator.hear(About::Pod, created(pod), at(0));
        }
        let warning = Report::warning("FailedCreate", "Error creating: no");
        let telling = correlator.hear(About::Job, warning.clone(), at(0));
        assert_eq!(telling.map(|told| told.report), Some(warning));
    }

    #[test]
    fn a_summary_is_one_event_that_grows() {
        let mut correlator = Correlator::default();
        for count in 1..=15 {
            let message = format!("{count} Pods failed: {count} exit code 1");
            let report = Report::warning(FAILURE_SUMMARY_REASON, &message);
            let told = correlator.hear(About::Job, report.clone(), at(count.into()));
            let told = told.expect("there is budget");
            assert_eq!((told.number, told.count, told.report), (1, count, report));
        }
    }

    #[test]
    fn warnings_say_what_was_told_last() {
        let mut correlator = Correlator::default();
        for count in 1..=12 {
            for reason in [FAILURE_SUMMARY_REASON, "FailedCreate"] {
                let report = Report::warning(reason, &format!("{count} of them"));
                correlator.hear(About::Job, report, at(count));
            }
        }
        let told = correlator.warnings();
        let told: Vec<_> = told.iter().map(|it| (it.message, it.count)).collect();
        let combined = "(combined from similar events): 12 of them";
        assert_eq!(told[..2], [("12 of them", 12), (combined, 3)]);
        assert_eq!(told.last(), Some(&("1 of them", 1)));
        assert_eq!(told.len(), 2 + 9);
        assert_eq!(correlator.last_warning("FailedCreate"), Some(combined));
        assert_eq!(correlator.last_warning("Other"), None);
    }

    #[test]
    fn ten_quiet_minutes_end_the_combining() {
        let mut correlator = Correlator::default();
        for pod in 0..10 {
            correlator.hear(About::Job, created(pod), at(0));
        }
        let next = |correlator: &mut Correlator, secs| {
            let told = correlator.hear(About::Job, created(99), at(secs));
            told.expect("there is budget").report.message
        };
        assert!(next(&mut correlator, 600).starts_with(COMBINED));
        assert_eq!(next(&mut correlator, 1201), "Created pod: 99");
    }

    #[test]
    fn a_long_silence_gives_the_whole_budget_back() {
        let mut correlator = Correlator::default();
        for pod in 0..100 {
            correlator.hear(About::Job, created(pod), at(0));
        }
        let day = 24 * 3600;
        let told = (0..100).filter_map(|pod| correlator.hear(About::Job, created(pod), at(day)));
        assert_eq!(told.count(), 25);
    }

    #[test]
    fn a_repeated_message_counts_on_and_is_no_new_one() {
        let mut correlator = Correlator::default();
        let report = Report::warning("FailedCreate", "Error creating: no");
        for count in 1..=15 {
            let told = correlator.hear(About::Job, report.clone(), at(count.into()));
            let told = told.expect("there is budget");
            assert_eq!(
                (told.number, told.count, told.first),
                (1, count, at(1).wall)
            );
            assert_eq!(told.report, report);
        }
    }

    #[test]
    fn a_thousand_creations_leave_room_for_the_end() {
        let mut correlator = Correlator::default();
        let mut tell = |about, pod, secs| correlator.hear(about, created(pod), at(secs));
        let told = (0..1000).filter_map(|pod| tell(About::Pod, pod, 0));
        assert_eq!(told.count(), 15);
        let own = (1000..2000).filter_map(|pod| tell(About::Job, pod, 0));
        assert_eq!(own.count(), 10);
        assert_eq!(tell(About::Job, 1, 299), None);
        // Suppressed Events were counted: nine messages were distinct, and all later ones share one Event.
        let told = tell(About::Job, 5000, 300).expect("one more may be told");
        assert_eq!(told.count, 2000 - 9 + 1);
        assert_eq!(tell(About::Job, 1, 300), None);
    }

    #[test]
    fn created_pods_do_not_hide_why_there_are_no_more() {
        let mut correlator = Correlator::default();
        for pod in 0..1000 {
            correlator.hear(About::Pod, created(pod), at(0));
        }
        let refused = |pod| {
            let message =
                format!("Error creating: pods \"j-{pod}\" is forbidden: exceeded quota: q");
            Report::warning("FailedCreate", &message)
        };
        let told = (0..1000).filter_map(|pod| correlator.hear(About::Pod, refused(pod), at(1)));
        assert_eq!(told.count(), 15);
    }

    #[test]
    fn long_messages_are_cut() {
        let mut correlator = Correlator::default();
        for length in [1_000, 1_024, 1_025, 1 << 20] {
            let report = Report::warning("FailedCreate", &"ä".repeat(length / 2));
            let told = correlator.hear(About::Job, report, at(0));
            let message = told.expect("there is budget").report.message;
            assert_eq!(message.ends_with("..."), length > 1_025, "{length}");
            assert!(message.len() <= MESSAGE_MAX);
        }
    }

    #[test]
    fn memory_has_a_limit() {
        let mut correlator = Correlator::default();
        for reason in 0..1000 {
            let report = Report::normal(&format!("Reason{reason}"), "x");
            correlator.hear(About::Job, report, at(0));
        }
        assert!(correlator.known.len() <= REMEMBERED && correlator.groups.len() <= REMEMBERED);
    }
}
