//! Searches all reachable situations: those with less trouble first, then the nearer ones.
//!
//! A situation is examined again only if more trouble may still come than each time before. Everything that follows
//! with less was examined then.

use std::{collections::VecDeque, fmt::Write as _};

use super::{
    moves::{Budget, goes_on, next_steps},
    state::{Packed, State},
    steps::{Rules, Step, Wrong},
};

/// The result of a search.
#[derive(Debug)]
pub(crate) struct Found {
    /// Number of different situations, whatever trouble may still come.
    pub(crate) situations: usize,
    /// Number of examinations. A situation is examined again if more trouble, or another kind, may still come.
    pub(crate) looks: usize,
    pub(crate) steps: u64,
    /// Bytes held at the end.
    pub(crate) bytes: usize,
    /// The violation, and the shortest history that leads to it.
    pub(crate) wrong: Option<(Wrong, String)>,
}

struct Search {
    rules: Rules,
    /// In order, the most trouble first; none comes after one that it covers.
    budgets: Vec<Budget>,
    seen: Table,
    /// For each examination, the one from which its situation was reached first, and the step between them.
    came: Vec<(u32, Step)>,
    /// The situations still to be examined, by budget.
    waiting: Vec<VecDeque<(Packed, u32, Step)>>,
    steps: u64,
}

/// The first situation has no predecessor.
const NONE: u32 = u32::MAX;

/// Searches everything reachable, or until there is a violation.
pub(crate) fn search(rules: Rules, most: Budget) -> Found {
    let budgets = budgets(most);
    let mut search = Search {
        rules,
        waiting: vec![VecDeque::new(); budgets.len()],
        budgets,
        seen: Table::new(),
        came: Vec::new(),
        steps: 0,
    };
    let wrong = search.run();
    Found {
        situations: search.seen.len,
        looks: search.came.len(),
        steps: search.steps,
        bytes: search.seen.slots.len() * size_of::<Seen>()
            + search.came.len() * size_of::<(u32, Step)>(),
        wrong,
    }
}

fn budgets(most: Budget) -> Vec<Budget> {
    let mut all = Vec::new();
    for crashes in 0..=most.crashes {
        for faults in 0..=most.faults {
            for deletions in 0..=most.deletions {
                all.extend((0..=most.stops).map(|stops| Budget {
                    crashes,
                    faults,
                    deletions,
                    stops,
                }));
            }
        }
    }
    let sum = |left: &Budget| left.crashes + left.faults + left.deletions + left.stops;
    all.sort_by_key(|left| std::cmp::Reverse(sum(left)));
    assert!(all.len() <= 64, "a bit for each");
    all
}

impl Search {
    fn run(&mut self) -> Option<(Wrong, String)> {
        // No step leads to the first situation.
        self.waiting[0].push_back((State::new().packed(), NONE, Step::Crash));
        for number in 0..self.budgets.len() {
            let budget = self.budgets[number];
            let covered = self.budgets.iter().enumerate();
            let covered = covered.filter(|(_, other)| budget.covers(**other));
            let covered = covered.fold(0_u64, |bits, (other, _)| bits | 1 << other);
            while let Some((packed, from, step)) = self.waiting[number].pop_front() {
                let seen = self.seen.entry(packed.digest());
                if seen.looked & 1 << number != 0 {
                    continue;
                }
                let is_new = seen.looked == 0;
                seen.looked |= covered;
                let at = u32::try_from(self.came.len()).expect("fewer than 2^32");
                self.came.push((from, step));
                let state = packed.state();
                let found = self.look(&state, budget, at);
                let found = match is_new {
                    true => found.and_then(|()| goes_on(self.rules, &state)),
                    false => found,
                };
                if let Err((way, wrong)) = found {
                    return Some((wrong, self.tell(at, &way)));
                }
            }
        }
        None
    }

    /// Takes each possible next step.
    fn look(&mut self, state: &State, budget: Budget, at: u32) -> Result<(), (Vec<Step>, Wrong)> {
        for step in next_steps(self.rules, state) {
            let Some(left) = budget.after(step) else {
                continue;
            };
            self.steps += 1;
            let mut next = *state;
            next.take(self.rules, step)
                .map_err(|wrong| (vec![step], wrong))?;
            let packed = next.packed();
            let number = self.budgets.iter().position(|other| *other == left);
            let number = number.expect("it is one of them");
            let seen = self.seen.entry(packed.digest());
            if (seen.looked | seen.waits) & 1 << number == 0 {
                seen.waits |= 1 << number;
                self.waiting[number].push_back((packed, at, step));
            }
        }
        Ok(())
    }

    /// Formats the steps that lead to an examination, and some more. Pods are identified by their place in the
    /// situation before.
    fn tell(&self, at: u32, more: &[Step]) -> String {
        let mut way = Vec::new();
        let mut at = at;
        while let Some((from, step)) = self.came.get(at as usize).filter(|(from, _)| *from != NONE)
        {
            way.push(*step);
            at = *from;
        }
        let mut text = String::new();
        for step in way.iter().rev().chain(more) {
            writeln!(text, "  {step:?}").expect("writing to a string");
        }
        text
    }
}

/// The situations seen, by digest.
struct Table {
    slots: Vec<Seen>,
    len: usize,
}

/// The budgets for which a situation was examined, and for which it waits.
#[derive(Clone, Copy, Default)]
struct Seen {
    digest: u64,
    looked: u64,
    waits: u64,
}

impl Table {
    fn new() -> Self {
        Self {
            slots: vec![Seen::default(); 1 << 16],
            len: 0,
        }
    }

    fn place(slots: &[Seen], digest: u64) -> usize {
        let mask = slots.len() - 1;
        let mut place = usize::try_from(digest >> 20).expect("64 bits") & mask;
        while slots[place].digest != digest && slots[place].digest != 0 {
            place = (place + 1) & mask;
        }
        place
    }

    /// The entry of a digest. It is new if nothing is noted in it.
    fn entry(&mut self, digest: u64) -> &mut Seen {
        let digest = digest.max(1);
        let mut place = Self::place(&self.slots, digest);
        if self.slots[place].digest == 0 {
            if self.len * 4 >= self.slots.len() * 3 {
                self.grow();
                place = Self::place(&self.slots, digest);
            }
            self.len += 1;
            self.slots[place].digest = digest;
        }
        &mut self.slots[place]
    }

    fn grow(&mut self) {
        let mut slots = vec![Seen::default(); self.slots.len() * 2];
        for seen in self.slots.iter().filter(|seen| seen.digest != 0) {
            let place = Self::place(&slots, seen.digest);
            slots[place] = *seen;
        }
        self.slots = slots;
    }
}
