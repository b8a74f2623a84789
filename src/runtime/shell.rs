//! Runs the loop around a machine: waits for the next input, passes it to the machine, and carries out its requests.
//!
//! All inputs that have arrived are handled before the machine is polled for requests, so that one turn handles several
//! answers. Calls with answers that may be batched use sockets that wake the loop less often ([`CoalescedIo`]). All
//! other inputs wake it as they arrive: other answers, messages, timers, the stop signal.
//!
//! Must not: decide anything, or know the purpose of calls.

use std::{
    pin::{Pin, pin},
    time::Duration,
};

use futures::{
    FutureExt as _, Stream, StreamExt as _,
    future::AbortHandle,
    stream::{self, FuturesUnordered, SelectAll},
};
use hashbrown::HashMap;
use http::Method;
use tokio::{sync::watch, task::yield_now, time::timeout};

use crate::{
    client::{Client, CoalescedIo, Watch},
    clock::Clock,
    controller::{Message, Part, is_candidates},
    machine::{CallId, Input, Request},
    wire::Call,
};

use super::{
    desk::{Inquiries, Inquiry},
    threads::{Channels, Inbox},
    write_deadline::WriteDeadline,
};

/// Timeout for writes in flight when the controller stops.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// Timeout for Events then: they are worth a moment, not more.
const EVENTS_PATIENCE: Duration = Duration::from_millis(500);

/// Answers and streams that are awaited.
#[derive(Default)]
struct Waited {
    answers: FuturesUnordered<Pin<Box<dyn Future<Output = Input> + Send>>>,
    streams: SelectAll<Pin<Box<dyn Stream<Item = Input> + Send>>>,
}

impl Waited {
    /// Waits for the next input; returns none if nothing is awaited.
    async fn next(&mut self) -> Option<Input> {
        tokio::select! {
            biased;
            Some(input) = self.answers.next() => Some(input),
            Some(input) = self.streams.next() => Some(input),
            else => None,
        }
    }

    /// Returns the next event of a stream, if one has arrived.
    fn ready_news(&mut self) -> Option<Input> {
        self.streams.next().now_or_never().flatten()
    }

    /// Returns an answer that has arrived. Polling also sends the calls.
    fn ready_answer(&mut self) -> Option<Input> {
        self.answers.next().now_or_never().flatten()
    }

    fn len(&self) -> usize {
        self.answers.len() + self.streams.len()
    }
}

/// Resources of a loop.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) client: Client,
    pub(super) clock: Clock,
    /// The stop signal.
    pub(super) stop: watch::Receiver<bool>,
    /// Kinds that were never listed in full.
    pub(super) missing: watch::Sender<Option<Vec<&'static str>>>,
    /// Channels to the other loops.
    pub(super) channels: Channels,
    pub(super) io: CoalescedIo,
    /// Write deadline of each shard.
    pub(super) write_deadlines: Vec<WriteDeadline>,
    /// Questions about Jobs.
    pub(super) inquiries: Inquiries,
}

/// Runs one machine with its resources. [`run`](Self::run) returns once the controller stops, or if answers can no
/// longer be received.
pub(super) struct Shell<M> {
    machine: M,
    tools: Tools,
    inbox: Inbox,
    /// Client of the same server on sockets with batched wakeups.
    coalesced: Client,
    waited: Waited,
    /// Handles that close abandoned streams.
    handles: HashMap<CallId, AbortHandle>,
}

impl<M: Part> Shell<M> {
    pub(super) fn new(machine: M, tools: Tools, inbox: Inbox) -> Self {
        let sockets = tools.io.sockets().clone();
        Self {
            machine,
            coalesced: tools.client.with_own_connections(Some(sockets)),
            tools,
            inbox,
            waited: Waited::default(),
            handles: HashMap::new(),
        }
    }

    /// Runs until the stop signal.
    pub(super) async fn run(mut self) {
        let mut stop = self.tools.stop.clone();
        let mut stopped = pin!(stop.wait_for(|stop| *stop));
        loop {
            self.carry_out();
            self.tell_missing();
            let now = self.tools.clock.now();
            let due = self.machine.poll_timeout();
            let is_due = due.left(now) == Some(Duration::ZERO);
            // Polling also sends the requests.
            if self.take_in_ready() || is_due {
                yield_now().await;
                match (*self.tools.stop.borrow(), self.tools.stop.has_changed()) {
                    (true, _) => break,
                    (false, Ok(_)) => continue,
                    (false, Err(_)) => return,
                }
            }
            tokio::select! {
                biased;
                asked = &mut stopped => match asked {
                    Ok(_) => break,
                    // The controller was dropped.
                    Err(_) => return,
                },
                Some(input) = self.waited.next() => self.take_in(input),
                Some(message) = self.inbox.recv() => self.receive(message),
                Some(inquiry) = self.tools.inquiries.recv() => self.tell(inquiry),
                () = self.tools.clock.sleep_until(due) => {}
                error = self.tools.io.broken() => {
                    tracing::error!(%error, "the operating system no longer reports readable connections; exiting");
                    return;
                }
            }
            self.take_in_ready();
            yield_now().await;
        }
        self.finish().await;
    }

