//! What the shards of a controller have in common: the informers and, where one of several controllers leads, the
//! candidate for that.
//!
//! On standby the informers run, so that the caches are warm. Who becomes the leader lists all anew before anything
//! is written: what it knew may be older than what the leader before it did. At the start the informers wait for the
//! first answer to the candidate, so that the first leader lists once.
//!
//! Where replicas share ranges, the shard of each range is told for itself ([`super::ranges`]), and all is listed anew
//! for those that are gained, without a pause for the others.
//!
//! Must not: decide who leads, or know what shards do.

use crate::{
    election::Role,
    informer::{Informers, News, Notice, is_informers},
    machine::{CallId, Input, Request},
    model::{Monotonic, Now, Timeout},
};

use super::{
    candidate::{Candidate, is_candidates},
    ranges::Ranges,
};

/// Whether a request is not a shard's.
pub(super) fn is_common(id: CallId) -> bool {
    is_informers(id) || is_candidates(id)
}

/// See the module's text.
#[derive(Debug)]
pub struct Common {
    informers: Informers,
    candidate: Option<Candidate>,
    /// Those of a replica that shares.
    ranges: Option<Ranges>,
    /// The informers have asked for something.
    has_begun: bool,
    is_stopped: bool,
}

impl Common {
    /// Informers and, if there is an election, the candidate. Without, nobody asks who leads.
    pub fn new(informers: Informers, candidate: Option<Candidate>) -> Self {
        let count = candidate.as_ref().and_then(Candidate::range_count);
        let ranges = count.map(|count| Ranges::new(count, informers.extents().cloned().collect()));
        Self {
            informers,
            candidate,
            ranges,
            has_begun: false,
            is_stopped: false,
        }
    }

    pub(super) fn handle(&mut self, input: Input, now: Now, tell: &mut dyn FnMut(News<'_>)) {
        match &mut self.candidate {
            Some(candidate) if is_candidates(input.id()) => {
                candidate.handle(input, now);
                self.follow(true, now);
            }
            _ => self.informers.handle(input, now, tell),
        }
    }

    /// Tells what the candidate has become. Whose a range should be changes only as the candidate hears of it.
    fn follow(&mut self, heard: bool, now: Now) {
        let Some(candidate) = &mut self.candidate else {
            return;
        };
        let change = candidate.poll_change(now);
        if self.ranges.is_some() {
            if heard || change.is_some() {
                self.follow_ranges(now);
            }
            return;
        }
        let Some(before) = change else {
            return;
        };
        let leads_anew = before == Role::Standby && candidate.role() != Role::Stopped;
        if leads_anew && self.has_begun {
            self.informers.start_over();
        }
        let until = leads_until(candidate);
        self.informers.tell(Notice::Lead(until));
    }

    /// Tells each shard what has become of its range.
    fn follow_ranges(&mut self, now: Now) {
        let (Some(candidate), Some(ranges)) = (&self.candidate, &mut self.ranges) else {
            return;
        };
        let untils = candidate.ranges(now.monotonic);
        let had: Vec<bool> = untils
            .iter()
            .enumerate()
            .map(|(range, _)| ranges.is_ours(range))
            .collect();
        let gained = ranges.follow(&untils);
        for (range, (had, until)) in had.into_iter().zip(&untils).enumerate() {
            if had != until.is_some() {
                candidate.note_range(range, !had);
            }
        }
        if !gained.is_empty() {
            // What was not asked for yet will be no older.
            let round = match self.has_begun {
                true => self.informers.list_anew(),
                false => self.informers.round(),
            };
            for range in gained {
                ranges.begin(range, round, self.informers.told_history());
            }
        }
        ranges.retire(candidate.surplus(now.monotonic));
    }

    /// A shard has finished what was under way of its range.
    pub(super) fn retired(&mut self, retirement: u64, now: Now) {
        let (Some(candidate), Some(ranges)) = (&mut self.candidate, &self.ranges) else {
            return;
        };
        if let Some(range) = ranges.retired(retirement) {
            candidate.give_up(range, now);
            self.follow(true, now);
        }
    }

    /// Whether a shard is to hear of its namespaces.
    pub(super) fn hears(&self, shard: usize) -> bool {
        let ranges = self.ranges.as_ref();
        ranges.is_none_or(|ranges| ranges.is_ours(shard))
    }

    /// Gives what is to be told to one shard, before what is to be told to all.
    pub(super) fn poll_notice_to_one(&mut self) -> Option<(usize, Notice)> {
        self.ranges.as_mut()?.poll_notice()
    }

    /// What a shard is told, where all are told this.
    pub(super) fn narrowed(&mut self, shard: usize, notice: &Notice) -> Notice {
        match &mut self.ranges {
            Some(ranges) => ranges.narrowed(shard, notice.clone()),
            None => notice.clone(),
        }
    }

    pub(super) fn poll_request(&mut self, now: Now) -> Option<Request> {
        if let Some(candidate) = &mut self.candidate {
            let request = candidate.poll_request(now);
            let waits = !candidate.has_tried();
            self.follow(false, now);
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

    /// Until when a shard may write; none for always.
    pub(super) fn leads_until(&self, shard: usize) -> Option<Monotonic> {
        match &self.ranges {
            Some(ranges) => Some(ranges.until(shard)),
            None => self.candidate.as_ref().map(leads_until),
        }
    }
}

/// Until when a candidate leads; the clock's start if it does not.
fn leads_until(candidate: &Candidate) -> Monotonic {
    match candidate.role() {
        Role::Leader(until) => until,
        Role::Standby | Role::Stopped => Monotonic::default(),
    }
}
