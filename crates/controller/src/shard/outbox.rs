//! Queues all requests of a shard, and tracks those in flight.
//!
//! Jobs' writes and all other requests share one fair queue, and the next request is chosen as late as possible. A
//! request that a busy server rejected is put back, up to [`ASKED_AGAIN`] times. Any other response goes to the caller.
//! Events have queues of their own.
//!
//! Must not: know how a response is handled.

use std::{sync::Arc, time::Duration};

use compact_str::CompactString;
use hashbrown::HashMap;

use lakh_core::flow::{FairQueue, Rank, WriteAnswer, coalescing_delay};
use lakh_model::{JobId, JobKey, Monotonic, Timeout, Uid};
use lakh_wire::{Call, ErrorKind, ExpectedAnswer, paths};

use crate::{
    machine::{CallId, CallResult, Request, code_of},
    metrics::Metrics,
    rate_limiter::{Allowance, Limiter},
};

use super::{
    events::{Recorder, Sending},
    journal::Journal,
    rounds::Chore,
    store::ActorKey,
    writes::Write,
};

/// The number of consecutive retries at a busy server. After that the request fails, and the failure is reported. It is
/// half of client-go's `maxRetries`, which blocks one worker meanwhile; here the Job's other writes are blocked.
const ASKED_AGAIN: u32 = 5;

/// A request, with its labels for metrics.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) verb: &'static str,
    pub(super) resource: &'static str,
    pub(super) call: Call,
    /// The expected object. Any other success response is treated as no response.
    pub(super) expected: ExpectedAnswer,
}

impl Named {
    pub(super) fn new(
        verb: &'static str,
        resource: &'static str,
        call: Call,
        expected: ExpectedAnswer,
    ) -> Self {
        Self {
            verb,
            resource,
            call,
            expected,
        }
    }

    /// Creates the GET of a Job.
    pub(super) fn get_job(JobKey { namespace, name }: &JobKey) -> Self {
        let expected = ExpectedAnswer::Named(name.as_str().into());
        Self::new(
            "get",
            "jobs",
            Call::get(paths::job(namespace, name)),
            expected,
        )
    }

    /// Creates the GET of a Pod.
    pub(super) fn get_pod(namespace: &str, name: &str) -> Self {
        let expected = ExpectedAnswer::Named(name.into());
        Self::new(
            "get",
            "pods",
            Call::get(paths::pod(namespace, name)),
            expected,
        )
    }
}

/// The origin of a request other than a Job's write.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    /// Adoption, release or freeing of Pods.
    Chore(Chore),
    /// A CronJob's sync.
    CronJob(JobKey),
    /// A finished Job that may be deleted.
    Ttl(Arc<JobId>),
    /// A search for a Job that only its Pods name.
    Unseen(ActorKey),
    /// A list of a Job's Pods, because their watch lags behind the Job's status.
    JobPods(ActorKey),
    /// A read of a Job of which this version is in doubt.
    Comparison(ActorKey, u64),
}

/// A queued request.
#[derive(Debug)]
enum WaitingCall {
    /// A Job's write.
    Write(Write),
    /// Any other request.
    Call(Box<(Named, Caller)>),
    /// The caller has the response.
    Gone,
}

#[derive(Debug)]
struct Queued {
    waiting: WaitingCall,
    /// The number of times that a busy server rejected it.
    refusals: u32,
    /// The term in which it was queued.
    term: u64,
}

/// A request that holds a permit.
#[derive(Debug)]
struct Placed {
    namespace: CompactString,
    owner: Uid,
    queued: Queued,
    sent: Monotonic,
    verb: &'static str,
    resource: &'static str,
    expected: ExpectedAnswer,
    answer: WriteAnswer,
}