    /// Sends the machine's requests.
    fn carry_out(&mut self) {
        let now = self.tools.clock.now();
        loop {
            let request = self.machine.poll_request(now);
            self.tell_mandates();
            let Some(Request { id, call, is_watch }) = request else {
                break;
            };
            let client = match self.machine.gathers(id) {
                true => self.coalesced.clone(),
                false => self.tools.client.clone(),
            };
            if is_watch {
                let (stream, handle) = stream::abortable(stream_of(client, id, call));
                self.handles.insert(id, handle);
                self.waited.streams.push(stream.boxed());
            } else if call.method != Method::GET && !is_candidates(id) {
                let write_deadline =
                    self.tools.write_deadlines[self.machine.shard_of_call(id)].clone();
                let clock = self.tools.clock.clone();
                let answer = async move {
                    let sent = write_deadline.bound(clock, client.send(&call));
                    Input::Answer(id, sent.await)
                };
                self.waited.answers.push(answer.boxed());
            } else {
                let answer = async move { Input::Answer(id, client.send(&call).await) };
                self.waited.answers.push(answer.boxed());
            }
        }
        self.tools.io.set_delay(self.machine.coalescing_delay());
        self.pass_on();
        while let Some(abandoned) = self.machine.poll_abandoned() {
            if let Some(handle) = self.handles.remove(&abandoned) {
                handle.abort();
            }
        }
    }

    fn take_in(&mut self, input: Input) {
        if let Input::Ended(id, _) = &input {
            self.handles.remove(id);
        }
        let now = self.tools.clock.now();
        self.machine.handle(input, now);
        self.pass_on();
    }

    fn receive(&mut self, message: Message) {
        let now = self.tools.clock.now();
        self.machine.receive(message, now);
        self.pass_on();
    }

    /// Sends the machine's messages to the other loops.
    fn pass_on(&mut self) {
        while let Some((recipient, message)) = self.machine.poll_message() {
            self.tools.channels.send(recipient, message);
        }
    }

    /// Handles the inputs that have arrived, without waiting; returns true if there were any. Each source yields at
    /// most as many as are awaited of it, so that the machine is polled and the thread is shared. Streams come first:
    /// new Jobs and ended Pods do not wait behind answers.
    fn take_in_ready(&mut self) -> bool {
        let mut taken = false;
        for _ in 0..self.waited.len() {
            let Some(input) = self.waited.ready_news() else {
                break;
            };
            self.take_in(input);
            taken = true;
        }
        for _ in 0..self.waited.len() {
            let Some(input) = self.waited.ready_answer() else {
                break;
            };
            self.take_in(input);
            taken = true;
        }
        for _ in 0..self.inbox.len() {
            let Ok(message) = self.inbox.try_recv() else {
                break;
            };
            self.receive(message);
            taken = true;
        }
        // A loop that always has work answers questions, too; they do not add to its work.
        while let Ok(inquiry) = self.tools.inquiries.try_recv() {
            self.tell(inquiry);
        }
        taken
    }

    /// Answers a question.
    fn tell(&self, inquiry: Inquiry) {
        let now = self.tools.clock.now();
        inquiry.answer(|question| self.machine.answer_question(question, now));
    }

    /// Sets the write deadlines of shards, if this machine knows them.
    fn tell_mandates(&self) {
        for (shard, write_deadline) in self.tools.write_deadlines.iter().enumerate() {
            if let Some(until) = self.machine.leads_until(shard) {
                write_deadline.set(until);
            }
        }
    }

    fn tell_missing(&self) {
        let is_done = |told: &Option<Vec<_>>| told.as_ref().is_some_and(Vec::is_empty);
        if is_done(&self.tools.missing.borrow()) {
            return;
        }
        if let Some(missing) = self.machine.missing() {
            self.tools.missing.send_if_modified(|told| {
                let is_news = told.as_ref() != Some(&missing);
                *told = Some(missing);
                is_news
            });
        }
    }

    /// Waits for writes in flight and for queued Events, up to their timeouts.
    async fn finish(mut self) {
        self.waited.streams.clear();
        let now = self.tools.clock.now();
        self.machine.close(now);
        let idle = self.answer_until(|machine| machine.is_idle());
        if timeout(STOP_PATIENCE, idle).await.is_err() {
            tracing::warn!("writes in flight were abandoned at shutdown");
        }
        let told = self.answer_until(|machine| !machine.has_events());
        let _ = timeout(EVENTS_PATIENCE, told).await;
    }

    async fn answer_until(&mut self, is_over: impl Fn(&M) -> bool) {
        loop {
            self.carry_out();
            if is_over(&self.machine) {
                return;
            }
            let due = self.machine.poll_timeout();
            tokio::select! {
                Some(input) = self.waited.next() => self.take_in(input),
                () = self.tools.clock.sleep_until(due) => yield_now().await,
            }
        }
    }
}

/// Makes a call and streams its answer.
fn stream_of(client: Client, id: CallId, call: Call) -> impl Stream<Item = Input> + Send {
    let opened = stream::once(async move { client.open(&call).await });
    opened.flat_map(move |opened| match opened {
        Err(error) => stream::iter([Input::Ended(id, Some(error))]).left_stream(),
        Ok(Watch { encoding, pieces }) => {
            let begins = stream::iter([Input::Opened(id, encoding)]);
            let pieces = pieces.map(move |piece| match piece {
                Ok(piece) => Input::Piece(id, piece),
                Err(error) => Input::Ended(id, Some(error)),
            });
            let ends = stream::iter([Input::Ended(id, None)]);
            begins.chain(pieces).chain(ends).right_stream()
        }
    })
}
