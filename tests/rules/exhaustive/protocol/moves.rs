//! Lists the possible next steps of a situation.

use lakh::decide::End;

use super::{
    state::{Mode, PODS, Removal, Sight, State, Writing},
    steps::{Rules, Step, Wrong},
};

/// The number of times that each kind of trouble may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) crashes: u8,
    pub(crate) faults: u8,
    pub(crate) deletions: u8,
    /// A Pod is found to be surplus.
    pub(crate) stops: u8,
}

impl Budget {
    /// The budget left after a step, if it allows the step.
    pub(crate) fn after(self, step: Step) -> Option<Self> {
        let mut left = self;
        let kind = match step {
            Step::Crash => &mut left.crashes,
            Step::LoseRemoval(_) | Step::LoseStatus | Step::Edit => &mut left.faults,
            Step::Delete(_) => &mut left.deletions,
            Step::Stop(_) => &mut left.stops,
            _ => return Some(self),
        };
        *kind = kind.checked_sub(1)?;
        Some(left)
    }

    /// Returns true if it allows everything that another one does.
    pub(crate) fn covers(self, other: Self) -> bool {
        other.crashes <= self.crashes
            && other.faults <= self.faults
            && other.deletions <= self.deletions
            && other.stops <= self.stops
    }
}

/// All possible next steps, if any trouble is allowed.
pub(crate) fn next_steps(rules: Rules, state: &State) -> Vec<Step> {
    let mut steps = Vec::with_capacity(24);
    elsewhere(rules, state, &mut steps);
    match state.mode {
        Mode::Starting { .. } => steps.extend(read_next(state)),
        Mode::Running => {
            hear(state, &mut steps);
            let may_go = (0..PODS).filter(|at| state.may_ask_removal(rules, *at));
            steps.extend(may_go.map(Step::AskRemoval));
            let surplus = (0..PODS).filter(|at| state.may_stop(rules, *at));
            steps.extend(surplus.map(Step::Stop));
            // There may always be something to write, such as the number of active Pods.
            steps.extend((state.writing == Writing::None).then_some(Step::AskStatus));
        }
        Mode::Outdated => {
            hear(state, &mut steps);
            steps.extend((!state.is_removing()).then_some(Step::Renew));
        }
    }
    steps
}

/// Steps of the server, kubelets and users.
fn elsewhere(rules: Rules, state: &State, steps: &mut Vec<Step>) {
    steps.extend([Step::Crash, Step::Edit]);
    let made = state.pods.iter().filter(|pod| pod.now != Sight::NEVER);
    if made.count() < rules.pods {
        let next = state.pods.iter().position(|pod| pod.now == Sight::NEVER);
        steps.extend(next.map(Step::Make));
    }
    for (at, pod) in state.pods.iter().enumerate() {
        if pod.now.lives() {
            steps.extend([End::Success, End::Failure].map(|end| Step::Exit(at, end)));
        }
        if pod.now.has_finalizer() && !pod.now.is_deleting() {
            steps.push(Step::Delete(at));
        }
        let arrives = matches!(pod.removal, Removal::Sent | Removal::SentIfUnchanged);
        steps.extend(arrives.then_some(Step::Remove(at)));
        steps.extend(pod.stray_removal.then_some(Step::RemoveStray(at)));
        let stray = pod.stray_if_unchanged;
        steps.extend(stray.then_some(Step::RemoveStrayIfUnchanged(at)));
    }
    steps.extend((state.writing == Writing::Sent).then_some(Step::Write));
    steps.extend((0..state.strays).map(Step::WriteStray));
}

/// The reads that a starting controller has yet to do.
fn read_next(state: &State) -> impl Iterator<Item = Step> + use<> {
    let (pods, job) = match state.mode {
        Mode::Starting { pods, job } => (!pods, !job),
        Mode::Running | Mode::Outdated => (false, false),
    };
    let pods = pods.then_some(Step::ReadPods);
    pods.into_iter().chain(job.then_some(Step::ReadJob))
}

/// The inputs that the controller may receive. Job events come only while no status write is in flight, since an event
/// may be that status.
fn hear(state: &State, steps: &mut Vec<Step>) {
    match state.writing {
        Writing::None => steps.extend((1..=state.versions).map(Step::HearJob)),
        Writing::Sent => steps.push(Step::LoseStatus),
        Writing::Outdated => steps.push(Step::HearWritten),
        Writing::Done => steps.extend([Step::HearWritten, Step::LoseStatus]),
    }
    for (at, pod) in state.pods.iter().enumerate() {
        match pod.removal {
            Removal::None => {}
            Removal::Sent | Removal::SentIfUnchanged => steps.push(Step::LoseRemoval(at)),
            Removal::Outdated => steps.push(Step::HearChanged(at)),
            Removal::Done | Removal::NotFound => {
                steps.extend([Step::HearRemoved(at), Step::LoseRemoval(at)]);
            }
        }
        steps.extend((1..=pod.news().len()).map(|count| Step::HearPod(at, count)));
    }
}

/// Returns true if a status would change something about Pods.
fn has_status_to_write(state: &State, rules: Rules) -> bool {
    let mut pods = 0..PODS;
    state.writing == Writing::None && pods.any(|at| !state.next_change(rules, at).is_none())
}

/// Follows the course without further trouble, in which all components take turns. It must come to less work on the
/// server, or to its end with all Pods counted.
pub(crate) fn goes_on(rules: Rules, state: &State) -> Result<(), (Vec<Step>, Wrong)> {
    /// More than the number of steps for all pending inputs, requests, writes and responses.
    const ENOUGH: usize = 60;
    let mut state = *state;
    let mut way = Vec::new();
    let left = state.left();
    for _ in 0..ENOUGH {
        let Some(step) = next_by_itself(&state, rules) else {
            return match state.is_over() {
                true => Ok(()),
                false => Err((way, "nothing goes on, and not all is counted and freed")),
            };
        };
        way.push(step);
        if let Err(wrong) = state.take(rules, step) {
            return Err((way, wrong));
        }
        if state.left() < left {
            return Ok(());
        }
    }
    Err((way, "it goes on and on"))
}

fn next_by_itself(state: &State, rules: Rules) -> Option<Step> {
    if let Some(step) = read_next(state).next() {
        return Some(step);
    }
    for (at, pod) in state.pods.iter().enumerate() {
        match pod.removal {
            Removal::None => {}
            Removal::Sent | Removal::SentIfUnchanged => return Some(Step::Remove(at)),
            Removal::Outdated => return Some(Step::HearChanged(at)),
            Removal::Done | Removal::NotFound => return Some(Step::HearRemoved(at)),
        }
    }
    match state.writing {
        Writing::Sent => return Some(Step::Write),
        Writing::Done | Writing::Outdated => return Some(Step::HearWritten),
        Writing::None => {}
    }
    if let Some(at) = state.pods.iter().position(|pod| !pod.news().is_empty()) {
        return Some(Step::HearPod(at, 1));
    }
    if state.versions > 0 {
        return Some(Step::HearJob(1));
    }
    if state.mode == Mode::Outdated {
        return Some(Step::Renew);
    }
    if let Some(at) = (0..PODS).find(|at| state.may_ask_removal(rules, *at)) {
        return Some(Step::AskRemoval(at));
    }
    if has_status_to_write(state, rules) {
        return Some(Step::AskStatus);
    }
    let lives = state.pods.iter().position(|pod| pod.now.lives());
    lives.map(|at| Step::Exit(at, End::Success))
}
