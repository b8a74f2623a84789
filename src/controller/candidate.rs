//! A candidate for the lead: what its election asks for, as calls to the API server.
//!
//! It has one call under way at a time, beside a standby's watch on the Lease. An answer is awaited no longer than the
//! election waits.
//!
//! Must not: decide who leads, or know what a leader does.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    election::{Election, Lease, LeaseAnswer, LeaseCall, LeaseTimings, Role},
    machine::{CallId, CallResult, Input, Request},
    metrics::Metrics,
    model::{Monotonic, Now, Partition, Timeout},
    wire::{ApiError, Call, ExpectedAnswer, decode_lease, new_lease, paths, updated_lease},
};

use super::{
    lease_contact::{LeaseContact, LeaseVerb},
    lease_probe::LeaseProbe,
    lease_watch::LeaseWatch,
};

/// By this bit the requests of the candidate are told from those of shards; informers have another.
const OWN: CallId = 1 << 62;

/// Whether a request is the candidate's.
pub fn is_candidates(id: CallId) -> bool {
    id & OWN != 0
}

/// By what Lease it is known who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Where the Lease is.
    pub namespace: String,
    /// What it is called.
    pub name: String,
    /// What this candidate is called, and no other.
    pub identity: String,
    /// How long things take.
    pub timings: LeaseTimings,
    /// How the replicas share the namespaces out; without, one of them leads.
    pub partition: Option<Partition>,
}

impl LeaderElection {
    fn election(&self) -> Election {
        let identity = self.identity.clone();
        match self.partition {
            Some(partition) => Election::sharing(identity, partition, self.timings),
            None => Election::new(identity, self.timings),
        }
    }

    /// By what it is told who leads, or who has a range.
    fn labels(&self) -> Vec<String> {
        match self.partition {
            Some(Partition { ranges: count, .. }) => {
                (0..count).map(|range| self.label(range, count)).collect()
            }
            None => vec![self.name.clone()],
        }
    }

    fn label(&self, range: u32, count: u32) -> String {
        format!("{}-{range}-of-{count}", self.name)
    }
}

/// The election's call.
#[derive(Clone, Copy, Debug)]
struct LeaseCallUnderWay {
    id: CallId,
    verb: LeaseVerb,
    sent: Monotonic,
}

/// See the module's text.
#[derive(Debug)]
pub struct Candidate {
    election: Election,
    lease: LeaderElection,
    contact: LeaseContact,
    probe: LeaseProbe,
    metrics: Arc<Metrics>,
    last_id: CallId,
    under_way: Option<LeaseCallUnderWay>,
    watch: LeaseWatch,
    /// The Lease as it was read last, with all that others have written into it: an update keeps that.
    read: Bytes,
    /// The server has answered, or did not in time.
    has_tried: bool,
    told: Role,
    /// Who holds the Lease that is not to be shared with, as was told last.
    stranger: Option<String>,
}

impl Candidate {
    /// One that has yet to ask.
    pub fn new(lease: LeaderElection, metrics: Arc<Metrics>) -> Self {
        // From the start: "nobody leads" must differ from "nobody tells".
        for label in lease.labels() {
            metrics.leads(&label, false);
        }
        Self {
            election: lease.election(),
            contact: LeaseContact::new(&lease.namespace, &lease.name, &metrics),
            probe: LeaseProbe::default(),
            watch: LeaseWatch::new(&lease.namespace, &lease.name),
            lease,
            metrics,
            last_id: OWN,
            under_way: None,
            read: Bytes::new(),
            has_tried: false,
            told: Role::Standby,
            stranger: None,
        }
    }

    /// Whether it is known if another leads, as far as that can be known.
    pub fn has_tried(&self) -> bool {
        self.has_tried
    }

    /// Takes in the answer to a call, or what the watch brings.
    pub fn handle(&mut self, input: Input, now: Now) {
        if self.watch.waits_for(input.id()) {
            if let Some(lease) = self.watch.handle(input, now.monotonic) {
                self.election.hear(lease.as_ref(), now.monotonic);
            }
            return;
        }
        let Input::Answer(id, result) = input else {
            return;
        };
        if self.probe.take_answer(id) {
            self.read(result, LeaseVerb::DryRun, now);
            return;
        }
        let Some(call) = self.under_way.take_if(|call| call.id == id) else {
            return;
        };
        let answer = self.read(result, call.verb, now);
        self.election.answer(answer, now);
        self.has_tried = true;
        self.tell_stranger();
    }

    /// Tells who holds the Lease, if that is nobody with whom this replica could share.
    fn tell_stranger(&mut self) {
        let holder = self.election.holder();
        let holder = holder.filter(|holder| *holder != self.election.identity());
        if self.lease.partition.is_none() || self.stranger.as_deref() == holder {
            return;
        }
        if let Some(holder) = holder {
            tracing::warn!(
                holder,
                "the Lease is held by a controller that does not share the same ranges; standing by"
            );
        }
        self.stranger = holder.map(str::to_owned);
    }