#[derive(Debug)]
enum CallUnderWay {
    Placed(Box<Placed>),
    Event(Box<Sending>, &'static str, ExpectedAnswer),
}

/// The caller that a response belongs to.
#[derive(Debug)]
pub(super) enum Answered {
    /// A Job's write, with the permit that it keeps until [`Outbox::over`] or [`Outbox::go_on`].
    Write(Box<Write>, Place, CallResult),
    /// Another request.
    Call(Caller, CallResult),
}

/// The result of building a write's request.
#[derive(Debug)]
pub(super) enum Made {
    /// Send this request.
    Call(Named),
    /// Wait until another write has read the template.
    Wait,
    /// Drop the write.
    Nothing,
}

/// A request that was dropped from the queue.
#[derive(Debug)]
pub(super) enum Unsent {
    /// A Job's write.
    Write(Box<Write>),
    /// A Job's write that waits for the Job's template, and its term: the caller pushes it again later.
    Waits(Box<Write>, u64),
    /// Another request.
    Call(Caller),
}

/// The permit of a write that may continue with another request.
#[derive(Debug)]
#[must_use = "a place that is not given back is lost"]
pub(super) struct Place(Box<Placed>);

impl Place {
    /// Returns when the last request was sent.
    pub(super) fn sent(&self) -> Monotonic {
        self.0.sent
    }
}

/// The request queue of a shard.
///
/// [`Outbox::push`] queues a Job's write, [`Outbox::ask`] any other request. [`Outbox::poll_request`] returns the next
/// one, and [`Outbox::answered`] takes its response. Every [`Place`] must be given back.
#[derive(Debug)]
pub(super) struct Outbox {
    line: FairQueue<CompactString, Uid, Queued>,
    limiter: Allowance,
    /// When the limit on requests per second allows the next one, if it blocks now.
    limited_until: Option<Monotonic>,
    under_way: HashMap<CallId, CallUnderWay>,
    /// Follow-up requests, sent at once because they hold a permit.
    going_on: Vec<(CallId, Call)>,
    next_id: CallId,
    /// Moving average of the response time.
    took: Duration,
    /// The pause when a busy server did not name one.
    busy_pause: Duration,
    /// The number of terms in which this shard has led. Another process may have written between two terms.
    term: u64,
    closed: bool,
    pub(super) events: Recorder,
    pub(super) journal: Journal,
    pub(super) metrics: Arc<Metrics>,
}

impl Outbox {
    /// Creates an outbox with at most this many requests in flight, Events excluded.
    pub(super) fn new(
        max_in_flight: usize,
        busy_pause: Duration,
        limiter: &Arc<Limiter>,
        events: Recorder,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            line: FairQueue::new(max_in_flight),
            limiter: Allowance::of(limiter),
            limited_until: None,
            under_way: HashMap::new(),
            going_on: Vec::new(),
            next_id: 0,
            took: Duration::ZERO,
            busy_pause,
            term: 0,
            closed: false,
            events,
            journal: Journal::default(),
            metrics,
        }
    }

    /// Queues a Job's write.
    pub(super) fn push(&mut self, job: &JobId, rank: Rank, write: Write) {
        self.push_of_term(self.term, job, rank, write);
    }

    /// Queues a Job's write of this term.
    pub(super) fn push_of_term(&mut self, term: u64, job: &JobId, rank: Rank, write: Write) {
        if !self.closed {
            let from = (&job.key.namespace, job.uid);
            self.wait(from, rank, WaitingCall::Write(write), term);
            self.metrics.writes_pending.inc();
        }
    }

    /// Queues a request about an object in this namespace with this UID, or one owned by it.
    pub(super) fn ask(&mut self, from: (&CompactString, Uid), named: Named, caller: Caller) {
        if !self.closed {
            let call = WaitingCall::Call(Box::new((named, caller)));
            self.wait(from, Rank::Urgent, call, self.term);
        }
    }

    fn wait(
        &mut self,
        (namespace, owner): (&CompactString, Uid),
        rank: Rank,
        waiting: WaitingCall,
        term: u64,
    ) {
        let queued = Queued {
            waiting,
            refusals: 0,
            term,
        };
        self.line.push(namespace, &owner, rank, queued);
    }

    /// Sets the number of requests in flight in other shards that share the limit.
    pub(super) fn set_in_flight_elsewhere(&mut self, in_flight: usize) {
        self.line.set_in_flight_elsewhere(in_flight);
    }

    /// Returns the number of requests in flight, Events excluded.
    pub(super) fn in_flight(&self) -> usize {
        self.line.in_flight()
    }

    /// Begins a term. Another process may have written meanwhile, so requests of earlier terms are dropped.
    pub(super) fn begin_term(&mut self) {
        self.term += 1;
    }

