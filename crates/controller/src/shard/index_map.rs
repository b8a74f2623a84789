//! Computes the state of each index of a Job, for display.
//!
//! Must not: change anything, or be called on the path of a Pod event.

use lakh_core::decide::IndexOverview;
use lakh_model::{IndexSet, Job, PodPhase};

use super::actor::Actor;

/// The state of an index. An index in none of these states waits for its first Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapState {
    /// The index succeeded.
    Succeeded,
    /// The index failed for good.
    Failed,
    /// A Pod of the index runs.
    Running,
    /// The index has a Pod that does not run yet, or its creation is in flight.
    Pending,
    /// Its last Pod failed, and the index waits for its backoff.
    Backoff,
}

impl MapState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Succeeded,
        Self::Failed,
        Self::Running,
        Self::Pending,
        Self::Backoff,
    ];

    /// Returns the state's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Running => "running",
            Self::Pending => "pending",
            Self::Backoff => "backoff",
        }
    }
}

/// The indexes of one Job by state; each is in at most one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexMap {
    /// The number of indexes.
    pub completions: u32,
    sets: [IndexSet; MapState::ALL.len()],
}

impl IndexMap {
    /// Returns the map of a Job; none if it has no indexes or is not in the cache. Iterates over all its Pods.
    pub(super) fn of(actor: &Actor) -> Option<Self> {
        let job = actor.job.as_ref()?;
        let completions = job.spec.is_indexed().then_some(job.spec.completions)??;
        let overview = actor.machine.as_deref().and_then(IndexOverview::of);
        let mut map = Self {
            completions,
            ..Self::default()
        };
        match overview {
            None => map.read_status(job),
            Some(known) => {
                map.fill(known, actor);
            }
        }
        Some(map)
    }

    /// Returns the indexes in a state.
    pub fn of_state(&self, state: MapState) -> &IndexSet {
        &self.sets[state as usize]
    }

    fn set(&mut self, state: MapState) -> &mut IndexSet {
        &mut self.sets[state as usize]
    }

    /// Reads the indexes of a Job without a machine from its status.
    fn read_status(&mut self, job: &Job) {
        let completions = self.completions;
        let read = |text: &str| IndexSet::parse(text, completions);
        let failed = job.status.failed_indexes.as_deref();
        *self.set(MapState::Failed) = read(failed.unwrap_or_default());
        *self.set(MapState::Succeeded) = read(&job.status.completed_indexes);
    }

    fn fill(&mut self, known: IndexOverview, actor: &Actor) {
        let is_running = |phase| matches!(phase, PodPhase::Running | PodPhase::Unknown);
        let pods = actor.pods.iter().map(|(_, pod)| pod);
        let running = pods.filter(|pod| is_running(pod.phase));
        let mut running: IndexSet = running
            .filter_map(|pod| pod.index.map(|index| index.get()))
            .filter(|index| *index < self.completions)
            .collect();
        let failed = known.failed.unwrap_or_default();
        let mut pending = IndexSet::below(self.completions);
        for over in [&known.completed, &failed, &known.without_pod] {
            running.subtract(over);
            pending.subtract(over);
        }
        pending.subtract(&running);
        *self.set(MapState::Backoff) = known.in_backoff;
        *self.set(MapState::Pending) = pending;
        *self.set(MapState::Running) = running;
        *self.set(MapState::Failed) = failed;
        *self.set(MapState::Succeeded) = known.completed;
    }
}

impl IndexMap {
    /// Creates a map with these indexes in each state.
    pub fn with(completions: u32, states: &[(MapState, &str)]) -> Self {
        let mut map = Self {
            completions,
            ..Self::default()
        };
        for (state, text) in states {
            *map.set(*state) = IndexSet::parse(text, completions);
        }
        map
    }
}
