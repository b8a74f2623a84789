//! What the shards of a controller have in common: the informers and, where one of several controllers leads, the
//! candidate for that.
//!
//! On standby the informers run, so that the caches are warm. Who becomes the leader lists all anew before anything
//! is written: what it knew may be older than what the leader before it did. At the start the informers wait for the
//! first answer to the candidate, so that the first leader lists once.
//!
//! Must not: decide who leads, or know what shards do.

use crate::{
    election::Role,
    informer::{Informers, News, Notice, is_informers},
    machine::{CallId, Input, Request},
    model::{Monotonic, Now, Timeout},
};

use super::candidate::{Candidate, is_candidates};

/// Whether a request is not a shard's.
pub(super) fn is_common(id: CallId) -> bool {
    is_informers(id) || is_candidates(id)
}

/// See the module's text.
#[derive(Debug)]
pub struct Common {
    informers: Informers,
    candidate: Option<Candidate>,
    /// The informers have asked for something.
    has_begun: bool,
    is_stopped: bool,
}

impl Common {
    /// Informers and, if there is an election, the candidate. Without, nobody asks who leads.
    pub fn new(informers: Informers, candidate: Option<Candidate>) -> Self {
        Self {
            informers,
            candidate,
            has_begun: false,
            is_stopped: false,
        }
    }

    pub(super) fn handle(&mut self, input: Input, now: Now, tell: &mut dyn FnMut(News<'_>)) {
        match &mut self.candidate {
            Some(candidate) if is_candidates(input.id()) => {
                candidate.handle(input, now);
                self.follow(now);
            }
            _ => self.informers.handle(input, now, tell),
        }
    }

    /// Tells what the candidate has become.
    fn follow(&mut self, now: Now) {
        let Some(candidate) = &mut self.candidate else {
            return;
        };
        let Some(before) = candidate.poll_change(now) else {
            return;
        };
        let leads_anew = before == Role::Standby && candidate.role() != Role::Stopped;
        if leads_anew && self.has_begun {
            self.informers.start_over();
        }
        let until = leads_until(candidate);
        self.informers.tell(Notice::Lead(until));
    }

    pub(super) fn poll_request(&mut self, now: Now) -> Option<Request> {
        if let Some(candidate) = &mut self.candidate {
            let request = candidate.poll_request(now);
            let waits = !candidate.has_tried();
            self.follow(now);
            if request.is_some() || waits {
                return request;
            }
        }
        if self.is_stopped {
            return None;
        }
        let request = self.informers.poll_request(now);
        self.has_begun |= request.is_some();
        request
    }

    pub(super) fn poll_timeout(&self) -> Timeout {
        let candidate = self.candidate.as_ref();
        let candidate = candidate.map_or_else(Timeout::default, Candidate::poll_timeout);
        let informers = match &self.candidate {
            Some(candidate) if !candidate.has_tried() => Timeout::default(),
            _ => self.informers.poll_timeout(),
        };
        candidate.or(informers)
    }

    pub(super) fn poll_notice(&mut self) -> Option<Notice> {
        self.informers.poll_notice()
    }

    pub(super) fn poll_abandoned(&mut self) -> Option<CallId> {
        let own = self.candidate.as_mut().and_then(Candidate::poll_abandoned);
        own.or_else(|| self.informers.poll_abandoned())
    }

    pub(super) fn gathers(&self, id: CallId) -> bool {
        is_informers(id) && self.informers.gathers(id)
    }

    pub(super) fn history_ends(&mut self, number: u64) {
        self.informers.history_ends(number);
    }

    pub(super) fn missing(&self) -> Vec<&'static str> {
        self.informers.missing()
    }

    /// Gives the lead back, as nothing is written any more.
    pub(super) fn stop(&mut self, now: Now) {
        self.is_stopped = true;
        if let Some(candidate) = &mut self.candidate {
            candidate.stop(now);
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Whether nothing is left to give back.
    pub(super) fn is_over(&self) -> bool {
        self.candidate.as_ref().is_none_or(Candidate::is_over)
    }

    /// Until when anything may be written; none for always.
    pub(super) fn leads_until(&self) -> Option<Monotonic> {
        self.candidate.as_ref().map(leads_until)
    }
}

/// Until when a candidate leads; the clock's start if it does not.
fn leads_until(candidate: &Candidate) -> Monotonic {
    match candidate.role() {
        Role::Leader(until) => until,
        Role::Standby | Role::Stopped => Monotonic::default(),
    }
}