    /// Returns the next request. `make` builds the request of a Job's write. Writes for which it builds none go to
    /// `unsent`, as do requests of another term.
    pub(super) fn poll_request(
        &mut self,
        now: Monotonic,
        make: &mut dyn FnMut(&mut Write) -> Made,
        unsent: &mut Vec<Unsent>,
    ) -> Option<Request> {
        if let Some((id, call)) = self.going_on.pop() {
            return Some(request(id, call));
        }
        while !self.is_limited(now) {
            let Some((namespace, owner, mut queued)) = self.line.pop(now.since_start()) else {
                break;
            };
            let made = match &mut queued.waiting {
                _ if queued.term != self.term => Made::Nothing,
                WaitingCall::Write(write) => make(write),
                WaitingCall::Call(call) => Made::Call(call.0.clone()),
                WaitingCall::Gone => Made::Nothing,
            };
            let waits = matches!(made, Made::Wait);
            let Made::Call(named) = made else {
                self.line
                    .done(&namespace, &owner, WriteAnswer::Other, now.since_start());
                match queued.waiting {
                    WaitingCall::Write(write) => {
                        self.metrics.writes_pending.dec();
                        let write = Box::new(write);
                        unsent.push(match waits {
                            true => Unsent::Waits(write, queued.term),
                            false => Unsent::Write(write),
                        });
                    }
                    WaitingCall::Call(call) => unsent.push(Unsent::Call(call.1)),
                    WaitingCall::Gone => {}
                }
                continue;
            };
            self.limiter.spend();
            let placed = Placed {
                namespace,
                owner,
                queued,
                sent: now,
                verb: named.verb,
                resource: named.resource,
                expected: named.expected,
                answer: WriteAnswer::Other,
            };
            let id = self.begin(CallUnderWay::Placed(Box::new(placed)));
            return Some(request(id, named.call));
        }
        self.poll_event(now)
    }

    /// Returns the next follow-up request, or Event if allowed; sends no other queued request.
    pub(super) fn poll_rest(&mut self, events_may_go: bool, now: Monotonic) -> Option<Request> {
        if let Some((id, call)) = self.going_on.pop() {
            return Some(request(id, call));
        }
        events_may_go.then(|| self.poll_event(now)).flatten()
    }

    fn poll_event(&mut self, now: Monotonic) -> Option<Request> {
        if !self.events.has_something() || self.is_limited(now) {
            return None;
        }
        let (sending, named) = self.events.poll()?;
        self.limiter.spend();
        let id = self.begin(CallUnderWay::Event(
            Box::new(sending),
            named.verb,
            named.expected,
        ));
        Some(request(id, named.call))
    }

    fn is_limited(&mut self, now: Monotonic) -> bool {
        self.limited_until = self.limiter.due_at(now);
        self.limited_until.is_some()
    }

    fn begin(&mut self, under_way: CallUnderWay) -> CallId {
        self.next_id += 1;
        self.under_way.insert(self.next_id, under_way);
        self.next_id
    }

    /// Handles a response. Returns its caller, unless the request is retried. A success response without the expected
    /// object is treated as no response: the write may or may not have been applied.
    pub(super) fn answered(
        &mut self,
        id: CallId,
        result: CallResult,
        now: Monotonic,
    ) -> Option<Answered> {
        let mut placed = match self.under_way.remove(&id)? {
            CallUnderWay::Placed(placed) => placed,
            CallUnderWay::Event(sending, verb, expected) => {
                let result = checked(&expected, result);
                self.metrics.call(verb, "events", code_of(&result));
                if let Some(late) = self.events.answered(*sending, &result, now) {
                    self.metrics.event_delay.observe(late.as_secs_f64());
                }
                return None;
            }
        };
        let result = checked(&placed.expected, result);
        self.metrics
            .call(placed.verb, placed.resource, code_of(&result));
        if let Err(error) = &result {
            let what = (placed.verb, placed.resource);
            self.journal.refused(what, &placed.namespace, error, now);
        }
        let took = now.since(placed.sent);
        self.took = (self.took * 7 + took) / 8;
        if result.is_ok() {
            // Webhooks may delay creations; patches of Pods all take the same path.
            let is_alike = (placed.verb, placed.resource) == ("patch", "pods");
            let sent = placed.sent.since_start();
            self.line.took(sent, is_alike, now.since_start());
        }
        placed.answer = match &result {
            Ok(_) => WriteAnswer::Taken,
            Err(error) if error.kind == ErrorKind::Busy => {
                let pause = self.busy_pause.max(error.retry_after.unwrap_or_default());
                let sent = placed.sent.since_start();
                WriteAnswer::Busy { sent, pause }
            }
            Err(error) => error
                .retry_after
                .map_or(WriteAnswer::Other, WriteAnswer::Denied),
        };
        if matches!(placed.answer, WriteAnswer::Busy { .. })
            && placed.queued.refusals < ASKED_AGAIN
            && !self.closed
        {
            self.put_back(*placed, now);
            return None;
        }
        match std::mem::replace(&mut placed.queued.waiting, WaitingCall::Gone) {
            WaitingCall::Write(write) => {
                Some(Answered::Write(Box::new(write), Place(placed), result))
            }
            WaitingCall::Call(call) => {
                self.leave(&placed, now);
                Some(Answered::Call(call.1, result))
            }
            WaitingCall::Gone => None,
        }
    }

