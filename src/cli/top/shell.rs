//! The loop around the model: it hands in keys and news, starts what is to be fed and looked at, and draws.
//!
//! It draws at most four times a second, after a key at once, and only if something has changed. Must not: know what is
//! drawn, or decide when something is looked at.

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

use crate::{
    cli::{OK, Problem, UNUSABLE, ask::Asker, complain, finish::Requests},
    clock::{Clock, instant},
    model::{Monotonic, Now},
    wire::paths,
};

use super::{
    feed::Feeder,
    model::{TopInput, TopModel},
    page_look::look_at,
    terminal::{TopScreen, listen},
};

/// How often news are drawn at most.
const DRAW_EVERY: Duration = Duration::from_millis(250);

/// News that may wait; who has more to tell waits himself.
const WAITING: usize = 1_024;

/// News that are taken in before something else gets its turn.
const AT_ONCE: usize = 256;

/// Shows the Jobs until somebody quits or a signal comes; gives the exit code.
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

/// Takes in what came, and what came after it; whether somebody waits for the answer to a key.
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
            return Err(format!("the terminal cannot be read: {error}").into());
        }
        model.handle(input, clock.now());
    }
    Ok(is_hurried)
}

/// Draws what has changed, if it is time; gives how long nothing has to be drawn then.
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

/// Signals that end it: those of every command, and that the terminal hangs up.
async fn asked_to_end(requests: &mut Requests, hangup: &mut Signal) {
    tokio::select! {
        () = requests.asked_to_end() => {}
        _ = hangup.recv() => {}
    }
}

/// What is under way.
struct Work {
    asker: Rc<Asker>,
    listener: Sender<TopInput>,
    tasks: JoinSet<()>,
    /// The feed of Jobs, and its number.
    jobs: Option<(u64, AbortHandle)>,
    /// What the page with this number has under way.
    events: Option<(u64, Vec<AbortHandle>)>,
}

impl Work {
    /// Starts what the model wants, and ends what it does not want any more.
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
            // Who has left does not want to know.
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
