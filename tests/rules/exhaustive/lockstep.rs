//! Compares the real machine with the model of the protocol. The model gets the inputs of the machine. It must allow
//! each finalizer removal and each status that the machine requests, to the last UID and counter.
//!
//! Where the protocol alone does not decide, the model is dropped, and only `judge.rs` checks. This is the case if the
//! Job has ended, is being deleted or is gone. It is also the case with a fourth Pod, and with two succeeded Pods of an
//! index.
//!
//! Must not: look into the machine.

use lakh::{
    decide::{End, Input, Outcome, Stage},
    model::{
        ConditionKind, IndexSet, Job, JobStatus, PodFlags, PodPhase, PodRecord, PodReplacement,
        Slot, Uid,
    },
};

use super::{
    protocol::{Change, Count, Mode, PODS, Removal, Rules, Sight, State, Writing},
    shell::Write,
};

/// The model of one machine. Each input returns the next model, or none once the model does not apply any more.
#[derive(Clone, Debug)]
pub(super) struct Lockstep {
    rules: Rules,
    state: State,
    /// The place of each Pod in the state, and its slot in the machine's table.
    places: Vec<Place>,
    /// The counters and the completed indexes of the status that the machine knows.
    counted: [u32; 2],
    completed: IndexSet,
    /// Places of the Pods with a refused removal. The machine looks at them again after all Pod events.
    refused: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Place {
    uid: Uid,
    slot: Option<Slot>,
    index: Option<u32>,
}

impl Lockstep {
    /// Creates the model of a new machine, if the protocol alone decides for its Job.
    pub(super) fn new(job: &Job) -> Option<Self> {
        let status = &job.status;
        if job.deleting || status.is_finished() {
            return None;
        }
        let rules = Rules {
            indexed: job.spec.is_indexed(),
            deleting_has_failed: job.spec.pod_replacement == PodReplacement::TerminatingOrFailed,
            pods: PODS,
            defect: None,
        };
        let mut state = State::new();
        state.mode = Mode::Running;
        let mut model = Self {
            rules,
            state,
            places: Vec::new(),
            counted: [status.succeeded, status.failed],
            completed: IndexSet::parse(&status.completed_indexes, u32::MAX),
            refused: Vec::new(),
        };
        let listed = status.uncounted.clone().unwrap_or_default();
        for (uids, end) in [
            (listed.succeeded, End::Success),
            (listed.failed, End::Failure),
        ] {
            for uid in uids {
                let at = model.place(uid)?;
                model.state.pods[at].base = Count::Listed(end);
            }
        }
        Some(model)
    }

    /// The place of a Pod. A new Pod gets one if there is room.
    fn place(&mut self, uid: Uid) -> Option<usize> {
        if let Some(at) = self.places.iter().position(|place| place.uid == uid) {
            return Some(at);
        }
        let (slot, index) = (None, None);
        self.places.push(Place { uid, slot, index });
        (self.places.len() <= PODS).then(|| self.places.len() - 1)
    }

    fn at(&self, slot: Slot) -> Option<usize> {
        self.places
            .iter()
            .position(|place| place.slot == Some(slot))
    }

    /// Applies the outcome of a write.
    pub(super) fn hear(mut self, outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::FinalizerRemoved(slot) => {
                if let Some(at) = self.at(*slot) {
                    self.state.pods[at].removal = Removal::None;
                }
            }
            Outcome::FinalizerNotRemoved(slot) | Outcome::PodChanged(slot) => {
                self.refused.extend(self.at(*slot));
            }
            Outcome::StatusWritten => self.written(),
            Outcome::StatusNotWritten => self.state.not_written(self.rules),
            _ => {}
        }
        Some(self)
    }

    fn written(&mut self) {
        for (pod, place) in self.state.pods.iter().zip(&self.places) {
            match (pod.change, pod.base) {
                (Change { counts: true, .. }, Count::Listed(end)) => {
                    self.counted[end as usize] += 1;
                }
                (change, _) if change.names == Some(End::Success) && self.rules.indexed => {
                    self.completed.insert(place.index.expect("it has one"));
                }
                _ => {}
            }
        }
        self.state.written(self.rules);
    }

    /// Applies the cached state of a Pod. None means that the Pod in the slot is gone.
    pub(super) fn see(mut self, slot: Slot, pod: Option<&PodRecord>) -> Option<Self> {
        let before = self.at(slot).filter(|at| {
            let uid = self.places[*at].uid;
            pod.is_none_or(|pod| pod.uid != uid)
        });
        if let Some(at) = before {
            self.state.pods[at].known = Sight::GONE;
            self.state.look(self.rules, at);
            self.places[at].slot = None;
        }
        let Some(pod) = pod else { return Some(self) };
        let at = self.place(pod.uid)?;
        let index = pod.index.map(lakh::model::CompactIndex::get);
        self.places[at].slot = Some(slot);
        self.places[at].index = index;
        let named = index.filter(|index| self.rules.indexed && self.completed.contains(*index));
        let model = &mut self.state.pods[at];
        model.known = sight(pod);
        if named.is_some() && model.base == Count::Unnamed {
            model.base = Count::Counted(End::Success);
        }
        self.state.look(self.rules, at);
        let twins = self
            .places
            .iter()
            .zip(&self.state.pods)
            .filter(|(place, pod)| place.index == index && pod.known.end() == Some(End::Success));
        let is_doubled = self.rules.indexed && twins.count() > 1;
        (!is_doubled).then_some(self)
    }

