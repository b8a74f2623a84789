//! All calls of a shard: those that wait for their turn, and those that are under way.
//!
//! A Job's writes and the calls of everybody else wait in one fair queue, which decides as late as it can. A call
//! that a busy server did not take is put back, a few times; any other answer is for whoever asked. Events
//! wait in queues of their own.
//!
//! Must not: know what becomes of an answer.

use std::{sync::Arc, time::Duration};

use compact_str::CompactString;
use hashbrown::HashMap;

use crate::{
    flow::{FairQueue, Rank, WriteAnswer, coalescing_delay},
    machine::{CallId, CallResult, Request, code_of},
    metrics::Metrics,
    model::{JobId, JobKey, Monotonic, Timeout, Uid},
    rate_limiter::{Allowance, Limiter},
    wire::{Call, ErrorKind, ExpectedAnswer, paths},
};

use super::{
    events::{Recorder, Sending},
    journal::Journal,
    rounds::Chore,
    store::ActorKey,
    writes::Write,
};

/// So many times in a row a busy server is asked again; then it is a failure that people are told of. Half of
/// client-go's `maxRetries`, which holds up one worker meanwhile, and this all else of the Job.
const ASKED_AGAIN: u32 = 5;

/// A call, as metrics tell of it.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) verb: &'static str,
    pub(super) resource: &'static str,
    pub(super) call: Call,
    /// Any other success answer counts as none.
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

    /// GET of a Job.
    pub(super) fn get_job(JobKey { namespace, name }: &JobKey) -> Self {
        let expected = ExpectedAnswer::Named(name.as_str().into());
        Self::new(
            "get",
            "jobs",
            Call::get(paths::job(namespace, name)),
            expected,
        )
    }

    /// GET of a Pod.
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

/// Who asked for a call, besides Jobs for their writes.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    /// The claims on Pods.
    Chore(Chore),
    /// A CronJob's sync.
    CronJob(JobKey),
    /// A finished Job that may be deleted.
    Ttl(Arc<JobId>),
    /// A Job that only its Pods tell of.
    Unseen(ActorKey),
    /// A Job whose Pods' watch lags behind its status.
    JobPods(ActorKey),
    /// A Job of which this version is doubted.
    Comparison(ActorKey, u64),
}

/// What waits for its turn.
#[derive(Debug)]
enum WaitingCall {
    /// A Job's write.
    Write(Write),
    /// Any other call.
    Call(Box<(Named, Caller)>),
    /// Who asked has the answer.
    Gone,
}

#[derive(Debug)]
struct Queued {
    waiting: WaitingCall,
    /// How many times a busy server did not take it.
    refusals: u32,
    /// In which term it was asked for.
    term: u64,
}

/// A call that has its place.
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

/// What an answer belongs to.
#[derive(Debug)]
pub(super) enum Answered {
    /// A write of a Job, with the place that it keeps until it is [`Outbox::over`] or goes on.
    Write(Box<Write>, Place, CallResult),
    /// Another call.
    Call(Caller, CallResult),
}

/// The result of a write's turn.
#[derive(Debug)]
pub(super) enum Made {
    /// This call.
    Call(Named),
    /// It waits until another write has read the template.
    Wait,
    /// It is over.
    Nothing,
}

/// What was not sent, and never will be.
#[derive(Debug)]
pub(super) enum Unsent {
    /// A write of a Job.
    Write(Box<Write>),
    /// A write of a Job that waits for the Job's template: it is to be pushed again, as of this term.
    Waits(Box<Write>, u64),
    /// Another call.
    Call(Caller),
}

/// The place of a write that may go on with another call.
#[derive(Debug)]
#[must_use = "a place that is not given back is lost"]
pub(super) struct Place(Box<Placed>);

impl Place {
    /// When its last call was sent.
    pub(super) fn sent(&self) -> Monotonic {
        self.0.sent
    }
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Outbox {
    line: FairQueue<CompactString, Uid, Queued>,
    limiter: Allowance,
    /// Until when the limit on calls a second holds everything up.
    limited_until: Option<Monotonic>,
    under_way: HashMap<CallId, CallUnderWay>,
    /// Calls that go at once, as they have their place.
    going_on: Vec<(CallId, Call)>,
    next_id: CallId,
    /// How long answers took of late.
    took: Duration,
    /// How long to wait when a busy server did not say.
    busy_pause: Duration,
    /// How often it was begun anew to write, after another may have written.
    term: u64,
    closed: bool,
    pub(super) events: Recorder,
    pub(super) journal: Journal,
    pub(super) metrics: Arc<Metrics>,
}

impl Outbox {
    /// One in which at most so many calls are under way at once, but for Events.
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

