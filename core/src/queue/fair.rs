//! The line of writes to the API server: which goes next, and how many are under way at once.
//!
//! Which write goes is decided at the moment when one may go, not before. Tenants (namespaces) have their
//! turns, and within each its Jobs have theirs; who comes new, or has something urgent, is called for one
//! write before the turns of all others. Nobody gets all places: a Job whose writes take long, and a tenant
//! of many such Jobs, leave room for others ([`JOB_SHARE`], [`TENANT_SHARE`]). What a server refuses because
//! it is busy is a matter of the tenant that was refused: fewer of its writes are under way then, and none
//! for as long as the server asks; only when several hear the same do all wait.
//!
//! Memory is what waits or is under way, and what was refused of late.
//!
//! Must not: read a clock (`now` is the time since the program began, by a clock that nobody sets), or know
//! what a write is.

use std::{collections::VecDeque, hash::Hash, time::Duration};

use hashbrown::HashMap;

/// So many writes a Job gives in its turn: what is done for one Job costs less at one go. With sixteen
/// nothing more is gained (1,000 Jobs of 100 Pods).
const TURN: usize = 8;

/// A Job may have this many times as many writes under way as there are places left, a tenant so many. One
/// Job alone gets two places of three, two get two of five each; there is always one left for who comes new.
/// Known from switches that share memory between ports as dynamic thresholds (Choudhury and Hahne, 1998).
const JOB_SHARE: usize = 2;
const TENANT_SHARE: usize = 4;

/// Refusals within so long of a change are of writes that were sent before it.
const WAVE: Duration = Duration::from_secs(1);

/// A tenant that was refused gets more places again after so long without a refusal: much longer than the
/// usual pause of a second, or there would be little but pauses.
const CALM: Duration = Duration::from_secs(3);

/// When so many tenants were refused and nothing was taken in between, it is not a matter of one tenant.
const SEVERAL: u32 = 3;

/// In which order a Job's writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Before all else of the Job, which is called for it.
    Urgent,
    /// Ends what was begun, and so goes before what begins: else all that ends would wait behind all that
    /// could still be begun.
    Ends,
    /// All else, what begins something among it.
    Usual,
}

/// What became of a write. How long anybody may ask to be left alone is for the reader of answers to bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server took it.
    Taken,
    /// The server is too busy, and asks to be left alone for so long.
    Busy(Duration),
    /// Somebody who was asked about it, such as an admission webhook, wants to hear nothing of this Job for
    /// so long.
    Denied(Duration),
    /// Anything else: it says nothing of how much the server can take.
    Other,
}

/// See the module's text. `N` names tenants, `J` their Jobs.
#[derive(Debug)]
pub struct FairQueue<N, J, T> {
    tenants: HashMap<N, Tenant<J, T>>,
    /// Tenants that may have something to give, in turn.
    turns: VecDeque<N>,
    /// Jobs that have one write to give before their turn.
    called: VecDeque<(N, J)>,
    /// Whether the next write is to be of those.
    call: bool,
    /// How many writes wait.
    waiting: usize,
    under_way: usize,
    max: usize,
    busy: Busy<N>,
    /// Until when somebody waits for a busy server, at the latest.
    pauses_until: Duration,
}

/// Whether the server refuses everybody.
#[derive(Debug)]
struct Busy<N> {
    last: Option<N>,
    tenants: u32,
    until: Duration,
}

#[derive(Debug)]
struct Tenant<J, T> {
    lanes: HashMap<J, Lane<T>>,
    turns: VecDeque<J>,
    /// How many writes the first of `turns` has given in this turn.
    given: usize,
    has_turn: bool,
    waiting: usize,
    under_way: usize,
    /// At most so many under way, if the server has refused some.
    limit: Option<usize>,
    /// When the limit changed last.
    changed: Duration,
    paused_until: Duration,
}

#[derive(Debug)]
struct Lane<T> {
    /// Of each rank.
    waiting: [VecDeque<T>; 3],
    under_way: usize,
    has_turn: bool,
    paused_until: Duration,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self {
            waiting: Default::default(),
            under_way: 0,
            has_turn: false,
            paused_until: Duration::ZERO,
        }
    }
}

impl<T> Lane<T> {
    /// Takes the next write, if one more may be under way with so many places free.
    fn pop(&mut self, free: usize, now: Duration) -> Option<T> {
        if self.under_way >= free.saturating_mul(JOB_SHARE) || self.paused_until > now {
            return None;
        }
        self.waiting.iter_mut().find_map(VecDeque::pop_front)
    }

