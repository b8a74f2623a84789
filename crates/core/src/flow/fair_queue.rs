//! Queues writes to the API server fairly: chooses the next one, and limits those in flight.
//!
//! The next write is chosen when one may be sent, not before. Tenants (namespaces) take turns, and within a tenant its
//! Jobs do (deficit round robin). A Job that was idle or has an urgent write gets a call: one write ahead of the turns.
//! Calls alternate with turns and rotate over tenants. [`InFlightLimit`] sets how many writes may be in flight: in
//! total, per tenant and per Job.
//!
//! Memory is proportional to the writes that wait or are in flight, and to recent refusals.
//!
//! Must not: read a clock (`now` is monotonic time since the program began), or know the content of a write.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::Hash,
    time::Duration,
};

use hashbrown::HashMap;

use super::in_flight::{InFlightLimit, Room, TenantLimit};

/// The number of writes of one Job per turn: consecutive writes of one Job are cheaper. Sixteen gain nothing more:
/// measured with a thousand Jobs of a hundred Pods, docs/flow.md.
pub const BATCH: usize = 8;

/// The order of a Job's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Before all other writes of the Job. The Job gets a call.
    Urgent,
    /// Completes work, and so goes before writes that begin work. Otherwise every completion would wait behind all work
    /// that could still begin.
    Ends,
    /// All other writes, including those that begin work.
    Usual,
}

/// The result of a write. The reader of responses bounds the pauses that they ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAnswer {
    /// The server accepted the write.
    Taken,
    /// The server is too busy.
    Busy {
        /// When the write was sent.
        sent: Duration,
        /// The pause that the server asks for.
        pause: Duration,
    },
    /// A component consulted about the write, such as an admission webhook, asks for a pause of this Job.
    Denied(Duration),
    /// Any other result: it says nothing about the server's capacity.
    Other,
}

/// A fair queue of writes `T`. `N` identifies tenants, `J` their Jobs. After each [`FairQueue::pop`] call
/// [`FairQueue::done`] when the write is over.
#[derive(Debug)]
pub struct FairQueue<N, J, T> {
    tenants: HashMap<N, Tenant<J, T>>,
    /// Tenants that may have writes to send, in turn.
    turns: VecDeque<N>,
    /// Tenants that have Jobs with a call, in turn.
    calls: VecDeque<N>,
    /// The next write goes to a Job with a call, if there is one.
    call: bool,
    /// The number of waiting writes.
    waiting: usize,
    limit: InFlightLimit<N>,
    /// The latest end of any pause.
    pauses_until: Duration,
    /// Tenants that a server has refused, each once, by the time to check whether they can be forgotten. The number
    /// makes keys of the same time differ.
    looks: BTreeMap<(Duration, u64), N>,
    last_look: u64,
}

#[derive(Debug)]
struct Tenant<J, T> {
    lanes: HashMap<J, Lane<T>>,
    /// Jobs with a call: one write ahead of their turn.
    called: VecDeque<J>,
    turns: VecDeque<J>,
    /// The number of writes that the first of `turns` has sent in this turn.
    given: usize,
    has_turn: bool,
    waiting: usize,
    in_flight: usize,
    limit: TenantLimit,
    /// The tenant is among [`FairQueue::looks`].
    is_looked_at: bool,
}

#[derive(Debug)]
struct Lane<T> {
    /// By rank.
    waiting: [VecDeque<T>; 3],
    in_flight: usize,
    is_called: bool,
    has_turn: bool,
    paused_until: Duration,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self {
            waiting: Default::default(),
            in_flight: 0,
            is_called: false,
            has_turn: false,
            paused_until: Duration::ZERO,
        }
    }
}

impl<T> Lane<T> {
    /// Takes the next write, if there is room for it.
    fn pop(&mut self, room: Room, now: Duration) -> Option<T> {
        if self.in_flight >= room.of_job() || self.paused_until > now {
            return None;
        }
        self.waiting.iter_mut().find_map(VecDeque::pop_front)
    }

    fn is_empty(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    fn is_idle(&self, now: Duration) -> bool {
        let is_waited_for = self.is_called || self.has_turn;
        self.is_empty() && self.in_flight == 0 && !is_waited_for && self.paused_until <= now
    }
}

impl<J, T> Default for Tenant<J, T> {
    fn default() -> Self {
        Self {
            lanes: HashMap::new(),
            called: VecDeque::new(),
            turns: VecDeque::new(),
            given: 0,
            has_turn: false,
            waiting: 0,
            in_flight: 0,
            limit: TenantLimit::default(),
            is_looked_at: false,
        }
    }
}

impl<J: Clone + Eq + Hash, T> Tenant<J, T> {
    /// Returns true if the tenant may have one more write in flight.
    fn has_room(&self, room: Room, now: Duration) -> bool {
        self.in_flight < room.of_tenant() && self.limit.allows(self.in_flight, now)
    }