    /// Has a Job's write wait for its turn.
    pub(super) fn push(&mut self, job: &JobId, rank: Rank, write: Write) {
        self.push_of_term(self.term, job, rank, write);
    }

    /// The same of a write that was asked for in this term.
    pub(super) fn push_of_term(&mut self, term: u64, job: &JobId, rank: Rank, write: Write) {
        if !self.closed {
            let from = (&job.key.namespace, job.uid);
            self.wait(from, rank, WaitingCall::Write(write), term);
            self.metrics.writes_pending.inc();
        }
    }

    /// Has a call about an object in a namespace that has this UID, or whose owner has, wait for its turn.
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

    /// Others, who share the places, have so many calls under way.
    pub(super) fn set_in_flight_elsewhere(&mut self, in_flight: usize) {
        self.line.set_in_flight_elsewhere(in_flight);
    }

    /// How many calls are under way, but for Events.
    pub(super) fn in_flight(&self) -> usize {
        self.line.in_flight()
    }

    /// Another may have written meanwhile: what waits was asked for by what is not known any more.
    pub(super) fn begin_term(&mut self) {
        self.term += 1;
    }

    /// Gives the next call that may go. `make` makes the call of a Job's write; where it makes none, the
    /// write goes to `unsent`, as do writes of another term.
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

    /// Gives the next call of what is under way already, and Events if they may go: nothing else begins.
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

    /// Takes in an answer; gives it to whoever asked, unless the call is made again. A success answer that does not show
    /// the object that was meant counts as none: the write may or may not have been done.
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
            // Webhooks look at what is created, and take their time for it; this is the same for all.
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

    /// A write goes on with another call, in its place.
    pub(super) fn go_on(&mut self, write: Write, place: Place, named: Named, now: Monotonic) {
        let mut placed = *place.0;
        placed.queued.waiting = WaitingCall::Write(write);
        (placed.verb, placed.resource) = (named.verb, named.resource);
        placed.expected = named.expected;
        placed.sent = now;
        let id = self.begin(CallUnderWay::Placed(Box::new(placed)));
        self.going_on.push((id, named.call));
    }

    /// Returns whether a write with this place is of the current term, and the outbox is open.
    pub(super) fn is_of_this_term(&self, place: &Place) -> bool {
        !self.closed && place.0.queued.term == self.term
    }

    /// A write is over, and its place is free.
    pub(super) fn over(&mut self, place: Place, now: Monotonic) {
        self.metrics.writes_pending.dec();
        self.leave(&place.0, now);
    }

    fn leave(&mut self, placed: &Placed, now: Monotonic) {
        let now = now.since_start();
        self.line
            .done(&placed.namespace, &placed.owner, placed.answer, now);
    }

    /// Before the place is free, or another of the Job's writes would have it.
    fn put_back(&mut self, mut placed: Placed, now: Monotonic) {
        placed.queued.refusals += 1;
        let (namespace, owner) = (&placed.namespace, &placed.owner);
        self.line.put_back(namespace, owner, placed.queued);
        self.line
            .done(namespace, owner, placed.answer, now.since_start());
    }

    /// When a call may go that waits for no more than for time to pass.
    pub(super) fn poll_timeout(&self, now: Monotonic) -> Timeout {
        let busy = self.line.next_due(now.since_start());
        let busy = busy.map(|due| Monotonic::default() + due);
        let limited = self
            .limited_until
            .filter(|_| !self.line.is_empty() || self.events.has_something());
        Timeout::from(busy).or(limited.into())
    }

    /// Whether no call is under way, but for Events.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight() == 0
    }

    /// How long answers may gather.
    pub(super) fn coalescing_delay(&self) -> Duration {
        coalescing_delay(
            self.line.in_flight_of_all(),
            self.took,
            self.line.is_congested(),
        )
    }

    /// Whether an answer may gather with others: that to a namespace which has half a batch in flight. So no
    /// tenant waits for another's answers.
    pub(super) fn gathers(&self, id: CallId) -> bool {
        match self.under_way.get(&id) {
            Some(CallUnderWay::Placed(placed)) => self.line.may_gather(&placed.namespace),
            Some(CallUnderWay::Event(..)) => true,
            None => false,
        }
    }

    /// Forgets what waits: the Jobs ask again when the controller is back.
    pub(super) fn close(&mut self, now: Monotonic) {
        self.closed = true;
        self.line.clear(now.since_start());
    }

    /// Whether nothing new is asked for any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}

/// The answer, or an error if it does not show the object that was meant.
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
