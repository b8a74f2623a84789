//! Keeps the Events of one Job few, as the standard client does.
//!
//! Three steps. Aggregation: from the tenth different message with one type and reason within ten
//! minutes on, messages are told as one Event, marked as combined. Repetition: an Event that was
//! told before is not made anew, its count grows. Spam: 25 calls at once of each type, one more per five
//! minutes after that; what may not be told is counted and comes with the next call that may. Warnings have
//! calls of their own, so that a thousand created Pods do not hide why there are no more.
//!
//! An Event that sums something up stays one, whatever its message has come to be.
//!
//! Different from the standard client: of the 25, ten are kept for news of the Job as a whole, so
//! that a hundred thousand creations do not hide how it ended.
//!
//! Must not: read the clock or send anything.

use std::{
    hash::{DefaultHasher, Hash, Hasher as _},
    time::Duration,
};

use crate::{
    decide::{Report, Severity},
    model::{Monotonic, Now, Time},
    record::FAILURE_SUMMARY_REASON,
};

/// Calls that a Job may cause at once.
const BURST: u32 = 25;

/// How many of them are kept for news of the Job as a whole.
const RESERVED: u32 = 10;

/// How long it takes until one more may be made.
const REFILL: Duration = Duration::from_secs(300);

/// With so many different messages, they are combined.
const SIMILAR_MAX: usize = 10;

/// After so long a silence, similar messages are a new matter.
const SIMILAR_FOR: Duration = Duration::from_secs(600);

/// The longest message in bytes, as for an Event of `events.k8s.io` (`noteLengthLimit`). A webhook may answer with more.
const MESSAGE_MAX: usize = 1_024;

/// How many Events of a Job, and how many kinds of them, are remembered; far above what is told.
const REMEMBERED: usize = 64;

/// What a combined Event's message begins with.
const COMBINED: &str = "(combined from similar events): ";

/// What news are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// The Job as a whole.
    Job,
    /// One of its Pods.
    Pod,
    /// A CronJob.
    CronJob,
}

/// An Event to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Telling {
    /// The number of the Event among those of the Job, to be named by.
    pub(super) number: u32,
    /// Which news they are: another controller may tell others at the same moment.
    pub(super) fingerprint: u32,
    pub(super) report: Report,
    pub(super) first: Time,
    pub(super) last: Time,
    /// How often it happened; more than once means that it was told before.
    pub(super) count: u32,
}

/// See the module's text. Without events it is small.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    /// Of Normal Events, and of Warnings.
    spent: [Spent; 2],
    groups: Vec<Group>,
    known: Vec<Correlation>,
    numbers: u32,
}

/// A token bucket, by what is missing from it.
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
    /// By their hashes.
    messages: Vec<u64>,
    last: Monotonic,
}

/// An Event that was told, or would have been.
#[derive(Debug)]
struct Correlation {
    number: u32,
    severity: Severity,
    reason: String,
    /// As it was last told.
    message: String,
    /// It is a combined one, or one that grows: others of this reason are the same Event.
    has_any_message: bool,
    first: Time,
    last: Time,
    count: u32,
}

/// What went wrong, as people were told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Warning<'a> {
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
    pub(super) last: Time,
    pub(super) count: u32,
}

impl Correlator {
    /// The Warnings that are remembered; the newest first.
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

    /// Takes in news; gives what is to be told of them, if anything.
    pub(super) fn hear(&mut self, about: About, mut report: Report, now: Now) -> Option<Telling> {
        shorten(&mut report.message);
        // One that grows is told anew each time.
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

    /// Whether a message is one of too many similar ones.
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
        // One more than are told apart is never kept: that there are so many is enough.
        let is_full = group.messages.len() + 1 >= SIMILAR_MAX;
        if is_other && !is_full {
            group.messages.push(message);
        }
        is_other && is_full
    }

    /// Counts an Event; gives its number, when it first happened, and how often.
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

/// A number by which news are told apart, of 24 bits.
fn fingerprint(reason: &str, message: &str) -> u32 {
    (hash(&(reason, message)) & 0xff_ffff) as u32
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Cuts a message that is too long.
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
        // What was not told was counted: nine were told apart, those of before the wait but one.
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
