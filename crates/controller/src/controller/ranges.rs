//! Sends each shard the notices for its range, in a replica that shares ranges: the write deadline, and which kinds are
//! synced since the range was gained.
//!
//! Another replica may have written to a gained range, so its shard drops its caches and waits until each kind was
//! listed in full again. The other shards continue meanwhile: they apply the same lists, and drop nothing. A range to
//! be handed over is finished first, and given up once its shard has no requests in flight. The shard of another
//! replica's range gets no events, so that each replica caches only its own ranges.
//!
//! Must not: decide which replica has a range.

use std::collections::VecDeque;

use lakh_model::Monotonic;

use crate::informer::{Extent, Kinds, Notice};

/// The ranges of all replicas, with the state of this replica's own.
///
/// [`Ranges::follow`] applies the write deadlines. [`Ranges::begin`] must be called for each gained range, and
/// [`Ranges::retire`] for each surplus one. [`Ranges::poll_notice`] returns the resulting notices.
#[derive(Debug)]
pub(super) struct Ranges {
    all: Vec<SharedRange>,
    /// The scopes that are listed and watched.
    extents: Vec<Extent>,
    /// Queued notices, with their shards.
    notices: VecDeque<(usize, Notice)>,
    retirements: u64,
}

#[derive(Clone, Debug)]
struct SharedRange {
    /// The write deadline; the clock's start if the range is not ours.
    until: Monotonic,
    /// The number of its handover, if it is to be given up.
    retires: Option<u64>,
    /// Lists before this round do not count as synced.
    round: u64,
    /// The kinds that are synced since that round.
    known: Kinds,
}

impl Ranges {
    /// Creates this many ranges, none of them ours, that consist of these scopes.
    pub(super) fn new(count: usize, extents: Vec<Extent>) -> Self {
        let none = SharedRange {
            until: Monotonic::default(),
            retires: None,
            round: 0,
            known: Kinds::NONE,
        };
        Self {
            all: vec![none; count],
            extents,
            notices: VecDeque::new(),
            retirements: 0,
        }
    }

    pub(super) fn is_ours(&self, range: usize) -> bool {
        let range = self.all.get(range);
        range.is_some_and(|range| range.until > Monotonic::default())
    }

    /// Returns the write deadline of a range; the clock's start if it is not ours.
    pub(super) fn until(&self, range: usize) -> Monotonic {
        let range = self.all.get(range);
        range.map_or_else(Monotonic::default, |range| range.until)
    }

    /// Applies the write deadlines. Returns the gained ranges, for which the caller must call [`Ranges::begin`].
    pub(super) fn follow(&mut self, untils: &[Option<Monotonic>]) -> Vec<usize> {
        let mut gained = Vec::new();
        for (number, until) in untils.iter().enumerate() {
            let Some(range) = self.all.get_mut(number) else {
                break;
            };
            let was_ours = range.until > Monotonic::default();
            match until {
                Some(until) if !was_ours => {
                    range.until = *until;
                    gained.push(number);
                }
                Some(until) if *until != range.until => {
                    range.until = *until;
                    self.notices.push_back((number, Notice::Lead(*until)));
                }
                None if was_ours => {
                    (range.until, range.retires) = (Monotonic::default(), None);
                    self.notices
                        .push_back((number, Notice::Lead(Monotonic::default())));
                    self.forget(number);
                }
                _ => {}
            }
        }
        gained
    }

    /// Resets the shard of a gained range, and makes it wait for this round of lists.
    pub(super) fn begin(&mut self, number: usize, round: u64, history: Option<&Notice>) {
        let range = &mut self.all[number];
        (range.round, range.known) = (round, Kinds::NONE);
        let until = range.until;
        self.forget(number);
        if let Some(history) = history {
            let history = self.narrowed(number, history.clone());
            self.notices.push_back((number, history));
        }
        self.notices.push_back((number, Notice::Lead(until)));
    }

    /// Drops the caches of a range's shard.
    fn forget(&mut self, number: usize) {
        let extents = self.extents.iter().cloned();
        let notices = extents.map(|extent| (number, Notice::Forget(extent)));
        self.notices.extend(notices);
    }

