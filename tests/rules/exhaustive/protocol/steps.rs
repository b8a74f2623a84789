//! Implements the single steps of the counting protocol: those of the server, kubelets and users, and the controller's
//! inputs and requests. A Pod's stages follow the controller's own table, `Stage::after`.
//!
//! Must not: choose the next step.

use lakh::decide::{End, Input, Shown, Stage};

use super::{
    defect::Defect,
    state::{Change, Count, Mode, NEWS, PODS, Pod, Removal, STRAYS, Sight, State, Writing},
};

/// The kind of a Job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Its successes are named by index.
    pub(crate) indexed: bool,
    /// A Pod that is being deleted has failed (`podReplacementPolicy: TerminatingOrFailed`).
    pub(crate) deleting_has_failed: bool,
    /// Maximum number of Pods.
    pub(crate) pods: usize,
    pub(crate) defect: Option<Defect>,
}

/// One event. Pods are identified by their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Make(usize),
    Exit(usize, End),
    /// The server removes a finalizer, as the controller requested.
    Remove(usize),
    RemoveStray(usize),
    RemoveStrayIfUnchanged(usize),
    /// The server accepts the status, or refuses it because the Job has changed.
    Write,
    WriteStray(usize),

    /// A starting controller lists the Pods.
    ReadPods,
    ReadJob,
    /// The controller receives the response that a finalizer is off.
    HearRemoved(usize),
    /// It receives the response that a finalizer stays because the Pod has changed.
    HearChanged(usize),
    /// It receives this many events of a Pod, and looks at the Pod.
    HearPod(usize, usize),
    /// It receives the outcome of its status write.
    HearWritten,
    /// It receives this many events of the Job.
    HearJob(usize),
    /// A controller with a status that is not the server's starts anew from its cache.
    Renew,
    AskRemoval(usize),
    AskStatus,

    /// There are more Pods than a user wants now: this one goes uncounted.
    Stop(usize),

    /// A user deletes a Pod.
    Delete(usize),
    /// A removal has no response in time.
    LoseRemoval(usize),
    LoseStatus,
    /// A user changes an annotation of the Job.
    Edit,
    Crash,
}

/// A violation.
pub(crate) type Wrong = &'static str;

type Taken = Result<(), Wrong>;

fn demand(holds: bool, wrong: Wrong) -> Taken {
    if holds { Ok(()) } else { Err(wrong) }
}

/// Steps of the server, the kubelets and a user.
impl State {
    /// A Job without any Pods yet, and a controller that knows that.
    pub(crate) fn new() -> Self {
        Self {
            pods: [Pod::new(Sight::NEVER); PODS],
            mode: Mode::Running,
            writing: Writing::None,
            strays: 0,
            versions: 0,
            differs: [false; NEWS],
        }
    }

    pub(crate) fn take(&mut self, rules: Rules, step: Step) -> Taken {
        match step {
            Step::Make(at) => self.change(at, |_| Sight::NEW),
            Step::Exit(at, end) => self.change(at, |now| now.ended(end)),
            Step::Delete(at) => self.change(at, Sight::deleted),
            Step::Remove(at) => {
                let pod = &mut self.pods[at];
                let answer = match pod.now {
                    Sight::GONE => Removal::NotFound,
                    _ => Removal::Done,
                };
                let removal = std::mem::replace(&mut pod.removal, answer);
                self.remove_finalizer(at, removal == Removal::SentIfUnchanged)?;
            }
            Step::RemoveStray(at) => self.remove_finalizer(at, false)?,
            Step::RemoveStrayIfUnchanged(at) => self.remove_finalizer(at, true)?,
            Step::Write => {
                let change = |pod: &Pod| (pod.base, pod.change);
                self.write(rules, change)?;
                self.writing = Writing::Done;
            }
            Step::WriteStray(stray) => {
                self.write(rules, |pod| (pod.count, pod.strays[stray]))?;
            }
            Step::Edit => self.next_version(false),
            Step::Crash => self.crash(),
            _ => self.control(rules, step)?,
        }
        Ok(())
    }