    /// Takes the next write of a Job that has a call and room.
    fn pop_called(&mut self, room: Room, now: Duration) -> Option<(J, T)> {
        while let Some(job) = self.called.pop_front() {
            let lane = self.lanes.get_mut(&job).expect("each call has a lane");
            lane.is_called = false;
            let item = lane.pop(room, now);
            // A Job with more writes, or without room now, has a turn later.
            if !lane.is_empty() && !std::mem::replace(&mut lane.has_turn, true) {
                self.turns.push_back(job.clone());
            }
            if let Some(item) = item {
                return Some((job, item));
            }
            self.forget_if_idle(&job, now);
        }
        None
    }

    /// Takes the next write of a Job that has room. The flag is true if that ends the Job's turn.
    fn pop_in_turn(&mut self, room: Room, now: Duration) -> Option<(J, T, bool)> {
        for _ in 0..self.turns.len() {
            let job = self.turns.front()?;
            let lane = self.lanes.get_mut(job).expect("each turn has a lane");
            let item = lane.pop(room, now);
            let is_empty = lane.is_empty();
            self.given += 1;
            let is_over = is_empty || item.is_none() || self.given == BATCH;
            let job = match is_over {
                true => {
                    self.given = 0;
                    self.turns.pop_front()?
                }
                false => job.clone(),
            };
            if is_empty {
                lane.has_turn = false;
                if item.is_none() {
                    self.forget_if_idle(&job, now);
                    continue;
                }
            } else if is_over {
                self.turns.push_back(job.clone());
            }
            if let Some(item) = item {
                return Some((job, item, is_over));
            }
        }
        None
    }

    /// Records one more write of a Job in flight. Returns the Job's number in flight.
    fn sent(&mut self, job: &J) -> usize {
        self.waiting -= 1;
        self.in_flight += 1;
        let lane = self.lanes.get_mut(job).expect("it gave a write");
        lane.in_flight += 1;
        lane.in_flight
    }

    fn end_calls(&mut self, now: Duration) {
        while let Some(job) = self.called.pop_front() {
            if let Some(lane) = self.lanes.get_mut(&job) {
                lane.is_called = false;
            }
            self.forget_if_idle(&job, now);
        }
    }

    fn end_turns(&mut self, now: Duration) {
        self.has_turn = false;
        self.given = 0;
        while let Some(job) = self.turns.pop_front() {
            if let Some(lane) = self.lanes.get_mut(&job) {
                lane.has_turn = false;
            }
            self.forget_if_idle(&job, now);
        }
    }

    fn forget_if_idle(&mut self, job: &J, now: Duration) {
        if self.lanes.get(job).is_some_and(|lane| lane.is_idle(now)) {
            self.lanes.remove(job);
        }
    }

    fn answered(&mut self, answer: WriteAnswer, max: usize, now: Duration) {
        match answer {
            WriteAnswer::Busy { sent, pause } => self.limit.refused(sent, pause, max, now),
            WriteAnswer::Taken => self.limit.taken(max, now),
            WriteAnswer::Denied(_) | WriteAnswer::Other => {}
        }
    }

    /// Returns true if the tenant has no state to keep.
    fn is_idle(&self, now: Duration) -> bool {
        let is_waited_for = !self.called.is_empty() || self.has_turn;
        self.lanes.is_empty() && !is_waited_for && self.limit.is_default(now)
    }

    /// Forgets Jobs kept only for a pause. Returns when to check again, if necessary.
    fn forget_pauses(&mut self, now: Duration) -> Option<Duration> {
        self.lanes.retain(|_, lane| !lane.is_idle(now));
        let lanes = self.lanes.values().map(|lane| lane.paused_until);
        let due = lanes.chain([self.limit.forgotten_at()]);
        due.filter(|due| *due > now).max()
    }

