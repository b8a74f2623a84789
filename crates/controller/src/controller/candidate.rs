//! Runs leader election: sends the election's requests to the API server, and feeds it the responses.
//!
//! It has one request in flight at a time, beside a standby's watch on the Lease and its dry runs. A request times out
//! as the election demands.
//!
//! Must not: decide which replica leads, or know the work of a leader.

use std::sync::Arc;

use bytes::Bytes;

use lakh_core::election::{Election, Lease, LeaseAnswer, LeaseCall, LeaseTimings, Role};
use lakh_model::{Monotonic, Now, Partition, Timeout};
use lakh_wire::{ApiError, Call, ExpectedAnswer, decode_lease, new_lease, paths, updated_lease};

use crate::{
    machine::{CallId, CallResult, Input, Request},
    metrics::Metrics,
};

use super::{
    lease_contact::{LeaseContact, LeaseVerb},
    lease_probe::LeaseProbe,
    lease_watch::LeaseWatch,
};

/// Marks request IDs of the candidate; informers use another bit, shards none.
const OWN: CallId = 1 << 62;

/// Returns true if the candidate sent the request.
pub fn is_candidates(id: CallId) -> bool {
    id & OWN != 0
}

/// Configuration of the leader election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Identity of this candidate; unique.
    pub identity: String,
    /// Durations and periods.
    pub timings: LeaseTimings,
    /// The division of namespaces among replicas. Without it, one replica leads.
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

    /// Metric labels: the Lease, or one for each range.
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

/// The election's request in flight.
#[derive(Clone, Copy, Debug)]
struct LeaseCallUnderWay {
    id: CallId,
    verb: LeaseVerb,
    sent: Monotonic,
}

/// A replica's participation in leader election.
///
/// [`Candidate::poll_request`] and [`Candidate::handle`] exchange requests and responses with the server.
/// [`Candidate::poll_change`] reports a changed role, and [`Candidate::ranges`] the ranges that this replica may write.
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
    /// The Lease as last read. An update keeps all fields that other clients have written.
    read: Bytes,
    /// A first request has been answered, or has timed out.
    has_tried: bool,
    reported_role: Role,
    /// The reported holder of the Lease that does not share ranges.
    other_holder: Option<String>,
}

