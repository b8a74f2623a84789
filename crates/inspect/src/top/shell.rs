//! Runs the loop around the model: passes keys and messages to it, starts its feeds and reads, and draws.
//!
//! It draws at most four times a second, after a key at once, and only after a change. Must not: know the content of
//! the screen, or decide when to read.

use std::{
    iter,
    panic::resume_unwind,
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc::{Receiver, Sender, channel},
    task::{AbortHandle, JoinSet},
    time::sleep,
};

use lakh_clock::{Clock, instant};
use lakh_model::{Monotonic, Now};
use lakh_wire::paths;

use crate::{OK, Problem, UNUSABLE, ask::Asker, complain, finish::Requests};

use super::{
    feed::Feeder,
    model::{TopInput, TopModel},
    page_look::look_at,
    terminal::{TopScreen, listen},
};

/// Minimum time between drawings without a key.
const DRAW_EVERY: Duration = Duration::from_millis(250);

/// Capacity of the channel of messages; a sender waits while it is full.
const WAITING: usize = 1_024;

/// Maximum number of messages handled before other work.
const AT_ONCE: usize = 256;

/// Shows the Jobs until the user quits or a signal arrives; returns the exit code.
pub(super) async fn run(
    asker: Asker,
    mut model: TopModel,
    mut screen: TopScreen,
    clock: Clock,
    mut requests: Requests,
) -> Result<u8, Problem> {
    let (listener, mut inputs) = channel(WAITING);
    model.size = screen.size()?;
    listen(listener.clone());
    let mut work = Work {
        asker: Rc::new(asker),
        listener,
        tasks: JoinSet::new(),
        jobs: None,
        events: None,
    };
    let mut hangup = signal(SignalKind::hangup())?;
    let mut drawn = None;
    let mut is_hurried = true;
    while !model.is_over() {
        work.start(&mut model, clock.now());
        let pause = draw_if_due(&mut model, &mut screen, &mut drawn, is_hurried, &clock)?;
        is_hurried = false;
        let next_look = model
            .next_look()
            .map(|(at, ..)| at.since(clock.now().monotonic));
        let nap = next_look.map_or(pause, |look| look.min(pause));
        tokio::select! {
            () = asked_to_end(&mut requests, &mut hangup) => {
                drop(screen);
                complain("interrupted");
                return Ok(UNUSABLE);
            }
            Some(input) = inputs.recv() => {
                is_hurried = take_in(&mut model, input, &mut inputs, &clock)?;
            }
            Some(ended) = work.tasks.join_next() => {
                if let Err(error) = ended && error.is_panic() {
                    resume_unwind(error.into_panic());
                }
            }
            () = sleep(nap) => {}
        }
    }
    Ok(OK)
}

/// Handles an input and those behind it; returns true if the user waits for the effect of a key.
fn take_in(
    model: &mut TopModel,
    first: TopInput,
    inputs: &mut Receiver<TopInput>,
    clock: &Clock,
) -> Result<bool, Problem> {
    let mut is_hurried = false;
    let more = iter::from_fn(|| inputs.try_recv().ok());
    for input in iter::once(first).chain(more).take(AT_ONCE) {
        is_hurried |= matches!(input, TopInput::Key(_) | TopInput::Resized(..));
        if let TopInput::TerminalGone(error) = input {
            return Err(format!("could not read from the terminal: {error}").into());
        }
        model.handle(input, clock.now());
    }
    Ok(is_hurried)
}

/// Draws if there is a change and its time has come; returns the time until the next drawing.
fn draw_if_due(
    model: &mut TopModel,
    screen: &mut TopScreen,
    drawn: &mut Option<Instant>,
    is_hurried: bool,
    clock: &Clock,
) -> Result<Duration, Problem> {
    let since = drawn.map_or(Duration::MAX, |at| at.elapsed());
    let pause = match model.is_changed() {
        true if is_hurried => Duration::ZERO,
        true => DRAW_EVERY.saturating_sub(since),
        false => model.tick().saturating_sub(since),
    };
    if !pause.is_zero() {
        return Ok(pause);
    }
    model.prepare(clock.now());
    if model.take_spoilt() {
        screen.forget()?;
    }
    screen.draw(model)?;
    *drawn = Some(instant());
    Ok(model.tick())
}

/// Waits for a signal to stop: those of every command, or a hangup of the terminal.
async fn asked_to_end(requests: &mut Requests, hangup: &mut Signal) {
    tokio::select! {
        () = requests.asked_to_end() => {}
        _ = hangup.recv() => {}
    }
}

/// The tasks that run.
struct Work {
    asker: Rc<Asker>,
    listener: Sender<TopInput>,
    tasks: JoinSet<()>,
    /// The feed of Jobs, and its number.
    jobs: Option<(u64, AbortHandle)>,
    /// The tasks of the page with this number.
    events: Option<(u64, Vec<AbortHandle>)>,
}

impl Work {
    /// Starts the feeds and reads that the model wants, and aborts those that it no longer wants.
    fn start(&mut self, model: &mut TopModel, now: Now) {
        let number = model.feeds;
        if self.jobs.as_ref().is_none_or(|(fed, _)| *fed != number) {
            if let Some((_, before)) = self.jobs.take() {
                before.abort();
            }
            let path = paths::jobs(model.namespace());
            let (asker, listener) = (Rc::clone(&self.asker), self.listener.clone());
            let tell = move |news| TopInput::Jobs(number, news);
            let task = self
                .tasks
                .spawn_local(Feeder::new(asker, path, listener, tell).run());
            self.jobs = Some((number, task));
        }
        let page = model.page.as_ref();
        let number = page.map(|page| page.number);
        if self.events.as_ref().map(|(fed, _)| *fed) != number {
            for before in self.events.take().into_iter().flat_map(|(_, tasks)| tasks) {
                before.abort();
            }
            if let Some(page) = page {
                let number = page.number;
                let events = paths::events(&page.key.namespace);
                let path = format!("{events}?fieldSelector=involvedObject.uid%3D{}", page.uid);
                let (asker, listener) = (Rc::clone(&self.asker), self.listener.clone());
                let tell = move |news| TopInput::Events(number, news);
                let task = self
                    .tasks
                    .spawn_local(Feeder::new(asker, path, listener, tell).run());
                self.events = Some((number, vec![task]));
            }
        }
        self.look(model, now.monotonic);
    }

    fn look(&mut self, model: &mut TopModel, now: Monotonic) {
        let Some((at, number, key, depth)) = model.next_look() else {
            return;
        };
        if at > now {
            return;
        }
        model.begin_look();
        let (asker, listener) = (Rc::clone(&self.asker), self.listener.clone());
        let task = self.tasks.spawn_local(async move {
            let (seen, took) = look_at(&asker, &key, depth).await;
            // The loop may have ended.
            let _ = listener
                .send(TopInput::Looked(number, Box::new(seen), took))
                .await;
        });
        if let Some((_, tasks)) = &mut self.events {
            tasks.retain(|task| !task.is_finished());
            tasks.push(task);
        }
    }
}