    /// Starts the handover of these ranges.
    pub(super) fn retire(&mut self, surplus: impl IntoIterator<Item = usize>) {
        for number in surplus {
            let Some(range) = self.all.get_mut(number) else {
                continue;
            };
            if range.until > Monotonic::default() && range.retires.is_none() {
                self.retirements += 1;
                range.retires = Some(self.retirements);
                self.notices
                    .push_back((number, Notice::Retire(self.retirements)));
            }
        }
    }

    /// Returns the range of a finished handover. None if the range was lost since, and possibly gained again.
    pub(super) fn retired(&self, retirement: u64) -> Option<usize> {
        let mut all = self.all.iter();
        all.position(|range| range.retires == Some(retirement))
    }

    /// Adapts a notice for all shards to the shard of one range.
    pub(super) fn narrowed(&mut self, number: usize, notice: Notice) -> Notice {
        let Notice::History {
            number: history,
            known,
            is_heard,
            round,
            listed,
        } = notice
        else {
            return notice;
        };
        let range = &mut self.all[number];
        if round >= range.round {
            range.known = range.known.or(listed);
        }
        Notice::History {
            number: history,
            known: known.and(range.known),
            is_heard,
            round,
            listed,
        }
    }

    pub(super) fn poll_notice(&mut self) -> Option<(usize, Notice)> {
        self.notices.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::informer::Kind;

    fn at(secs: u64) -> Monotonic {
        Monotonic::default() + Duration::from_secs(secs)
    }

    fn pods() -> Extent {
        Extent {
            kind: Kind::Pod,
            namespace: None,
        }
    }

    fn told(ranges: &mut Ranges) -> Vec<(usize, Notice)> {
        std::iter::from_fn(|| ranges.poll_notice()).collect()
    }

    fn history(round: u64, listed: Kinds) -> Notice {
        Notice::History {
            number: 3,
            known: Kinds::ALL,
            is_heard: true,
            round,
            listed,
        }
    }

    fn known(notice: &Notice) -> Kinds {
        match notice {
            Notice::History { known, .. } => *known,
            _ => unreachable!("it tells of the history"),
        }
    }

    #[test]
    fn a_range_that_is_gained_knows_nothing_until_all_was_listed_since() {
        let mut ranges = Ranges::new(2, vec![pods()]);
        assert_eq!(ranges.follow(&[None, Some(at(10))]), [1]);
        ranges.begin(1, 5, Some(&history(4, Kinds::ALL)));
        let all = told(&mut ranges);
        assert!(all.iter().all(|(number, _)| *number == 1));
        assert_eq!(all[0].1, Notice::Forget(pods()));
        assert_eq!(known(&all[1].1), Kinds::NONE);
        assert_eq!(all[2].1, Notice::Lead(at(10)));
        let mut since = |round, listed| known(&ranges.narrowed(1, history(round, listed)));
        let but_pods = Kinds::ALL.without(Kind::Pod);
        assert_eq!(since(5, Kinds::NONE), Kinds::NONE);
        assert_eq!(since(5, but_pods), but_pods);
        // Another range is gained meanwhile, and everything is listed once more.
        assert_eq!(since(6, Kinds::NONE), but_pods);
        assert_eq!(since(6, Kinds::ALL.without(Kind::Job)), Kinds::ALL);
        assert_eq!(since(7, Kinds::NONE), Kinds::ALL);
    }

    #[test]
    fn a_late_finish_of_a_lost_range_is_ignored() {
        let mut ranges = Ranges::new(1, vec![pods()]);
        ranges.follow(&[Some(at(10))]);
        told(&mut ranges);
        ranges.retire([0]);
        ranges.retire([0]);
        assert_eq!(told(&mut ranges), [(0, Notice::Retire(1))]);
        assert_eq!(ranges.retired(1), Some(0));
        assert!(ranges.follow(&[None]).is_empty());
        assert_eq!(
            told(&mut ranges),
            [
                (0, Notice::Lead(Monotonic::default())),
                (0, Notice::Forget(pods()))
            ]
        );
        assert!(ranges.retired(1).is_none() && !ranges.is_ours(0));
        assert_eq!(ranges.follow(&[Some(at(20))]), [0]);
        assert_eq!(ranges.retired(1), None);
        told(&mut ranges);
        assert!(ranges.follow(&[Some(at(22))]).is_empty());
        assert_eq!(told(&mut ranges), [(0, Notice::Lead(at(22)))]);
    }
}
