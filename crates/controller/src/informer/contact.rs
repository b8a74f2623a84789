//! Tracks per kind whether the API server answers lists and watches, for the log, metrics and probes. The log reports
//! the first failure, then repeats at growing intervals, and reports the recovery once.
//!
//! Must not: decide when to try again.

use std::{sync::Arc, time::Duration};

use lakh_model::{Exponential, Monotonic};
use lakh_wire::ApiError;

use crate::metrics::last_heard::LastHeard;

/// Interval between two log lines about the same outage. It grows so that an outage of hours does not flood the log and
/// still shows that it lasts.
const QUIET: Exponential = Exponential {
    base: Duration::from_secs(10),
    max: Duration::from_secs(300),
};

/// Request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    List,
    /// Reading or writing the Lease of an election.
    Lease,
    /// A watch that broke. It is reopened at once, so the first failure is not logged.
    Watch,
    /// A watch that was given up because it brought nothing for too long.
    SilentWatch,
    /// A watch that ended at once, in order and without an event. A list or an opened watch does not show that this is
    /// over; an event does, and so does a watch that stays open.
    ShortWatch,
    /// A watch with something that is no event. As of [`Self::ShortWatch`], an event shows that this is over.
    OddWatch,
    /// A watch that could not be opened. Small lists by which a reflector compares the server's history are no sign that
    /// news come again; an open watch is. As of [`Self::Watch`], the first time is not worth a line.
    UnopenedWatch,
    /// A watch that the server refuses to open. This lasts until a watch opens, however many lists are answered
    /// meanwhile.
    RefusedWatch,
}

impl Tried {
    /// Returns its name in the log and metrics.
    fn label(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Lease => "lease",
            Self::Watch
            | Self::SilentWatch
            | Self::ShortWatch
            | Self::OddWatch
            | Self::UnopenedWatch
            | Self::RefusedWatch => "watch",
        }
    }

    /// Returns the weakest sign that ends a run of such failures.
    fn ended_by(self) -> Sign {
        match self {
            Self::List | Self::Lease | Self::Watch | Self::SilentWatch => Sign::Answer,
            Self::UnopenedWatch | Self::RefusedWatch => Sign::OpenWatch,
            Self::ShortWatch | Self::OddWatch => Sign::Event,
        }
    }

    /// Returns true if the first failure is logged.
    fn is_logged_at_once(self) -> bool {
        !matches!(self, Self::Watch | Self::ShortWatch | Self::UnopenedWatch)
    }
}

/// Signs that a kind can be listed and watched, the weakest first; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sign {
    Answer,
    OpenWatch,
    Event,
}

/// Consecutive failures, which the log reports at growing intervals.
#[derive(Debug)]
pub struct FailureRun {
    since: Monotonic,
    /// Number of failures.
    pub failures: u32,
    lines: u32,
    quiet_until: Monotonic,
}

impl FailureRun {
    /// Starts without failures.
    pub fn new(now: Monotonic) -> Self {
        Self {
            since: now,
            failures: 0,
            lines: 0,
            quiet_until: now,
        }
    }

    /// Counts a failure; returns true if the log should report it.
    pub fn add(&mut self, is_worth_a_line: bool, now: Monotonic) -> bool {
        self.failures += 1;
        if now < self.quiet_until || !is_worth_a_line {
            return false;
        }
        self.lines += 1;
        self.quiet_until = now + QUIET.delay(self.lines);
        true
    }

    /// Returns the seconds since the first failure if any was logged: then the recovery is logged, too.
    pub fn reported_seconds(&self, now: Monotonic) -> Option<u64> {
        (self.lines > 0).then(|| now.since(self.since).as_secs())
    }
}

/// Tracks whether a kind can be listed and watched, or the Lease be read, for the log, metrics and probes.
#[derive(Debug)]
pub(crate) struct Contact {
    heard: Arc<LastHeard>,
    silence: Option<Silence>,
}

#[derive(Debug)]
struct Silence {
    run: FailureRun,
    /// The weakest sign that ends it.
    until: Sign,
}

impl Contact {
    pub(crate) fn new(heard: Arc<LastHeard>) -> Self {
        Self {
            heard,
            silence: None,
        }
    }

    /// The server has answered a list from which no news are taken in.
    pub(crate) fn compared(&mut self, now: Monotonic) {
        let silence = self.silence.as_ref();
        if silence.is_none_or(|silence| silence.until <= Sign::Answer) {
            self.heard.now(now);
        }
        self.handle_sign(Sign::Answer, now);
    }

    /// Handles the answer to a list.
    pub(crate) fn listed(&mut self, now: Monotonic) {
        self.heard.now(now);
        self.handle_sign(Sign::Answer, now);
    }

    /// Handles an opened watch. After watches that ended at once, an open one does not show yet that events will come.
    pub(crate) fn opened(&mut self, now: Monotonic) {
        let silence = self.silence.as_ref();
        if silence.is_none_or(|silence| silence.until <= Sign::OpenWatch) {
            self.heard.now(now);
        }
        self.handle_sign(Sign::OpenWatch, now);
    }

    /// Handles an event, a watch that stayed open, or a read of the Lease.
    pub(crate) fn heard(&mut self, now: Monotonic) {
        self.heard.now(now);
        self.handle_sign(Sign::Event, now);
    }

    fn handle_sign(&mut self, sign: Sign, now: Monotonic) {
        let Some(silence) = self.silence.take_if(|silence| silence.until <= sign) else {
            return;
        };
        if let Some(seconds) = silence.run.reported_seconds(now) {
            tracing::info!(
                kind = self.heard.kind,
                namespace = self.heard.namespace.as_deref(),
                seconds,
                failures = silence.run.failures,
                "requests succeed again"
            );
        }
    }

