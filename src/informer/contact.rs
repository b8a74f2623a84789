//! Whether the API server is heard of a kind: the log says when it is not, now and then while it is not, and once when
//! it is again; probes can ask.
//!
//! Must not: decide when to try again.

use std::{sync::Arc, time::Duration};

use crate::{
    metrics::last_heard::LastHeard,
    model::{Exponential, Monotonic},
    wire::ApiError,
};

/// How long the log is quiet between two lines about the same silence: who reads it is not to be flooded in an outage
/// of hours, and still sees that it lasts.
const QUIET: Exponential = Exponential {
    base: Duration::from_secs(10),
    max: Duration::from_secs(300),
};

/// What was tried in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    List,
    /// Reading or writing the Lease of an election.
    Lease,
    /// A watch that breaks is opened again at once: the first time is not worth a line.
    Watch,
    /// A watch that the server will not open: it lasts until one is open, however many lists are answered meanwhile.
    RefusedWatch,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Contact {
    heard: Arc<LastHeard>,
    silence: Option<Silence>,
}

#[derive(Debug)]
struct Silence {
    since: Monotonic,
    failures: u32,
    /// How often the log has told of it.
    lines: u32,
    quiet_until: Monotonic,
    /// A list is not enough to end it.
    needs_watch: bool,
}

impl Contact {
    pub(crate) fn new(heard: Arc<LastHeard>) -> Self {
        Self {
            heard,
            silence: None,
        }
    }

    /// The server has answered a list.
    pub(crate) fn listed(&mut self, now: Monotonic) {
        match &self.silence {
            Some(silence) if silence.needs_watch => self.heard.now(now),
            _ => self.heard(now),
        }
    }

    /// The server has said something.
    pub(crate) fn heard(&mut self, now: Monotonic) {
        self.heard.now(now);
        let Some(silence) = self.silence.take() else {
            return;
        };
        if silence.lines > 0 {
            tracing::info!(
                kind = self.heard.kind,
                namespace = self.heard.namespace.as_deref(),
                seconds = now.since(silence.since).as_secs(),
                failures = silence.failures,
                "the API server is heard again"
            );
        }
    }

    /// A try has failed.
    pub(crate) fn failed(&mut self, tried: Tried, error: &ApiError, now: Monotonic) {
        let is_first = self.silence.is_none();
        let silence = self.silence.get_or_insert(Silence {
            since: now,
            failures: 0,
            lines: 0,
            quiet_until: now,
            needs_watch: false,
        });
        silence.failures += 1;
        silence.needs_watch |= tried == Tried::RefusedWatch;
        self.heard.lost();
        let (kind, namespace) = (self.heard.kind, self.heard.namespace.as_deref());
        let what = match tried {
            Tried::List => "list",
            Tried::Lease => "lease",
            Tried::Watch | Tried::RefusedWatch => "watch",
        };
        if now < silence.quiet_until || (is_first && tried == Tried::Watch) {
            tracing::debug!(kind, namespace, what, %error, "failed");
            return;
        }
        silence.lines += 1;
        silence.quiet_until = now + QUIET.delay(silence.lines);
        let failures = silence.failures;
        tracing::warn!(kind, namespace, what, failures, %error, "failed; to be tried again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_told_at_growing_intervals_and_ends() {
        let heard = Arc::new(LastHeard::new("pods", None));
        let mut contact = Contact::new(Arc::clone(&heard));
        let lines = |contact: &Contact| contact.silence.as_ref().map_or(0, |silence| silence.lines);
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
        let heard = Arc::new(LastHeard::new("pods", None));
        let mut contact = Contact::new(Arc::clone(&heard));
        let mut told = Vec::new();
        for second in 0..60 {
            let at = Monotonic::from_secs(second);
            contact.listed(at);
            let before = contact.silence.as_ref().map_or(0, |silence| silence.lines);
            contact.failed(Tried::RefusedWatch, &ApiError::no_answer("403"), at);
            if contact
                .silence
                .as_ref()
                .is_some_and(|silence| silence.lines > before)
            {
                told.push(second);
            }
            assert_eq!(heard.age(at), Duration::ZERO);
        }
        assert_eq!(told, [0, 10, 30]);
        contact.heard(Monotonic::from_secs(60));
        assert!(contact.silence.is_none());
    }
}