    /// Changes a Pod. The watch delivers the change, unless the controller has yet to list the Pods.
    fn change(&mut self, at: usize, change: impl FnOnce(Sight) -> Sight) {
        let is_read = !matches!(self.mode, Mode::Starting { pods: false, .. });
        let pod = &mut self.pods[at];
        pod.now = change(pod.now);
        pod.stray_if_unchanged = false;
        if pod.removal == Removal::SentIfUnchanged {
            pod.removal = Removal::Outdated;
        }
        if !pod.now.has_finalizer() {
            pod.stray_removal = false;
        }
        if is_read {
            pod.push_news();
        }
    }

    /// Removes a finalizer: of a Pod that was named, or that goes `uncounted` and has not ended.
    fn remove_finalizer(&mut self, at: usize, uncounted: bool) -> Taken {
        let pod = &self.pods[at];
        if pod.now.has_finalizer() {
            demand(
                pod.count != Count::Unnamed || (uncounted && pod.now.end().is_none()),
                "a finalizer goes before its Pod is named",
            )?;
            self.change(at, Sight::freed);
        }
        Ok(())
    }

    /// The server accepts a status. `change` returns the record of a Pod that it is based on, and its change.
    fn write(&mut self, rules: Rules, change: impl Fn(&Pod) -> (Count, Change)) -> Taken {
        for pod in &mut self.pods {
            let (base, change) = change(pod);
            let next = judge(rules, pod, base, change)?;
            pod.count = next;
        }
        self.next_version(true);
        Ok(())
    }

    /// Creates a version of the Job. Status writes based on the previous one will be refused.
    fn next_version(&mut self, differs: bool) {
        let watched = !matches!(self.mode, Mode::Starting { job: false, .. });
        self.strays = 0;
        if self.writing == Writing::Sent {
            self.writing = Writing::Outdated;
        }
        if watched {
            assert!(
                self.versions < NEWS,
                "more versions of the Job than there can be"
            );
            self.differs[self.versions] = differs;
        }
        for pod in &mut self.pods {
            pod.strays = [Change::default(); STRAYS];
            if watched {
                pod.statuses[self.versions] = pod.count;
            }
        }
        self.versions += usize::from(watched);
    }

    /// Crashes the controller and starts another. Requests in flight may still arrive.
    fn crash(&mut self) {
        self.let_status_stray();
        for pod in &mut self.pods {
            pod.let_removal_stray();
            *pod = Pod {
                count: pod.count,
                strays: pod.strays,
                stray_removal: pod.stray_removal,
                stray_if_unchanged: pod.stray_if_unchanged,
                known: Sight::NEVER,
                ..Pod::new(pod.now)
            };
        }
        self.mode = Mode::Starting {
            pods: false,
            job: false,
        };
        self.drop_versions(self.versions);
    }

    /// The controller stops waiting for the status write. It may still arrive if the server can accept it.
    fn let_status_stray(&mut self) {
        // Of equal ones the server accepts one.
        let mut strays = 0..self.strays;
        let is_new = |stray| self.pods.iter().any(|pod| pod.strays[stray] != pod.change);
        if self.writing == Writing::Sent && strays.all(is_new) {
            for pod in &mut self.pods {
                pod.strays[self.strays] = pod.change;
            }
            self.strays += 1;
        }
        for pod in &mut self.pods {
            pod.change = Change::default();
        }
        self.writing = Writing::None;
    }

    fn drop_versions(&mut self, count: usize) {
        self.versions -= count;
        self.differs.rotate_left(count);
        self.differs[NEWS - count..].fill(false);
        for pod in &mut self.pods {
            pod.statuses.rotate_left(count);
            pod.statuses[NEWS - count..].fill(Count::Unnamed);
        }
    }

    /// The amount of work left on the server. Only a new Pod increases it.
    pub(crate) fn left(&self) -> usize {
        let left = |pod: &Pod| {
            let named = match pod.count {
                Count::Unnamed => 2,
                Count::Listed(_) => 1,
                Count::Counted(_) => 0,
            };
            named + usize::from(pod.now.lives()) + usize::from(pod.now.has_finalizer())
        };
        let made = self.pods.iter().filter(|pod| pod.now != Sight::NEVER);
        made.map(left).sum()
    }