    fn read(&mut self, result: CallResult, verb: LeaseVerb, now: Now) -> LeaseAnswer {
        let expected = ExpectedAnswer::Named(self.lease.name.as_str().into());
        let result = result.and_then(|body| {
            expected.check(&body)?;
            let lease = decode_lease(&body);
            let lease = lease.map_err(|error| ApiError::no_answer(error.to_string()))?;
            Ok((lease, body))
        });
        let error = match result {
            Ok((lease, body)) => {
                self.has_succeeded(verb, now.monotonic);
                if verb != LeaseVerb::DryRun {
                    self.read = body;
                }
                return LeaseAnswer::Found(lease);
            }
            Err(error) => error,
        };
        match error.code {
            // Another was quicker: it says so in its own Lease. The server would have taken it otherwise.
            409 => self.has_succeeded(verb, now.monotonic),
            404 if verb != LeaseVerb::Create => {
                self.has_succeeded(LeaseVerb::Read, now.monotonic);
                return LeaseAnswer::NotFound;
            }
            // A webhook that does not take part in dry runs says nothing about a real write.
            400 if verb == LeaseVerb::DryRun && error.message.contains("dry run") => {
                self.has_succeeded(verb, now.monotonic);
            }
            _ => self.has_failed(verb, &error, now.monotonic),
        }
        LeaseAnswer::Failed
    }

    fn has_succeeded(&mut self, verb: LeaseVerb, now: Monotonic) {
        self.contact.handle_success(verb, now);
        if verb != LeaseVerb::Read {
            self.probe.handle_outcome(true, now);
        }
    }

    fn has_failed(&mut self, verb: LeaseVerb, error: &ApiError, now: Monotonic) {
        self.contact.handle_failure(verb, error, now);
        if verb != LeaseVerb::Read {
            self.probe.handle_outcome(false, now);
        }
    }

    /// A call had no answer for so long.
    fn was_silent(&mut self, verb: LeaseVerb, sent: Monotonic, now: Monotonic) {
        let seconds = now.since(sent).as_secs();
        let error = ApiError::no_answer(format!("no answer within {seconds} s"));
        self.has_failed(verb, &error, now);
    }

    /// Gives the next call.
    pub fn poll_request(&mut self, now: Now) -> Option<Request> {
        self.poll_election(now)
            .or_else(|| self.poll_probe(now))
            .or_else(|| self.poll_watch(now))
    }

    fn poll_election(&mut self, now: Now) -> Option<Request> {
        let longest = self.lease.timings.call_timeout();
        let overdue = |call: &mut LeaseCallUnderWay| now.monotonic.since(call.sent) >= longest;
        let overdue = self.under_way.take_if(overdue);
        let ask = self.election.poll_call(now);
        // At the renew deadline, too, no answer is awaited any longer.
        let overdue = overdue.or_else(|| self.under_way.take_if(|_| ask.is_some()));
        if let Some(LeaseCallUnderWay { verb, sent, .. }) = overdue {
            self.has_tried = true;
            self.was_silent(verb, sent, now.monotonic);
        }
        let ask = ask?;
        let LeaderElection {
            namespace, name, ..
        } = &self.lease;
        let call = match &ask {
            LeaseCall::Get => Call::get(paths::lease(namespace, name)),
            LeaseCall::Create(record) => {
                Call::create_whole(paths::leases(namespace), new_lease(namespace, name, record))
            }
            LeaseCall::Update(lease) => {
                // The version in it is the record's: both are of the last answer.
                let body = updated_lease(&self.read, &lease.record);
                let body = body.expect("an object that was read is JSON");
                Call::replace(paths::lease(namespace, name), body)
            }
        };
        self.last_id += 1;
        self.under_way = Some(LeaseCallUnderWay {
            id: self.last_id,
            verb: match ask {
                LeaseCall::Get => LeaseVerb::Read,
                LeaseCall::Create(_) => LeaseVerb::Create,
                LeaseCall::Update(_) => LeaseVerb::Update,
            },
            sent: now.monotonic,
        });
        Some(Request {
            id: self.last_id,
            call,
            is_watch: false,
        })
    }

    /// A standby tries now and then whether it could write the Lease that another holds.
    fn poll_probe(&mut self, now: Now) -> Option<Request> {
        let longest = self.lease.timings.call_timeout();
        let sent = self.probe.sent();
        if let Some(sent) = sent
            && self.probe.take_overdue(longest, now.monotonic)
        {
            self.was_silent(LeaseVerb::DryRun, sent, now.monotonic);
        }
        if !(self.probes() && self.under_way.is_none() && self.probe.is_due(now.monotonic)) {
            return None;
        }
        let Lease { record, .. } = self.election.lease()?;
        let body = updated_lease(&self.read, record).ok()?;
        let LeaderElection {
            namespace, name, ..
        } = &self.lease;
        let path = format!("{}?dryRun=All", paths::lease(namespace, name));
        let call = Call::replace(path, body);
        self.last_id += 1;
        self.probe.begin(self.last_id, now.monotonic);
        Some(Request {
            id: self.last_id,
            call,
            is_watch: false,
        })
    }