    fn is_empty(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    fn is_idle(&self, now: Duration) -> bool {
        self.is_empty() && self.under_way == 0 && !self.has_turn && self.paused_until <= now
    }
}

impl<J, T> Default for Tenant<J, T> {
    fn default() -> Self {
        Self {
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            given: 0,
            has_turn: false,
            waiting: 0,
            under_way: 0,
            limit: None,
            changed: Duration::ZERO,
            paused_until: Duration::ZERO,
        }
    }
}

impl<J: Clone + Eq + Hash, T> Tenant<J, T> {
    /// Whether it may have one more write under way, with so many places free.
    fn has_room(&self, free: usize, now: Duration) -> bool {
        self.under_way < free.saturating_mul(TENANT_SHARE)
            && self.limit.is_none_or(|limit| self.under_way < limit)
            && self.paused_until <= now
    }

    /// Takes the next write of a Job that has room for it; whether that ends the Job's turn.
    fn pop_in_turn(&mut self, free: usize, now: Duration) -> Option<(J, T, bool)> {
        for _ in 0..self.turns.len() {
            let job = self.turns.front()?;
            let lane = self.lanes.get_mut(job).expect("each turn has a lane");
            let item = lane.pop(free, now);
            let is_empty = lane.is_empty();
            self.given += 1;
            let is_over = is_empty || item.is_none() || self.given == TURN;
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

    fn sent(&mut self, job: &J) {
        self.waiting -= 1;
        self.under_way += 1;
        let lane = self.lanes.get_mut(job);
        lane.expect("it gave a write").under_way += 1;
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

    fn answered(&mut self, answer: Answer, max: usize, now: Duration) {
        let since = now.saturating_sub(self.changed);
        match (answer, self.limit) {
            (Answer::Busy(pause), limit) => {
                self.paused_until = self.paused_until.max(now + pause);
                if limit.is_none() || since >= WAVE {
                    self.limit = Some((limit.unwrap_or(max) / 2).max(1));
                    self.changed = now;
                }
            }
            (Answer::Taken, Some(limit)) if since >= CALM => {
                let more = limit + 1 + limit / 4;
                self.limit = (more < max).then_some(more);
                self.changed = now;
            }
            (Answer::Taken | Answer::Denied(_) | Answer::Other, _) => {}
        }
    }

    /// Whether nothing is to be remembered of it.
    fn is_idle(&self, now: Duration) -> bool {
        let refused = self.limit.is_some() || self.paused_until > now;
        self.lanes.is_empty() && !self.has_turn && !refused
    }

    /// When one of its writes may go that waits.
    fn next_due(&self) -> Option<Duration> {
        let waiting = self.lanes.values().filter(|lane| !lane.is_empty());
        let due = waiting.map(|lane| lane.paused_until).min();
        due.map(|due| due.max(self.paused_until))
    }
}

impl<N: Clone + Eq + Hash, J: Clone + Eq + Hash, T> FairQueue<N, J, T> {
    /// An empty line of which at most `max` writes are under way at once.
    pub fn new(max: usize) -> Self {
        Self {
            tenants: HashMap::new(),
            turns: VecDeque::new(),
            called: VecDeque::new(),
            call: false,
            waiting: 0,
            under_way: 0,
            max: max.max(1),
            busy: Busy {
                last: None,
                tenants: 0,
                until: Duration::ZERO,
            },
            pauses_until: Duration::ZERO,
        }
    }

    /// Adds a write.
    pub fn push(&mut self, tenant: &N, job: &J, rank: Rank, item: T) {
        let lane = self.lane(tenant, job, rank == Rank::Urgent);
        lane.waiting[rank as usize].push_back(item);
    }

    /// Puts a write back that the server was too busy to take: it is the Job's next.
    pub fn put_back(&mut self, tenant: &N, job: &J, item: T) {
        let lane = self.lane(tenant, job, false);
        lane.waiting[Rank::Urgent as usize].push_front(item);
    }

    /// The lane that a write is about to be put into. A Job of which nothing waits is called for it, and
    /// has turns from then on if there is more.
    fn lane(&mut self, name: &N, job: &J, calls: bool) -> &mut Lane<T> {
        self.waiting += 1;
        let tenant = self.tenants.entry(name.clone()).or_default();
        tenant.waiting += 1;
        let lane = tenant.lanes.entry(job.clone()).or_default();
        if calls || (lane.is_empty() && !lane.has_turn) {
            self.called.push_back((name.clone(), job.clone()));
        }
        lane
    }

    /// Takes the next write that may go now. It is under way until [`FairQueue::done`] says so.
    pub fn pop(&mut self, now: Duration) -> Option<(N, J, T)> {
        if self.waiting == 0 {
            self.end_turns(now);
            return None;
        }
        let free = self.max.saturating_sub(self.under_way);
        if free == 0 || self.busy.until > now {
            return None;
        }
        let next = if self.call {
            self.pop_called(free, now)
                .or_else(|| self.pop_in_turn(free, now))
        } else {
            self.pop_in_turn(free, now)
                .or_else(|| self.pop_called(free, now))
        };
        let (name, job, item) = next?;
        self.call = !self.call;
        self.waiting -= 1;
        self.under_way += 1;
        let tenant = self.tenants.get_mut(&name);
        tenant.expect("it gave a write").sent(&job);
        if self.waiting == 0 {
            self.end_turns(now);
        }
        Some((name, job, item))
    }

    /// Takes everybody out of the turns who has nothing to give, when nobody has.
    fn end_turns(&mut self, now: Duration) {
        self.called.clear();
        while let Some(name) = self.turns.pop_front() {
            let Some(tenant) = self.tenants.get_mut(&name) else {
                continue;
            };
            tenant.end_turns(now);
            self.forget_if_idle(&name, now);
        }
        if self.pauses_until > Duration::ZERO && self.pauses_until <= now {
            self.pauses_until = Duration::ZERO;
            self.forget_pauses(now);
        }
    }

    /// Forgets whoever was kept for a pause alone.
    fn forget_pauses(&mut self, now: Duration) {
        self.tenants.retain(|_, tenant| {
            tenant.lanes.retain(|_, lane| !lane.is_idle(now));
            !tenant.is_idle(now)
        });
    }

    fn pop_called(&mut self, free: usize, now: Duration) -> Option<(N, J, T)> {
        while let Some((name, job)) = self.called.pop_front() {
            let Some(tenant) = self.tenants.get_mut(&name) else {
                continue;
            };
            let has_room = tenant.has_room(free, now);
            let Some(lane) = tenant.lanes.get_mut(&job) else {
                continue;
            };
            let item = match has_room {
                true => lane.pop(free, now),
                false => None,
            };
            // Who has more, or no room now, has a turn later.
            if !lane.is_empty() && !std::mem::replace(&mut lane.has_turn, true) {
                tenant.turns.push_back(job.clone());
                if !std::mem::replace(&mut tenant.has_turn, true) {
                    self.turns.push_back(name.clone());
                }
            }
            if let Some(item) = item {
                return Some((name, job, item));
            }
        }
        None
    }

    fn pop_in_turn(&mut self, free: usize, now: Duration) -> Option<(N, J, T)> {
        for _ in 0..self.turns.len() {
            let name = self.turns.pop_front()?;
            let tenant = self.tenants.get_mut(&name).expect("each turn has a tenant");
            if tenant.waiting == 0 {
                tenant.end_turns(now);
                self.forget_if_idle(&name, now);
                continue;
            }
            let next = match tenant.has_room(free, now) {
                true => tenant.pop_in_turn(free, now),
                false => None,
            };
            match next {
                Some((job, item, false)) => {
                    self.turns.push_front(name.clone());
                    return Some((name, job, item));
                }
                Some((job, item, true)) => {
                    self.turns.push_back(name.clone());
                    return Some((name, job, item));
                }
                None => self.turns.push_back(name),
            }
        }
        None
    }

    /// A write is no longer under way.
    pub fn done(&mut self, name: &N, job: &J, answer: Answer, now: Duration) {
        self.under_way -= 1;
        let max = self.max;
        if let Some(tenant) = self.tenants.get_mut(name) {
            tenant.under_way -= 1;
            if let Some(lane) = tenant.lanes.get_mut(job) {
                lane.under_way -= 1;
                if let Answer::Denied(pause) = answer {
                    lane.paused_until = lane.paused_until.max(now + pause);
                }
            }
            tenant.answered(answer, max, now);
            tenant.forget_if_idle(job, now);
        }
        match answer {
            Answer::Taken => (self.busy.last, self.busy.tenants) = (None, 0),
            Answer::Busy(pause) => {
                let until = now + pause;
                self.pauses_until = self.pauses_until.max(until);
                if self.busy.last.as_ref() != Some(name) {
                    self.busy.last = Some(name.clone());
                    self.busy.tenants += 1;
                }
                if self.busy.tenants >= SEVERAL {
                    self.busy.until = self.busy.until.max(until);
                }
            }
            Answer::Denied(pause) => self.pauses_until = self.pauses_until.max(now + pause),
            Answer::Other => {}
        }
        self.forget_if_idle(name, now);
    }

    fn forget_if_idle(&mut self, name: &N, now: Duration) {
        if self
            .tenants
            .get(name)
            .is_some_and(|tenant| tenant.is_idle(now))
        {
            self.tenants.remove(name);
        }
    }

    /// When a write may go that waits for a busy server, if one does.
    pub fn next_due(&self, now: Duration) -> Option<Duration> {
        if self.waiting == 0 || self.pauses_until <= now {
            return None;
        }
        let due = self.tenants.values().filter_map(Tenant::next_due);
        let due = due.map(|due| due.max(self.busy.until));
        due.filter(|due| *due > now).min()
    }

    /// How many writes are under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// How many writes wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether no write waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Forgets what waits.
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