impl Candidate {
    /// Creates a candidate without any knowledge of the Lease.
    pub fn new(lease: LeaderElection, metrics: Arc<Metrics>) -> Self {
        // From the start, so that "no leader" differs from a missing metric.
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
            reported_role: Role::Standby,
            other_holder: None,
        }
    }

    /// Returns true once a first request has been answered or has timed out.
    pub fn has_tried(&self) -> bool {
        self.has_tried
    }

    /// Handles a response or a watch event.
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
        self.log_other_holder();
    }

    /// Logs the holder of the Lease, if this replica cannot share ranges with it.
    fn log_other_holder(&mut self) {
        let holder = self.election.holder();
        let holder = holder.filter(|holder| *holder != self.election.identity());
        if self.lease.partition.is_none() || self.other_holder.as_deref() == holder {
            return;
        }
        if let Some(holder) = holder {
            tracing::warn!(
                holder,
                "the Lease is held by a controller with other sharing flags; standing by"
            );
        }
        self.other_holder = holder.map(str::to_owned);
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
            // Another replica wrote first. The server authorized this write and would have accepted it otherwise.
            409 => self.has_succeeded(verb, now.monotonic),
            404 if verb != LeaseVerb::Create => {
                self.has_succeeded(LeaseVerb::Read, now.monotonic);
                return LeaseAnswer::NotFound;
            }
            // A webhook without support for dry runs says nothing about a real write.
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

    /// Records a request without a response since `sent`.
    fn was_silent(&mut self, verb: LeaseVerb, sent: Monotonic, now: Monotonic) {
        let seconds = now.since(sent).as_secs();
        let error = ApiError::no_answer(format!("no answer within {seconds} s"));
        self.has_failed(verb, &error, now);
    }

    /// Returns the next request.
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
        // A request also times out at the renew deadline.
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
                // Body and record are from the same response, so the body's version is the record's.
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

    /// Returns a dry run of the update that a standby would need to take over the Lease, if one is due.
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

    /// Returns true if another replica holds the Lease.
    fn probes(&self) -> bool {
        let holder = self.election.holder();
        let is_anothers = holder.is_some_and(|holder| holder != self.election.identity());
        self.reported_role == Role::Standby && is_anothers
    }

    /// Returns the watch on the Lease, for a standby or a replica that shares ranges, after the first response.
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

    /// Returns a watch that is no longer needed.
    pub fn poll_abandoned(&mut self) -> Option<CallId> {
        match self.watches(self.reported_role) {
            true => None,
            false => self.watch.close(),
        }
    }

    /// Returns when to poll for requests without any input.
    pub fn poll_timeout(&self) -> Timeout {
        let watches = self.has_tried && self.watches(self.reported_role);
        let watch = self.watch.due_at().filter(|_| watches);
        let probe = match self.probes() && self.under_way.is_none() {
            true => self.probe.poll_timeout(self.lease.timings.call_timeout()),
            false => Timeout::default(),
        };
        self.election.poll_timeout().or(watch.into()).or(probe)
    }

    /// Returns the role as last reported by [`Candidate::poll_change`].
    pub fn role(&self) -> Role {
        self.reported_role
    }

    /// Updates the role. Returns the previous one if it has changed.
    pub fn poll_change(&mut self, now: Now) -> Option<Role> {
        let role = self.election.role(now.monotonic);
        let before = std::mem::replace(&mut self.reported_role, role);
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
                        tracing::info!(
                            lease,
                            identity,
                            ranges,
                            "joined the replicas that share the Lease"
                        );
                    }
                    None => tracing::info!(lease, identity, "became the leader"),
                }
            }
            (false, true, Role::Standby) => {
                let holder = self.election.holder();
                let holder = holder.filter(|holder| *holder != self.election.identity());
                let reason = self.why_lost(holder);
                tracing::warn!(lease, holder, reason, "lost the Lease; standing by");
            }
            _ => {}
        }
        if self.lease.partition.is_none() {
            self.metrics.leads(&self.lease.name, leads);
        }
        Some(before)
    }

    /// Returns the reason why this replica stopped leading.
    fn why_lost(&self, holder: Option<&str>) -> String {
        let seconds = self.lease.timings.renew_deadline.as_secs();
        match (holder, self.contact.first_failure()) {
            (Some(_), _) => "another replica holds the Lease".to_owned(),
            (None, Some(failure)) => {
                format!("the Lease was not renewed for {seconds} s: {failure}")
            }
            (None, None) => {
                format!(
                    "the Lease was not renewed for {seconds} s, and no request failed: the process may have been paused"
                )
            }
        }
    }

    /// Returns how the namespaces are shared, if they are.
    pub fn partition(&self) -> Option<Partition> {
        self.lease.partition
    }

    /// Returns the write deadline of each range; none for a range of another replica.
    pub fn ranges(&self, now: Monotonic) -> Vec<Option<Monotonic>> {
        let ranges = self.lease.partition.map_or(0, |partition| partition.ranges);
        (0..ranges)
            .map(|range| self.election.range_until(range, now))
            .collect()
    }

    /// Returns the ranges that this replica should hand over.
    pub fn surplus(&self, now: Monotonic) -> impl Iterator<Item = usize> + use<> {
        let surplus = self.election.surplus(now);
        surplus.into_iter().map(|range| range as usize)
    }

    /// Gives up a range without writes in flight.
    pub fn give_up(&mut self, range: usize, now: Now) {
        if let Ok(range) = u32::try_from(range) {
            self.election.give_up(range, now.monotonic);
        }
    }

    /// Records that this replica has gained or lost a range.
    pub fn note_range(&self, range: usize, is_ours: bool) {
        let (Some(partition), Ok(range)) = (self.lease.partition, u32::try_from(range)) else {
            return;
        };
        let count = partition.ranges;
        self.metrics.leads(&self.lease.label(range, count), is_ours);
        match is_ours {
            true => tracing::info!(range, of = count, "acquired a range of namespaces"),
            false => tracing::info!(range, of = count, "gave up a range of namespaces"),
        }
    }

    /// Releases the Lease.
    pub fn stop(&mut self, now: Now) {
        self.election.stop(now.monotonic);
    }

    /// Returns true if there are no more requests.
    pub fn is_over(&self) -> bool {
        self.election.is_over()
    }
}

#[cfg(test)]
mod tests;