    /// Returns when the tenant's first waiting write may be sent.
    fn next_due(&self) -> Option<Duration> {
        let waiting = self.lanes.values().filter(|lane| !lane.is_empty());
        let due = waiting.map(|lane| lane.paused_until).min();
        due.map(|due| due.max(self.limit.paused_until()))
    }
}

impl<N: Clone + Eq + Hash, J: Clone + Eq + Hash, T> FairQueue<N, J, T> {
    /// Creates an empty queue with at most `max` writes in flight.
    pub fn new(max: usize) -> Self {
        Self {
            tenants: HashMap::new(),
            turns: VecDeque::new(),
            calls: VecDeque::new(),
            call: false,
            waiting: 0,
            limit: InFlightLimit::new(max),
            pauses_until: Duration::ZERO,
            looks: BTreeMap::new(),
            last_look: 0,
        }
    }

    /// Adds a write.
    pub fn push(&mut self, tenant: &N, job: &J, rank: Rank, item: T) {
        let lane = self.lane(tenant, job, rank == Rank::Urgent);
        lane.waiting[rank as usize].push_back(item);
    }

    /// Puts back a write that the server was too busy for: it is the Job's next.
    pub fn put_back(&mut self, tenant: &N, job: &J, item: T) {
        let lane = self.lane(tenant, job, false);
        lane.waiting[Rank::Urgent as usize].push_front(item);
    }

    /// Returns the lane for a new write. A Job without waiting writes gets a call, and turns from then on if it has
    /// more writes.
    fn lane(&mut self, name: &N, job: &J, calls: bool) -> &mut Lane<T> {
        self.waiting += 1;
        let tenant = self.tenants.entry(name.clone()).or_default();
        tenant.waiting += 1;
        let lane = tenant.lanes.entry(job.clone()).or_default();
        let calls = calls || (lane.is_empty() && !lane.has_turn);
        if calls && !std::mem::replace(&mut lane.is_called, true) {
            if tenant.called.is_empty() {
                self.calls.push_back(name.clone());
            }
            tenant.called.push_back(job.clone());
        }
        lane
    }

    /// Takes the next write that may be sent now. It is in flight until [`FairQueue::done`].
    pub fn pop(&mut self, now: Duration) -> Option<(N, J, T)> {
        if self.waiting == 0 {
            self.end_turns(now);
            return None;
        }
        let room = self.limit.room(now)?;
        let next = if self.call {
            self.pop_called(room, now)
                .or_else(|| self.pop_in_turn(room, now))
        } else {
            self.pop_in_turn(room, now)
                .or_else(|| self.pop_called(room, now))
        };
        let (name, job, item) = next?;
        self.call = !self.call;
        self.waiting -= 1;
        let tenant = self.tenants.get_mut(&name).expect("it gave a write");
        let of_job = tenant.sent(&job);
        self.limit.sent(of_job, now);
        if self.waiting == 0 {
            self.end_turns(now);
        }
        Some((name, job, item))
    }

    /// Ends all turns and calls, when no write waits.
    fn end_turns(&mut self, now: Duration) {
        while let Some(name) = self.calls.pop_front() {
            if let Some(tenant) = self.tenants.get_mut(&name) {
                tenant.end_calls(now);
            }
            self.forget_if_idle(&name, now);
        }
        while let Some(name) = self.turns.pop_front() {
            let Some(tenant) = self.tenants.get_mut(&name) else {
                continue;
            };
            tenant.end_turns(now);
            self.forget_if_idle(&name, now);
        }
        self.forget_pauses(now);
    }

    /// Forgets tenants kept only for a pause or a limit, once those are over.
    fn forget_pauses(&mut self, now: Duration) {
        while let Some(look) = self.looks.first_entry()
            && look.key().0 <= now
        {
            let name = look.remove();
            let Some(tenant) = self.tenants.get_mut(&name) else {
                continue;
            };
            tenant.is_looked_at = false;
            match tenant.forget_pauses(now) {
                Some(due) => self.look_at(&name, due),
                None => self.forget_if_idle(&name, now),
            }
        }
    }

    /// Schedules a check of a tenant, unless one is already scheduled.
    fn look_at(&mut self, name: &N, due: Duration) {
        if let Some(tenant) = self.tenants.get_mut(name)
            && !std::mem::replace(&mut tenant.is_looked_at, true)
        {
            self.last_look += 1;
            self.looks.insert((due, self.last_look), name.clone());
        }
    }

    fn pop_called(&mut self, room: Room, now: Duration) -> Option<(N, J, T)> {
        for _ in 0..self.calls.len() {
            let name = self.calls.pop_front()?;
            let tenant = self.tenants.get_mut(&name).expect("who calls is a tenant");
            if !tenant.has_room(room, now) {
                self.calls.push_back(name);
                continue;
            }
            let next = tenant.pop_called(room, now);
            if !tenant.turns.is_empty() && !std::mem::replace(&mut tenant.has_turn, true) {
                self.turns.push_back(name.clone());
            }
            if !tenant.called.is_empty() {
                self.calls.push_back(name.clone());
            }
            if let Some((job, item)) = next {
                return Some((name, job, item));
            }
            self.forget_if_idle(&name, now);
        }
        None
    }

