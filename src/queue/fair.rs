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

/// No pause is longer, whatever is asked for: a header must not stop a tenant for a day.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// When so many tenants were refused and nothing was taken in between, it is not a matter of one tenant.
const SEVERAL: u32 = 3;

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server took it.
    Taken,
    /// The server is too busy, and asks to be left alone for so long.
    Busy(Duration),
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
    urgent: VecDeque<T>,
    usual: VecDeque<T>,
    under_way: usize,
    has_turn: bool,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self {
            urgent: VecDeque::new(),
            usual: VecDeque::new(),
            under_way: 0,
            has_turn: false,
        }
    }
}

impl<T> Lane<T> {
    fn pop(&mut self) -> Option<T> {
        self.urgent.pop_front().or_else(|| self.usual.pop_front())
    }

    fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.usual.is_empty()
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
    fn pop_in_turn(&mut self, free: usize) -> Option<(J, T, bool)> {
        for _ in 0..self.turns.len() {
            let job = self.turns.front()?;
            let lane = self.lanes.get_mut(job).expect("each turn has a lane");
            let item = match lane.under_way < free.saturating_mul(JOB_SHARE) {
                true => lane.pop(),
                false => None,
            };
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
                    self.forget_if_idle(&job);
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

    fn end_turns(&mut self) {
        self.has_turn = false;
        self.given = 0;
        while let Some(job) = self.turns.pop_front() {
            if let Some(lane) = self.lanes.get_mut(&job) {
                lane.has_turn = false;
            }
            self.forget_if_idle(&job);
        }
    }

    fn forget_if_idle(&mut self, job: &J) {
        let is_idle = |lane: &Lane<T>| lane.is_empty() && lane.under_way == 0 && !lane.has_turn;
        if self.lanes.get(job).is_some_and(is_idle) {
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
            (Answer::Taken | Answer::Other, _) => {}
        }
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
    pub fn push(&mut self, tenant: &N, job: &J, urgent: bool, item: T) {
        let lane = self.lane(tenant, job, urgent);
        if urgent {
            lane.urgent.push_back(item);
        } else {
            lane.usual.push_back(item);
        }
    }

    /// Puts a write back that the server was too busy to take: it is the Job's next.
    pub fn put_back(&mut self, tenant: &N, job: &J, item: T) {
        self.lane(tenant, job, false).urgent.push_front(item);
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
        let free = self.max.saturating_sub(self.under_way);
        if self.waiting == 0 || free == 0 || self.busy.until > now {
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
            tenant.end_turns();
            self.forget_if_idle(&name, now);
        }
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
            let item = match has_room && lane.under_way < free.saturating_mul(JOB_SHARE) {
                true => lane.pop(),
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
                tenant.end_turns();
                self.forget_if_idle(&name, now);
                continue;
            }
            let next = match tenant.has_room(free, now) {
                true => tenant.pop_in_turn(free),
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
        let answer = match answer {
            Answer::Busy(pause) => Answer::Busy(pause.min(LONGEST_PAUSE)),
            other => other,
        };
        self.under_way -= 1;
        let max = self.max;
        if let Some(tenant) = self.tenants.get_mut(name) {
            tenant.under_way -= 1;
            if let Some(lane) = tenant.lanes.get_mut(job) {
                lane.under_way -= 1;
            }
            tenant.answered(answer, max, now);
            tenant.forget_if_idle(job);
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
            Answer::Other => {}
        }
        self.forget_if_idle(name, now);
    }

    fn forget_if_idle(&mut self, name: &N, now: Duration) {
        let is_idle = |tenant: &Tenant<J, T>| {
            let refused = tenant.limit.is_some() || tenant.paused_until > now;
            tenant.lanes.is_empty() && !tenant.has_turn && !refused
        };
        if self.tenants.get(name).is_some_and(is_idle) {
            self.tenants.remove(name);
        }
    }

    /// When a write may go that waits for a busy server, if one does.
    pub fn next_due(&self, now: Duration) -> Option<Duration> {
        if self.waiting == 0 || self.pauses_until <= now {
            return None;
        }
        let waits = |tenant: &&Tenant<J, T>| tenant.waiting > 0;
        let waiting = self.tenants.values().filter(waits);
        let due = waiting.map(|tenant| tenant.paused_until.max(self.busy.until));
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
                lane.urgent.clear();
                lane.usual.clear();
                true
            });
            true
        });
        self.waiting = 0;
        self.end_turns(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Queue = FairQueue<&'static str, u32, u32>;

    const NOW: Duration = Duration::from_secs(100);

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// A line with so many places, in which each Job has so many writes to give.
    fn queue(max: usize, jobs: &[(&'static str, u32)], writes: u32) -> Queue {
        let mut queue = Queue::new(max);
        for write in 0..writes {
            for (tenant, job) in jobs {
                queue.push(tenant, job, false, write);
            }
        }
        queue
    }

    /// Takes the next write, which is done at once.
    fn next(queue: &mut Queue) -> Option<(&'static str, u32)> {
        let (tenant, job, _) = queue.pop(NOW)?;
        queue.done(&tenant, &job, Answer::Taken, NOW);
        Some((tenant, job))
    }

    /// Takes as many as may go; how many of them are of whom.
    fn fill(queue: &mut Queue, now: Duration) -> HashMap<(&'static str, u32), usize> {
        let mut under_way = HashMap::new();
        while let Some((tenant, job, _)) = queue.pop(now) {
            *under_way.entry((tenant, job)).or_default() += 1;
        }
        under_way
    }

    #[test]
    fn tenants_have_their_turns_and_jobs_within_them() {
        let mut queue = queue(1, &[("a", 1), ("a", 2), ("b", 3)], 100);
        let mut given = HashMap::<_, usize>::new();
        for _ in 0..16 * TURN {
            *given
                .entry(next(&mut queue).expect("all have more"))
                .or_default() += 1;
        }
        let of = |key| given[&key];
        assert!(of(("b", 3)).abs_diff(8 * TURN) <= TURN, "{given:?}");
        assert!(of(("a", 1)).abs_diff(of(("a", 2))) <= TURN, "{given:?}");
        let rest = std::iter::from_fn(|| next(&mut queue)).count();
        assert_eq!(rest, 300 - 16 * TURN);
        assert!(queue.tenants.is_empty() && queue.turns.is_empty() && queue.is_empty());
    }

    #[test]
    fn a_newcomer_waits_for_one_write_of_the_others() {
        for tenant in ["a", "b"] {
            let mut queue = queue(1, &[("a", 1), ("a", 2)], 100);
            for _ in 0..7 {
                next(&mut queue);
            }
            queue.push(&tenant, &3, false, 0);
            let newcomer = Some((tenant, 3));
            assert!(next(&mut queue) == newcomer || next(&mut queue) == newcomer);
        }
    }

    #[test]
    fn newcomers_do_not_keep_a_giant_from_its_turn() {
        let mut queue = queue(1, &[("a", 0)], 100);
        next(&mut queue);
        let mut of_giant = 0;
        for newcomer in 1..=100 {
            queue.push(&"a", &newcomer, false, 0);
            of_giant += usize::from(next(&mut queue) == Some(("a", 0)));
        }
        assert_eq!(of_giant, 50);
    }

    #[test]
    fn urgent_writes_go_first() {
        let mut queue = queue(1, &[("a", 1), ("b", 2)], 20);
        for _ in 0..4 {
            next(&mut queue);
        }
        queue.push(&"a", &1, true, 1000);
        queue.push(&"b", &2, true, 1000);
        let urgent = (0..4).filter(|_| {
            let (tenant, job, item) = queue.pop(NOW).expect("there are more");
            queue.done(&tenant, &job, Answer::Taken, NOW);
            item == 1000
        });
        assert_eq!(urgent.count(), 2);
    }

    #[test]
    fn nobody_gets_all_places_and_who_comes_new_finds_one() {
        let of = |jobs: &[(&'static str, u32)]| {
            let mut queue = queue(96, jobs, 200);
            let under_way = fill(&mut queue, NOW);
            queue.push(&"new", &100, false, 0);
            assert!(queue.pop(NOW).is_some(), "{under_way:?}");
            jobs.iter().map(|job| under_way[job]).collect::<Vec<_>>()
        };
        assert_eq!(of(&[("a", 1)]), [64]);
        let of_two = of(&[("a", 1), ("b", 2)]);
        assert!(
            of_two.iter().all(|count| (36..=42).contains(count)),
            "{of_two:?}"
        );
        let of_one_tenant: usize = of(&[("a", 1), ("a", 2), ("a", 3), ("a", 4)]).iter().sum();
        assert_eq!(of_one_tenant, 77);
        // A small line works, too.
        assert_eq!(fill(&mut queue(1, &[("a", 1)], 9), NOW)[&("a", 1)], 1);
        assert_eq!(fill(&mut queue(2, &[("a", 1)], 9), NOW)[&("a", 1)], 2);
    }

    #[test]
    fn what_one_tenant_is_refused_stops_no_other() {
        let mut queue = queue(96, &[("refused", 1), ("other", 2)], 500);
        let mut now = NOW;
        for _ in 0..200 {
            now += secs(0.1);
            for ((tenant, job), count) in fill(&mut queue, now) {
                let answer = match tenant {
                    "refused" => Answer::Busy(secs(1.0)),
                    _ => Answer::Taken,
                };
                for _ in 0..count {
                    queue.done(&tenant, &job, answer, now);
                    if tenant == "refused" {
                        queue.put_back(&tenant, &job, 0);
                    }
                }
            }
        }
        let refused = &queue.tenants["refused"];
        assert_eq!((refused.waiting, refused.limit), (500, Some(1)));
        assert!(!queue.tenants.contains_key("other"), "all of its are sent");
    }

    #[test]
    fn all_wait_when_several_are_refused() {
        let mut queue = queue(96, &[("a", 1), ("b", 2), ("c", 3), ("d", 4)], 9);
        for tenant in ["a", "b", "a", "c"] {
            let job = fill_one(&mut queue, tenant);
            queue.done(&tenant, &job, Answer::Busy(secs(2.0)), NOW);
        }
        assert!(queue.pop(NOW + secs(1.9)).is_none());
        assert_eq!(queue.next_due(NOW), Some(NOW + secs(2.0)));
        assert!(queue.pop(NOW + secs(2.0)).is_some());
    }

    /// Takes writes until one is of this tenant; the others are none of the server's business.
    fn fill_one(queue: &mut Queue, wanted: &str) -> u32 {
        loop {
            queue.busy.until = Duration::ZERO;
            for tenant in queue.tenants.values_mut() {
                tenant.paused_until = Duration::ZERO;
            }
            let (tenant, job, _) = queue.pop(NOW).expect("it has more");
            if tenant == wanted {
                return job;
            }
            queue.done(&tenant, &job, Answer::Other, NOW);
        }
    }

    #[test]
    fn a_pause_has_an_end_whatever_is_asked_for() {
        let mut queue = queue(4, &[("a", 1)], 9);
        queue.pop(NOW);
        queue.done(&"a", &1, Answer::Busy(Duration::MAX), NOW);
        assert!(queue.pop(NOW + LONGEST_PAUSE - secs(0.1)).is_none());
        assert!(queue.pop(NOW + LONGEST_PAUSE).is_some());
    }

    /// A server that takes so many writes at once, for so many seconds of ten waves each; how many it
    /// took, of those it could have taken.
    fn taken_by(limit: usize, seconds: u32) -> f64 {
        let mut queue = Queue::new(96);
        let mut taken = 0;
        for tenth in 0..seconds * 10 {
            let now = NOW + secs(0.1) * tenth;
            while queue.len() < 96 {
                queue.push(&"a", &1, false, 0);
            }
            let under_way = fill(&mut queue, now).values().sum();
            for nth in 0..under_way {
                let answer = match nth < limit {
                    true => Answer::Taken,
                    false => Answer::Busy(secs(1.0)),
                };
                taken += usize::from(answer == Answer::Taken);
                queue.done(&"a", &1, answer, now);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "far less than 2^52")]
        let share = taken as f64 / (limit as f64 * f64::from(seconds) * 10.0);
        share
    }

    #[test]
    fn a_server_that_takes_few_gets_few() {
        for limit in [1, 4, 20, 50] {
            let share = taken_by(limit, 300);
            assert!(share > 0.4, "{limit}: {share}");
        }
        assert!(taken_by(64, 10) > 0.99);
    }

    #[test]
    fn one_refusal_in_a_quiet_time_costs_little() {
        let mut queue = queue(96, &[("a", 1)], 1);
        queue.pop(NOW);
        queue.done(&"a", &1, Answer::Busy(secs(1.0)), NOW);
        for _ in 0..200 {
            queue.push(&"a", &1, false, 0);
        }
        assert_eq!(
            fill(&mut queue, NOW + secs(1.0)).values().sum::<usize>(),
            48
        );
    }

    #[test]
    fn what_waits_can_be_forgotten_while_some_is_under_way() {
        let mut queue = queue(4, &[("a", 1), ("b", 2)], 9);
        let under_way = fill(&mut queue, NOW);
        queue.clear(NOW);
        assert!(queue.is_empty() && queue.pop(NOW).is_none());
        for ((tenant, job), count) in under_way {
            for _ in 0..count {
                queue.done(&tenant, &job, Answer::Other, NOW);
            }
        }
        assert!(queue.tenants.is_empty() && queue.under_way == 0);
    }

    /// Random pushes, answers and pauses: no write is lost or sent twice, none goes beyond the limits,
    /// and nothing stays behind.
    #[test]
    fn nothing_is_lost_in_random_histories() {
        for seed in 1..200_u64 {
            let mut random = seed;
            let mut below = move |count: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % count
            };
            let mut queue = Queue::new(usize::try_from(below(9) + 1).expect("small"));
            let (mut now, mut pushed, mut done) = (NOW, 0, Vec::new());
            let mut under_way = Vec::new();
            for step in 0..600 {
                now += Duration::from_millis(below(700));
                match below(3) {
                    0 if step < 400 => {
                        let tenant =
                            ["a", "b", "c", "d"][usize::try_from(below(4)).expect("small")];
                        let job = u32::try_from(below(3)).expect("small");
                        queue.push(&tenant, &job, below(4) == 0, pushed);
                        pushed += 1;
                    }
                    1 => under_way.extend(queue.pop(now)),
                    _ if !under_way.is_empty() => {
                        let at = usize::try_from(below(under_way.len() as u64)).expect("small");
                        let (tenant, job, item) = under_way.swap_remove(at);
                        let busy = step < 400 && below(4) == 0;
                        let answer = match busy {
                            true => Answer::Busy(Duration::from_millis(below(3000))),
                            false => Answer::Taken,
                        };
                        queue.done(&tenant, &job, answer, now);
                        match busy {
                            true => queue.put_back(&tenant, &job, item),
                            false => done.push(item),
                        }
                    }
                    _ => {}
                }
                assert!(under_way.len() <= queue.max && queue.under_way == under_way.len());
            }
            loop {
                for (tenant, job, item) in under_way.drain(..) {
                    queue.done(&tenant, &job, Answer::Taken, now);
                    done.push(item);
                }
                now += secs(60.0);
                under_way.extend(queue.pop(now));
                if under_way.is_empty() {
                    break;
                }
            }
            done.sort_unstable();
            assert_eq!(done, (0..pushed).collect::<Vec<_>>(), "seed {seed}");
            let left = queue
                .tenants
                .values()
                .filter(|tenant| tenant.limit.is_none());
            assert_eq!(left.count(), 0, "seed {seed}");
        }
    }
}