    /// Sends a follow-up request of a write, with the same permit.
    pub(super) fn go_on(&mut self, write: Write, place: Place, named: Named, now: Monotonic) {
        let mut placed = *place.0;
        placed.queued.waiting = WaitingCall::Write(write);
        (placed.verb, placed.resource) = (named.verb, named.resource);
        placed.expected = named.expected;
        placed.sent = now;
        let id = self.begin(CallUnderWay::Placed(Box::new(placed)));
        self.going_on.push((id, named.call));
    }

    /// Returns true if the write with this permit is of the current term, and the outbox is open.
    pub(super) fn is_of_this_term(&self, place: &Place) -> bool {
        !self.closed && place.0.queued.term == self.term
    }

    /// Ends a write and returns its permit.
    pub(super) fn over(&mut self, place: Place, now: Monotonic) {
        self.metrics.writes_pending.dec();
        self.leave(&place.0, now);
    }

    fn leave(&mut self, placed: &Placed, now: Monotonic) {
        let now = now.since_start();
        self.line
            .done(&placed.namespace, &placed.owner, placed.answer, now);
    }

    /// Puts a request back before its permit is returned. Otherwise another of the Job's writes would get the permit.
    fn put_back(&mut self, mut placed: Placed, now: Monotonic) {
        placed.queued.refusals += 1;
        let (namespace, owner) = (&placed.namespace, &placed.owner);
        self.line.put_back(namespace, owner, placed.queued);
        self.line
            .done(namespace, owner, placed.answer, now.since_start());
    }

    /// Returns when a request that only waits for time to pass may be sent.
    pub(super) fn poll_timeout(&self, now: Monotonic) -> Timeout {
        let busy = self.line.next_due(now.since_start());
        let busy = busy.map(|due| Monotonic::default() + due);
        let limited = self
            .limited_until
            .filter(|_| !self.line.is_empty() || self.events.has_something());
        Timeout::from(busy).or(limited.into())
    }

    /// Returns true if no request is in flight, Events excluded.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight() == 0
    }

    /// Returns how long responses may be coalesced.
    pub(super) fn coalescing_delay(&self) -> Duration {
        coalescing_delay(
            self.line.in_flight_of_all(),
            self.took,
            self.line.is_congested(),
        )
    }

    /// Returns true if a response may be coalesced with others: its namespace has half a batch in flight. So no tenant
    /// waits for another tenant's responses.
    pub(super) fn gathers(&self, id: CallId) -> bool {
        match self.under_way.get(&id) {
            Some(CallUnderWay::Placed(placed)) => self.line.may_gather(&placed.namespace),
            Some(CallUnderWay::Event(..)) => true,
            None => false,
        }
    }

    /// Drops queued requests: the Jobs repeat them after the controller's restart.
    pub(super) fn close(&mut self, now: Monotonic) {
        self.closed = true;
        self.line.clear(now.since_start());
    }

    /// Returns true if the outbox accepts no more requests.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}

/// Returns the response, or an error if it does not contain the expected object.
fn checked(expected: &ExpectedAnswer, result: CallResult) -> CallResult {
    let body = result?;
    expected.check(&body)?;
    Ok(body)
}

fn request(id: CallId, call: Call) -> Request {
    Request {
        id,
        call,
        is_watch: false,
    }
}