    fn pop_in_turn(&mut self, room: Room, now: Duration) -> Option<(N, J, T)> {
        for _ in 0..self.turns.len() {
            let name = self.turns.pop_front()?;
            let tenant = self.tenants.get_mut(&name).expect("each turn has a tenant");
            if tenant.waiting == 0 {
                tenant.end_turns(now);
                self.forget_if_idle(&name, now);
                continue;
            }
            let next = match tenant.has_room(room, now) {
                true => tenant.pop_in_turn(room, now),
                false => None,
            };
            let Some((job, item, is_over)) = next else {
                self.turns.push_back(name);
                continue;
            };
            match is_over {
                true => self.turns.push_back(name.clone()),
                false => self.turns.push_front(name.clone()),
            }
            return Some((name, job, item));
        }
        None
    }

    /// Records that the server accepted a write sent at `sent`, which stays in flight until [`FairQueue::done`].
    /// `is_alike` is true if its latency can be compared with others.
    pub fn took(&mut self, sent: Duration, is_alike: bool, now: Duration) {
        self.limit.took(sent, is_alike, now);
    }

    /// Returns true if responses are slow because of the writes in flight.
    pub fn is_congested(&self) -> bool {
        self.limit.is_congested()
    }

    /// Handles the end of a write.
    pub fn done(&mut self, name: &N, job: &J, answer: WriteAnswer, now: Duration) {
        self.limit.answered(name, answer, now);
        let max = self.limit.max();
        if let Some(tenant) = self.tenants.get_mut(name) {
            tenant.in_flight -= 1;
            if let Some(lane) = tenant.lanes.get_mut(job) {
                lane.in_flight -= 1;
                if let WriteAnswer::Denied(pause) = answer {
                    lane.paused_until = lane.paused_until.max(now + pause);
                }
            }
            tenant.answered(answer, max, now);
            tenant.forget_if_idle(job, now);
        }
        if let WriteAnswer::Busy { pause, .. } | WriteAnswer::Denied(pause) = answer {
            self.pauses_until = self.pauses_until.max(now + pause);
            self.look_at(name, now + pause);
        }
        self.forget_if_idle(name, now);
        self.forget_pauses(now);
    }

    fn forget_if_idle(&mut self, name: &N, now: Duration) {
        let found = self.tenants.get(name);
        if found.is_some_and(|tenant| tenant.is_idle(now)) {
            self.tenants.remove(name);
        }
    }

    /// Returns when the first write that waits for the end of a pause may be sent.
    pub fn next_due(&self, now: Duration) -> Option<Duration> {
        if self.waiting == 0 || self.pauses_until <= now {
            return None;
        }
        let due = self.tenants.values().filter_map(Tenant::next_due);
        let due = due.map(|due| due.max(self.limit.paused_until()));
        due.filter(|due| *due > now).min()
    }

    /// Returns true if a tenant has enough writes in flight to gather their responses: half a batch, because one Job
    /// has at most a batch in flight on a busy server.
    pub fn may_gather(&self, tenant: &N) -> bool {
        let found = self.tenants.get(tenant);
        found.is_some_and(|tenant| tenant.in_flight >= BATCH / 2)
    }

    /// Returns the number of writes in flight.
    pub fn in_flight(&self) -> usize {
        self.limit.in_flight()
    }

    /// Returns the number of waiting writes.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Returns true if no write waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Returns the number of writes in flight, including those of other queues that share the limit.
    pub fn in_flight_of_all(&self) -> usize {
        self.limit.in_flight_of_all()
    }

    /// Sets the number of writes in flight of other queues that share the limit.
    pub fn set_in_flight_elsewhere(&mut self, in_flight: usize) {
        self.limit.set_elsewhere(in_flight);
    }

    /// Drops all waiting writes.
    pub fn clear(&mut self, now: Duration) {
        self.tenants.retain(|_, tenant| {
            tenant.waiting = 0;
            tenant.lanes.retain(|_, lane| {
                lane.waiting = Default::default();
                true
            });
            true
        });
        self.waiting = 0;
        self.end_turns(now);
    }
}

#[cfg(test)]
mod tests;