    /// Another replica holds the Lease.
    fn probes(&self) -> bool {
        let holder = self.election.holder();
        let is_anothers = holder.is_some_and(|holder| holder != self.election.identity());
        self.told == Role::Standby && is_anothers
    }

    /// Who stands by, and who shares, watches the Lease, once the server has answered about it.
    fn poll_watch(&mut self, now: Now) -> Option<Request> {
        if !(self.has_tried && self.watches(self.election.role(now.monotonic))) {
            return None;
        }
        let call = self.watch.poll_call(self.last_id + 1, now.monotonic)?;
        self.last_id += 1;
        Some(Request {
            id: self.last_id,
            call,
            is_watch: true,
        })
    }

    fn watches(&self, role: Role) -> bool {
        match role {
            Role::Standby => true,
            Role::Leader(_) => self.lease.partition.is_some(),
            Role::Stopped => false,
        }
    }

    /// Gives a watch that nobody needs any more.
    pub fn poll_abandoned(&mut self) -> Option<CallId> {
        match self.watches(self.told) {
            true => None,
            false => self.watch.close(),
        }
    }

    /// Gives when to ask for requests again though nothing was heard.
    pub fn poll_timeout(&self) -> Timeout {
        let watches = self.has_tried && self.watches(self.told);
        let watch = self.watch.due_at().filter(|_| watches);
        let probe = match self.probes() && self.under_way.is_none() {
            true => self.probe.poll_timeout(self.lease.timings.call_timeout()),
            false => Timeout::default(),
        };
        self.election.poll_timeout().or(watch.into()).or(probe)
    }

    /// What it is, as it was told last.
    pub fn role(&self) -> Role {
        self.told
    }

    /// What it was when this was asked last, if that is not what it is now.
    pub fn poll_change(&mut self, now: Now) -> Option<Role> {
        let role = self.election.role(now.monotonic);
        let before = std::mem::replace(&mut self.told, role);
        if before == role {
            return None;
        }
        let lease = format_args!("{}/{}", self.lease.namespace, self.lease.name);
        let leads = matches!(role, Role::Leader(_));
        match (leads, matches!(before, Role::Leader(_)), role) {
            (true, false, _) => {
                let identity = &self.lease.identity;
                match self.lease.partition {
                    Some(Partition { ranges, .. }) => {
                        tracing::info!(lease, identity, ranges, "sharing");
                    }
                    None => tracing::info!(lease, identity, "leading"),
                }
            }
            (false, true, Role::Standby) => {
                let holder = self.election.holder();
                let holder = holder.filter(|holder| *holder != self.election.identity());
                let reason = self.why_lost(holder);
                tracing::warn!(lease, holder, reason, "the lease was lost; standing by");
            }
            _ => {}
        }
        if self.lease.partition.is_none() {
            self.metrics.leads(&self.lease.name, leads);
        }
        Some(before)
    }

    /// Why this replica leads no more.
    fn why_lost(&self, holder: Option<&str>) -> String {
        let seconds = self.lease.timings.renew_deadline.as_secs();
        match (holder, self.contact.first_failure()) {
            (Some(_), _) => "another holds it".to_owned(),
            (None, Some(failure)) => format!("it was not renewed for {seconds} s: {failure}"),
            (None, None) => {
                format!(
                    "it was not renewed for {seconds} s, and no call failed: the process may have stood still"
                )
            }
        }
    }

    /// How the namespaces are shared out, if they are.
    pub fn partition(&self) -> Option<Partition> {
        self.lease.partition
    }

    /// Until when each range may be written that is this replica's.
    pub fn ranges(&self, now: Monotonic) -> Vec<Option<Monotonic>> {
        let ranges = self.lease.partition.map_or(0, |partition| partition.ranges);
        (0..ranges)
            .map(|range| self.election.range_until(range, now))
            .collect()
    }

    /// The ranges that are this replica's and should be others'.
    pub fn surplus(&self, now: Monotonic) -> impl Iterator<Item = usize> + use<> {
        let surplus = self.election.surplus(now);
        surplus.into_iter().map(|range| range as usize)
    }

    /// Gives a range up, of which nothing is written any more.
    pub fn give_up(&mut self, range: usize, now: Now) {
        if let Ok(range) = u32::try_from(range) {
            self.election.give_up(range, now.monotonic);
        }
    }

    /// A range has become this replica's, or is so no more.
    pub fn note_range(&self, range: usize, is_ours: bool) {
        let (Some(partition), Ok(range)) = (self.lease.partition, u32::try_from(range)) else {
            return;
        };
        let count = partition.ranges;
        self.metrics.leads(&self.lease.label(range, count), is_ours);
        match is_ours {
            true => tracing::info!(range, of = count, "working on a range"),
            false => tracing::info!(range, of = count, "a range is this replica's no more"),
        }
    }

    /// Gives the Lease back.
    pub fn stop(&mut self, now: Now) {
        self.election.stop(now.monotonic);
    }

    /// Whether nothing is left to ask for.
    pub fn is_over(&self) -> bool {
        self.election.is_over()
    }
}

#[cfg(test)]
mod tests;