    /// Checks the machine's requests. Returns no model if it does not apply any more.
    pub(super) fn ask(mut self, writes: &[Write]) -> Result<Option<Self>, String> {
        for at in std::mem::take(&mut self.refused) {
            self.state.removal_refused(self.rules, at);
        }
        for write in writes {
            match write {
                Write::Status(status, _) => {
                    if status.is_finished() {
                        return Ok(None);
                    }
                    self.ask_status(status)?;
                }
                Write::Release(slot, _) => {
                    let at = self
                        .at(*slot)
                        .ok_or("a finalizer of a Pod that nobody saw")?;
                    self.ask_removal(at)?;
                }
                Write::Create(_) | Write::Delete(..) => {}
            }
        }
        Ok(Some(self))
    }

    fn ask_removal(&mut self, at: usize) -> Result<(), String> {
        // A surplus Pod may go uncounted. The choice of the Pod is not part of the protocol.
        if self.state.pods[at].stage == Stage::Live {
            self.state.happens(self.rules, at, Input::Stopped);
        }
        if !self.state.may_ask_removal(self.rules, at) {
            let pod = &self.state.pods[at];
            return Err(format!("the model does not let this Pod go: {pod:?}"));
        }
        self.state.pods[at].removal = Removal::Sent;
        Ok(())
    }

    fn ask_status(&mut self, status: &JobStatus) -> Result<(), String> {
        let asked = status.uncounted.clone().unwrap_or_default();
        let fails = status
            .true_condition(ConditionKind::FailureTarget)
            .is_some();
        for at in 0..self.places.len() {
            // A Pod that has not ended fails with its Job.
            let fails = fails && asked.failed.contains(&self.places[at].uid);
            if fails && self.state.pods[at].stage == Stage::Live {
                self.state.happens(self.rules, at, Input::Failed);
            }
        }
        if self.state.writing != Writing::None {
            return Err("two status writes at once".to_owned());
        }
        self.state.ask_status(self.rules);
        // The model of the server is not used here.
        self.state.writing = Writing::Outdated;
        let mut counted = self.counted;
        let mut completed = self.completed.clone();
        let mut listed = [Vec::new(), Vec::new()];
        for (pod, place) in self.state.pods.iter().zip(&self.places) {
            match (pod.change.names, pod.base) {
                (Some(End::Success), _) if self.rules.indexed => {
                    completed.insert(place.index.expect("it has one"));
                }
                (Some(end), _) => listed[end as usize].push(place.uid),
                (None, Count::Listed(end)) if pod.change.counts => counted[end as usize] += 1,
                (None, Count::Listed(end)) => listed[end as usize].push(place.uid),
                (None, Count::Unnamed | Count::Counted(_)) => {}
            }
        }
        if self.rules.indexed {
            counted[0] = completed.len();
        }
        let mut really = [asked.succeeded, asked.failed];
        really.iter_mut().for_each(|uids| uids.sort_unstable());
        listed.iter_mut().for_each(|uids| uids.sort_unstable());
        let same = really == listed
            && [status.succeeded, status.failed] == counted
            && *status.completed_indexes == *completed.to_string();
        if same {
            return Ok(());
        }
        Err(format!(
            "the model writes another status: counted {counted:?}, listed {listed:?}, completed [{completed}]; \
             the machine: {status:?}"
        ))
    }
}

/// Converts a Pod to the model's view.
fn sight(pod: &PodRecord) -> Sight {
    if !pod.has(PodFlags::FINALIZER) {
        return Sight::FREED;
    }
    let sight = match pod.phase {
        PodPhase::Succeeded => Sight::NEW.ended(End::Success),
        PodPhase::Failed => Sight::NEW.ended(End::Failure),
        PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => Sight::NEW,
    };
    if pod.has(PodFlags::DELETING) {
        sight.deleted()
    } else {
        sight
    }
}

#[test]
fn forbidden_steps_are_reported() {
    use lakh::model::Uncounted;

    use super::shared::Shared;

    let uid = Uid::from_u128(1);
    let pod = PodRecord {
        uid,
        phase: PodPhase::Succeeded,
        flags: PodFlags::default().with(PodFlags::FINALIZER, true),
        ..PodRecord::default()
    };
    let model = Lockstep::new(&crate::common::words::plain_job()).expect("the Job is at work");
    let model = model.see(Slot(0), Some(&pod)).expect("it is the only Pod");
    let ask = |write: Write| model.clone().ask(&[write]);
    let status = |succeeded: u32, listed: &[Uid]| {
        let status = JobStatus {
            succeeded,
            uncounted: Some(Uncounted {
                succeeded: listed.into(),
                ..Uncounted::default()
            }),
            ..JobStatus::default()
        };
        Write::Status(Shared::new(status), 1)
    };
    assert!(ask(Write::Release(Slot(0), uid)).is_err(), "not named yet");
    assert!(ask(status(0, &[])).is_err(), "it is to be named");
    assert!(ask(status(1, &[])).is_err(), "counted at once");
    let named = ask(status(0, &[uid])).expect("that is what the model writes");
    let named = named.expect("the Job goes on");
    let too_early = named.clone().ask(&[Write::Release(Slot(0), uid)]);
    assert!(too_early.is_err(), "the status is under way");
    let written = named.hear(&Outcome::StatusWritten).expect("it goes on");
    assert!(written.ask(&[Write::Release(Slot(0), uid)]).is_ok());
}