    /// Returns true if everything is done: each Pod is counted, or went uncounted.
    pub(crate) fn is_over(&self) -> bool {
        let is_over = |pod: &Pod| {
            let listed = matches!(pod.count, Count::Listed(_));
            !pod.now.has_finalizer() && !listed
        };
        self.pods.iter().all(is_over)
    }
}

/// A Pod's record in the server's status after a write, if the write is valid.
fn judge(rules: Rules, pod: &Pod, base: Count, change: Change) -> Result<Count, Wrong> {
    if let Some(end) = change.names {
        demand(pod.count == Count::Unnamed, "a Pod is named twice")?;
        let has_failed = rules.deleting_has_failed && pod.now.is_deleting();
        let is_true = pod.now.end() == Some(end) || (end == End::Failure && has_failed);
        demand(is_true, "a Pod is named for an end that it did not have")?;
        return Ok(named(rules, end));
    }
    if change.counts {
        let Count::Listed(end) = pod.count else {
            return Err("a Pod is counted that is not on the list");
        };
        demand(
            !pod.now.has_finalizer(),
            "a Pod is counted with its finalizer on",
        )?;
        return Ok(Count::Counted(end));
    }
    match (pod.count, base) {
        (before, same) if before == same => Ok(same),
        (Count::Counted(_), Count::Unnamed | Count::Listed(_)) => Err("a counter falls"),
        (Count::Listed(_), Count::Unnamed) => Err("a Pod falls off the list"),
        _ => Err("a Pod is counted by nobody"),
    }
}

/// The record of a Pod in a status that names it.
fn named(rules: Rules, end: End) -> Count {
    match end {
        End::Success if rules.indexed => Count::Counted(end),
        _ => Count::Listed(end),
    }
}

impl Pod {
    /// The controller stops waiting for the removal of its finalizer. It may still arrive.
    fn let_removal_stray(&mut self) {
        match self.removal {
            Removal::Sent => self.stray_removal |= self.now.has_finalizer(),
            Removal::SentIfUnchanged => self.stray_if_unchanged = true,
            Removal::None | Removal::Outdated | Removal::Done | Removal::NotFound => {}
        }
        self.removal = Removal::None;
    }
}

/// Steps of the controller.
impl State {
    fn control(&mut self, rules: Rules, step: Step) -> Taken {
        match step {
            Step::ReadPods => {
                for pod in &mut self.pods {
                    pod.known = pod.now;
                }
                self.read(rules, true, false);
            }
            Step::ReadJob => {
                for pod in &mut self.pods {
                    pod.base = pod.count;
                }
                self.read(rules, false, true);
            }
            Step::HearRemoved(at) => self.hear_removed(rules, at),
            Step::LoseRemoval(at) => self.lose_removal(rules, at),
            Step::HearPod(at, count) => {
                let pod = &mut self.pods[at];
                pod.known = pod.news()[count - 1];
                pod.drop_news(count);
                self.look(rules, at);
            }
            Step::HearWritten => self.hear_written(rules),
            Step::LoseStatus => self.not_written(rules),
            Step::HearJob(count) => self.hear_job(rules, count),
            Step::HearChanged(at) => self.removal_refused(rules, at),
            Step::Renew => self.start(rules),
            Step::Stop(at) => self.happens(rules, at, Input::Stopped),
            Step::AskRemoval(at) => self.ask_removal(rules, at)?,
            Step::AskStatus => self.ask_status(rules),
            _ => unreachable!("a step of the server"),
        }
        Ok(())
    }

    /// Ends a read of a starting controller.
    fn read(&mut self, rules: Rules, pods_too: bool, job_too: bool) {
        let Mode::Starting { pods, job } = self.mode else {
            unreachable!("it starts");
        };
        let (pods, job) = (pods || pods_too, job || job_too);
        self.mode = Mode::Starting { pods, job };
        let early = rules.defect == Some(Defect::StartsWithoutPods);
        if job && (pods || early) {
            self.start(rules);
        }
    }

    /// Passes all Pods to a new machine.
    fn start(&mut self, rules: Rules) {
        self.mode = Mode::Running;
        for at in 0..PODS {
            let keeps = rules.defect == Some(Defect::RenewKeepsStages);
            if !keeps {
                self.pods[at].stage = Stage::Live;
            }
            if rules.defect == Some(Defect::ListForgottenAtStart)
                && matches!(self.pods[at].base, Count::Listed(_))
            {
                self.pods[at].base = Count::Unnamed;
            }
            self.look(rules, at);
        }
    }

