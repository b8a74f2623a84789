//! The one loop around a machine: it waits for what comes first, lets the machine decide, and carries out.
//!
//! Whatever has come meanwhile is taken in before the machine is asked what to do, so that one turn hears of
//! several answers.
//!
//! Must not: decide anything, or know what calls are for.

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
use tokio::{sync::watch, task::yield_now, time::timeout};

use crate::{
    clock::Clock,
    cluster::{Client, Watch},
    controller::{Message, Part},
    machine::{CallId, Input, Request},
    wire::Call,
};

use super::{
    lull::Lull,
    threads::{Channels, Inbox},
};

/// How long writes under way may take to finish when the controller stops.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// How long Events may take then: they are worth a moment, not more.
const EVENTS_PATIENCE: Duration = Duration::from_millis(500);

/// So many inputs are taken in before the machine is asked what to do, and others have the thread.
const INPUTS_AT_ONCE: usize = 256;

type Answers = FuturesUnordered<Pin<Box<dyn Future<Output = Input> + Send>>>;
type Streams = SelectAll<Pin<Box<dyn Stream<Item = Input> + Send>>>;

/// What a loop is given to work with.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) client: Client,
    pub(super) clock: Clock,
    /// Says how long the loop's thread may rest.
    pub(super) lull: Lull,
    /// Whether to stop.
    pub(super) stop: watch::Receiver<bool>,
    /// Which kinds were never listed in full.
    pub(super) missing: watch::Sender<Option<Vec<&'static str>>>,
    /// To the other loops.
    pub(super) channels: Channels,
}

/// See the module's text.
pub(super) struct Shell<M> {
    machine: M,
    tools: Tools,
    inbox: Inbox,
    answers: Answers,
    streams: Streams,
    /// By which streams are closed that nobody waits for.
    handles: HashMap<CallId, AbortHandle>,
}

impl<M: Part> Shell<M> {
    pub(super) fn new(machine: M, tools: Tools, inbox: Inbox) -> Self {
        Self {
            machine,
            tools,
            inbox,
            answers: FuturesUnordered::new(),
            streams: SelectAll::new(),
            handles: HashMap::new(),
        }
    }

    /// Runs until it is asked to stop.
    pub(super) async fn run(mut self) {
        let mut stop = self.tools.stop.clone();
        let mut stopped = pin!(stop.wait_for(|stop| *stop));
        loop {
            self.carry_out();
            self.tell_missing();
            let now = self.tools.clock.now();
            let due = self.machine.poll_timeout();
            if due.left(now) == Some(Duration::ZERO) {
                self.take_in_ready();
                yield_now().await;
                match (*self.tools.stop.borrow(), self.tools.stop.has_changed()) {
                    (true, _) => break,
                    (false, Ok(_)) => continue,
                    (false, Err(_)) => return,
                }
            }
            self.tools.lull.set(self.machine.rest());
            tokio::select! {
                biased;
                asked = &mut stopped => match asked {
                    Ok(_) => break,
                    // The controller was dropped.
                    Err(_) => return,
                },
                Some(input) = self.answers.next() => self.take_in(input),
                Some(input) = self.streams.next() => self.take_in(input),
                Some(message) = self.inbox.recv() => self.receive(message),
                () = self.tools.clock.sleep_until(due) => {}
            }
            self.take_in_ready();
            yield_now().await;
        }
        self.tools.lull.set(Duration::ZERO);
        self.finish().await;
    }

    /// Sends what the machine asks for.
    fn carry_out(&mut self) {
        let now = self.tools.clock.now();
        while let Some(Request { id, call, is_watch }) = self.machine.poll_request(now) {
            let client = self.tools.client.clone();
            if is_watch {
                let (stream, handle) = stream::abortable(stream_of(client, id, call));
                self.handles.insert(id, handle);
                self.streams.push(stream.boxed());
            } else {
                let answer = async move { Input::Answer(id, client.send(&call).await) };
                self.answers.push(answer.boxed());
            }
        }
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

    /// Sends the other loops what the machine has for them.
    fn pass_on(&mut self) {
        while let Some((recipient, message)) = self.machine.poll_message() {
            self.tools.channels.send(recipient, message);
        }
    }

    /// Takes in what has come, without waiting for more.
    fn take_in_ready(&mut self) {
        for _ in 0..INPUTS_AT_ONCE {
            let answer = self.answers.next().now_or_never().flatten();
            if let Some(input) = answer {
                self.take_in(input);
                continue;
            }
            if let Some(Some(input)) = self.streams.next().now_or_never() {
                self.take_in(input);
                continue;
            }
            let Ok(message) = self.inbox.try_recv() else {
                return;
            };
            self.receive(message);
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

    /// Lets writes under way finish, and Events be told.
    async fn finish(mut self) {
        self.streams.clear();
        let now = self.tools.clock.now();
        self.machine.close(now);
        let idle = self.answer_until(|machine| machine.is_idle());
        if timeout(STOP_PATIENCE, idle).await.is_err() {
            tracing::warn!("writes under way were abandoned");
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
                Some(input) = self.answers.next() => self.take_in(input),
                () = self.tools.clock.sleep_until(due) => yield_now().await,
            }
        }
    }
}

/// A call whose answer comes piece by piece.
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