    /// Handles a failed request.
    pub(crate) fn failed(&mut self, tried: Tried, error: &ApiError, now: Monotonic) {
        let is_first = self.silence.is_none();
        let silence = self.silence.get_or_insert(Silence {
            run: FailureRun::new(now),
            until: Sign::Answer,
        });
        silence.until = silence.until.max(tried.ended_by());
        let what = tried.label();
        self.heard.lost(what);
        let (kind, namespace) = (self.heard.kind, self.heard.namespace.as_deref());
        let is_worth_a_line = !is_first || tried.is_logged_at_once();
        if !silence.run.add(is_worth_a_line, now) {
            tracing::debug!(kind, namespace, what, %error, "request failed");
            return;
        }
        let failures = silence.run.failures;
        tracing::warn!(kind, namespace, what, failures, %error, "request failed; will retry");
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::family::Family;

    use super::*;

    #[test]
    fn a_silence_is_told_at_growing_intervals_and_ends() {
        let heard = Arc::new(LastHeard::new("pods", None, Family::default()));
        let mut contact = Contact::new(Arc::clone(&heard));
        let lines = |contact: &Contact| {
            contact
                .silence
                .as_ref()
                .map_or(0, |silence| silence.run.lines)
        };
        let error = ApiError::no_answer("refused");
        let at = Monotonic::from_secs;
        contact.heard(at(5));
        assert_eq!(heard.lost_for(at(100)), None);
        contact.failed(Tried::Watch, &error, at(100));
        assert_eq!(
            (lines(&contact), heard.lost_for(at(101))),
            (0, Some(Duration::from_secs(96)))
        );
        let mut told = Vec::new();
        for second in 101..1_000 {
            let before = lines(&contact);
            contact.failed(Tried::List, &error, at(second));
            if lines(&contact) > before {
                told.push(second);
            }
        }
        assert_eq!(told, [101, 111, 131, 171, 251, 411, 711]);
        contact.heard(at(1_000));
        assert_eq!((lines(&contact), heard.lost_for(at(2_000))), (0, None));
        contact.failed(Tried::List, &error, at(2_000));
        assert_eq!(
            lines(&contact),
            1,
            "a list is not tried before it is needed"
        );
    }

    #[test]
    fn a_watch_that_is_refused_is_told_of_though_lists_are_answered() {
        let heard = Arc::new(LastHeard::new("pods", None, Family::default()));
        let mut contact = Contact::new(Arc::clone(&heard));
        let mut told = Vec::new();
        for second in 0..60 {
            let at = Monotonic::from_secs(second);
            contact.listed(at);
            let before = contact
                .silence
                .as_ref()
                .map_or(0, |silence| silence.run.lines);
            contact.failed(Tried::RefusedWatch, &ApiError::no_answer("403"), at);
            if contact
                .silence
                .as_ref()
                .is_some_and(|silence| silence.run.lines > before)
            {
                told.push(second);
            }
            assert_eq!(heard.age(at), Duration::ZERO);
        }
        assert_eq!(told, [0, 10, 30]);
        contact.heard(Monotonic::from_secs(60));
        assert!(contact.silence.is_none());
    }

    #[test]
    fn a_watch_that_cannot_be_opened_is_reported_though_small_lists_are_answered() {
        let heard = Arc::new(LastHeard::new("pods", None, Family::default()));
        let mut contact = Contact::new(Arc::clone(&heard));
        let at = Monotonic::from_secs;
        contact.heard(at(5));
        let mut lines = Vec::new();
        for second in 10..60 {
            contact.compared(at(second));
            let count = |contact: &Contact| {
                let silence = contact.silence.as_ref();
                silence.map_or(0, |silence| silence.run.lines)
            };
            let before = count(&contact);
            let error = ApiError::no_answer("refused");
            contact.failed(Tried::UnopenedWatch, &error, at(second));
            lines.extend((count(&contact) > before).then_some(second));
        }
        assert_eq!(lines, [11, 21, 41]);
        assert_eq!(heard.lost_for(at(60)), Some(Duration::from_secs(50)));
        contact.opened(at(60));
        assert!(contact.silence.is_none());
        assert_eq!(heard.lost_for(at(70)), None);
    }

    #[test]
    fn watches_that_end_at_once_are_reported_until_an_event_comes() {
        let heard = Arc::new(LastHeard::new("pods", None, Family::default()));
        let mut contact = Contact::new(Arc::clone(&heard));
        let at = Monotonic::from_secs;
        contact.heard(at(5));
        let error = ApiError::no_answer("the watch ended at once");
        let mut lines = Vec::new();
        for second in 10..50 {
            contact.opened(at(second));
            let before = contact
                .silence
                .as_ref()
                .map_or(0, |silence| silence.run.lines);
            contact.failed(Tried::ShortWatch, &error, at(second));
            let now = contact
                .silence
                .as_ref()
                .map_or(0, |silence| silence.run.lines);
            lines.extend((now > before).then_some(second));
        }
        assert_eq!(lines, [11, 21, 41]);
        // Still the age of the first open watch, which counted as a sign because no failure was known.
        assert_eq!(heard.lost_for(at(50)), Some(Duration::from_secs(40)));
        contact.opened(at(50));
        contact.heard(at(51));
        assert!(contact.silence.is_none());
        assert_eq!(heard.lost_for(at(60)), None);
    }
}