    fn hear_removed(&mut self, rules: Rules, at: usize) {
        let pod = &mut self.pods[at];
        let answer = std::mem::take(&mut pod.removal);
        if answer == Removal::Done {
            // Undelivered events are older, or add nothing.
            pod.drop_news(pod.news().len());
        } else if rules.defect != Some(Defect::NotFoundHasNoVersion) {
            // The watch reports that it is gone.
            return;
        }
        pod.known = Sight::FREED;
        self.look(rules, at);
    }

    fn lose_removal(&mut self, rules: Rules, at: usize) {
        let pod = &mut self.pods[at];
        pod.let_removal_stray();
        match rules.defect {
            Some(Defect::LostRemovalIsDone) => {
                pod.known = Sight::FREED;
                self.look(rules, at);
            }
            Some(Defect::LostRemovalIsForgotten) => pod.stage = Stage::Settled,
            _ => self.removal_refused(rules, at),
        }
    }

    /// Handles a finalizer that is still on, or an unknown outcome. A Pod that was to go uncounted is looked at again.
    pub(crate) fn removal_refused(&mut self, rules: Rules, at: usize) {
        let pod = &mut self.pods[at];
        let was_stopped = pod.stage == Stage::Stopped;
        pod.removal = Removal::None;
        if was_stopped {
            let shown = match pod.known.is_deleting() {
                true => Shown::Terminating,
                false => Shown::Active,
            };
            if pod.known.lives() {
                self.happens(rules, at, Input::RemovalRefused(shown));
            }
            self.look(rules, at);
        }
    }

    fn ask_removal(&mut self, rules: Rules, at: usize) -> Taken {
        let pod = &mut self.pods[at];
        if pod.stage != Stage::Stopped {
            pod.removal = Removal::Sent;
            return demand(
                pod.count != Count::Unnamed || !pod.now.has_finalizer(),
                "a finalizer is to go before its Pod is named",
            );
        }
        pod.removal = match pod.news() {
            _ if rules.defect == Some(Defect::StoppedGoesThoughChanged) => Removal::Sent,
            [] => Removal::SentIfUnchanged,
            _ => Removal::Outdated,
        };
        Ok(())
    }

    /// Handles the outcome of the status write: the server has it, or refused it.
    fn hear_written(&mut self, rules: Rules) {
        let written =
            self.writing == Writing::Done || (rules.defect == Some(Defect::RefusedIsWritten));
        if !written {
            return self.not_written(rules);
        }
        if self.writing == Writing::Done {
            self.drop_versions(1);
        }
        self.written(rules);
    }

    /// Applies a status that the server has.
    pub(crate) fn written(&mut self, rules: Rules) {
        self.writing = Writing::None;
        for at in 0..PODS {
            let pod = &mut self.pods[at];
            let change = std::mem::take(&mut pod.change);
            if change.counts
                && let Count::Listed(end) = pod.base
                && rules.defect != Some(Defect::CountedStaysListed)
            {
                pod.base = Count::Counted(end);
            }
            if let Some(end) = change.names {
                pod.base = named(rules, end);
                self.happens(rules, at, Input::StatusWritten);
            }
        }
    }

    /// Handles a status write of unknown outcome, which may still arrive.
    pub(crate) fn not_written(&mut self, rules: Rules) {
        self.let_status_stray();
        if rules.defect == Some(Defect::NotNamedAgain) {
            return;
        }
        for at in 0..PODS {
            let was_listing = matches!(self.pods[at].stage, Stage::Listing(_));
            self.happens(rules, at, Input::StatusNotWritten);
            if was_listing {
                self.look(rules, at);
            }
        }
    }

    fn hear_job(&mut self, rules: Rules, count: usize) {
        let differs = self.differs[..count].contains(&true);
        if differs && rules.defect != Some(Defect::OthersStatusIgnored) {
            self.mode = Mode::Outdated;
            for pod in &mut self.pods {
                pod.base = pod.statuses[count - 1];
                if rules.defect != Some(Defect::RenewKeepsStages) {
                    pod.stage = Stage::Live;
                }
            }
        }
        self.drop_versions(count);
    }

    pub(crate) fn ask_status(&mut self, rules: Rules) {
        for at in 0..PODS {
            self.pods[at].change = self.next_change(rules, at);
            self.happens(rules, at, Input::Named);
        }
        self.writing = match self.versions {
            0 => Writing::Sent,
            _ if rules.defect == Some(Defect::StaleStatusIsTaken) => Writing::Sent,
            _ => Writing::Outdated,
        };
    }

    /// The change of a Pod by the next status.
    pub(crate) fn next_change(&self, rules: Rules, at: usize) -> Change {
        let pod = &self.pods[at];
        let listed = matches!(pod.base, Count::Listed(_));
        let names = match pod.stage {
            Stage::Ended(end) => Some(end),
            _ => None,
        };
        let may_count = match rules.defect {
            Some(Defect::CountedWhenNamed) => true,
            Some(Defect::CountedWhenAsked) => {
                !pod.known.has_finalizer() || pod.removal != Removal::None
            }
            Some(Defect::GoneIsNotCounted) => pod.known.is_freed(),
            _ => !pod.known.has_finalizer(),
        };
        Change {
            names,
            counts: listed && names.is_none() && may_count,
        }
    }

    /// Returns true if the removal of a finalizer is in flight.
    pub(crate) fn is_removing(&self) -> bool {
        let mut pods = self.pods.iter();
        pods.any(|pod| pod.removal != Removal::None)
    }

    /// Returns true if a Pod may be found to be surplus.
    pub(crate) fn may_stop(&self, rules: Rules, at: usize) -> bool {
        let pod = &self.pods[at];
        let has_failed = rules.deleting_has_failed && pod.known.is_deleting();
        pod.stage == Stage::Live && pod.known.lives() && !has_failed
    }

    /// Returns true if the controller may request the removal of a Pod's finalizer.
    pub(crate) fn may_ask_removal(&self, rules: Rules, at: usize) -> bool {
        let pod = &self.pods[at];
        let may = pod.stage.may_be_freed()
            || match rules.defect {
                Some(Defect::FreedWhenEnded) => matches!(pod.stage, Stage::Ended(_)),
                Some(Defect::FreedWhenNamed) => matches!(pod.stage, Stage::Listing(_)),
                _ => false,
            };
        may && pod.known.has_finalizer() && pod.removal == Removal::None
    }

    /// Looks at the cached Pod, as `Counting::handle_pod` does.
    pub(crate) fn look(&mut self, rules: Rules, at: usize) {
        if self.mode != Mode::Running {
            return;
        }
        let pod = &self.pods[at];
        if pod.known == Sight::NEVER {
            return;
        }
        let input = input(rules, pod);
        self.happens(rules, at, input);
    }

    pub(crate) fn happens(&mut self, rules: Rules, at: usize, input: Input) {
        if self.mode == Mode::Running {
            let stage = &mut self.pods[at].stage;
            *stage = match rules.defect {
                Some(defect) => defect.after(*stage, input),
                None => stage.after(input),
            };
        }
    }
}

/// The controller's input for the cached state of a Pod.
fn input(rules: Rules, pod: &Pod) -> Input {
    if pod.known == Sight::GONE {
        return Input::Gone;
    }
    if pod.known.is_freed() {
        return Input::Freed;
    }
    let has_failed = rules.deleting_has_failed && pod.known.is_deleting();
    let end = pod.known.end().or(has_failed.then_some(End::Failure));
    let succeeded = match pod.base {
        Count::Counted(End::Success) => Input::IndexStored,
        _ => Input::Succeeded,
    };
    let has_ended = pod.known.end().is_some() && pod.removal == Removal::None;
    match (pod.stage, end) {
        (Stage::Stopped, _) if !has_ended => Input::Seen,
        (Stage::Live | Stage::Stopped, end) => match (pod.base, end) {
            (Count::Listed(end), _) => Input::WasListed(end),
            (_, None) => Input::Seen,
            (_, Some(End::Success)) => succeeded,
            (_, Some(End::Failure)) => Input::Failed,
        },
        (Stage::Ended(End::Failure), Some(End::Success)) => succeeded,
        _ => Input::Seen,
    }
}
