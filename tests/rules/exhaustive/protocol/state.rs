//! One situation of the counting protocol: what the server has of each Pod, what the controller has heard of
//! it, how far it has counted it, and what is on its way between the two.
//!
//! A Pod's share is less than 128 bits, the rest less than 32. Pods are interchangeable, so a situation is kept with its Pods
//! sorted.

use lakh::decide::{End, Stage};

/// The most Pods.
pub(crate) const PODS: usize = 3;

/// The most status writes that may still arrive though nobody waits for them: one for each fault and crash.
pub(crate) const STRAYS: usize = 4;

/// The most versions of the Job, or of a Pod, that are there to be heard of.
pub(crate) const NEWS: usize = 4;

/// What there is of a Pod, on the server or as it was heard of: two bits of phase, then flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sight(u8);

impl Sight {
    /// It was not made yet, or was never heard of.
    pub(crate) const NEVER: Self = Self(3);
    pub(crate) const GONE: Self = Self(7);
    /// It is there without its finalizer, and was not deleted before.
    pub(crate) const FREED: Self = Self(0);
    const FREED_DELETING: Self = Self(8);
    /// No news.
    pub(crate) const NOTHING: Self = Self(15);
    /// New, with its finalizer.
    pub(crate) const NEW: Self = Self(4);

    pub(crate) fn end(self) -> Option<End> {
        match self.0 & 3 {
            1 => Some(End::Success),
            2 => Some(End::Failure),
            _ => None,
        }
    }

    /// Whether it has its finalizer. Without, nothing of what happens to it matters any more.
    pub(crate) fn has_finalizer(self) -> bool {
        self.0 & 4 != 0 && self != Self::GONE
    }

    /// Whether it is there without its finalizer.
    pub(crate) fn is_freed(self) -> bool {
        self == Self::FREED || self == Self::FREED_DELETING
    }

    pub(crate) fn lives(self) -> bool {
        self.has_finalizer() && self.end().is_none()
    }

    pub(crate) fn is_deleting(self) -> bool {
        self.0 & 8 != 0
    }

    pub(crate) fn ended(self, end: End) -> Self {
        Self(self.0 | (1 + end as u8))
    }

    pub(crate) fn deleted(self) -> Self {
        Self(self.0 | 8)
    }

    /// An object that is to go is gone without its finalizer once its kubelet is done.
    pub(crate) fn freed(self) -> Self {
        match (self.is_deleting(), self.end()) {
            (true, Some(_)) => Self::GONE,
            (true, None) => Self::FREED_DELETING,
            (false, _) => Self::FREED,
        }
    }
}

/// What a status says of a Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Count {
    #[default]
    Unnamed,
    /// Its UID is in `uncountedTerminatedPods`.
    Listed(End),
    /// It is in the counter, or its index in `completedIndexes`.
    Counted(End),
}

/// What a status write changes for a Pod: names it, or moves its UID from the list into the counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) names: Option<End>,
    pub(crate) counts: bool,
}

/// How far the removal of a Pod's finalizer has come that the controller waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Removal {
    #[default]
    None,
    Sent,
    /// The Pod goes uncounted: the server does it only if the Pod is as the controller knew it.
    SentIfUnchanged,
    /// The server will refuse it: the Pod has changed.
    Outdated,
    /// The server has done it; its answer is on the way.
    Done,
    /// The answer is on the way that the Pod is gone.
    NotFound,
}

/// How far the status write has come that the controller waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Writing {
    #[default]
    None,
    /// The server will take it.
    Sent,
    /// The server will refuse it: the Job has changed.
    Outdated,
    /// The server has it; its answer is on the way.
    Done,
}

/// See the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    /// As the server has it.
    pub(crate) now: Sight,
    /// What the server's status says of it.
    pub(crate) count: Count,
    /// As the controller has heard of it last.
    pub(crate) known: Sight,
    /// What the watch is still to tell.
    pub(crate) news: [Sight; NEWS],
    pub(crate) stage: Stage,
    /// What the status says of it that the controller goes by.
    pub(crate) base: Count,
    pub(crate) removal: Removal,
    /// A removal for which nobody waits may still arrive.
    pub(crate) stray_removal: bool,
    /// Likewise one that is done only if the Pod has not changed.
    pub(crate) stray_if_unchanged: bool,
    /// Its part of the status write.
    pub(crate) change: Change,
    /// Its part of status writes that may still arrive though nobody waits for them.
    pub(crate) strays: [Change; STRAYS],
    /// What newer statuses say of it of which the controller is still to hear.
    pub(crate) statuses: [Count; NEWS],
}

/// How far the controller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It has just started, and has or has not read which Pods there are, and the Job.
    Starting {
        pods: bool,
        job: bool,
    },
    Running,
    /// Somebody else wrote the status: it decides nothing until nothing is under way, then starts anew.
    Outdated,
}

/// See the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) pods: [Pod; PODS],
    pub(crate) mode: Mode,
    pub(crate) writing: Writing,
    pub(crate) strays: usize,
    /// How many versions of the Job the controller is still to hear of, and for each whether its status is
    /// another one.
    pub(crate) versions: usize,
    pub(crate) differs: [bool; NEWS],
}

/// A situation as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    pods: [u128; PODS],
    rest: u32,
}

impl Pod {
    pub(crate) fn new(now: Sight) -> Self {
        Self {
            now,
            count: Count::Unnamed,
            known: now,
            news: [Sight::NOTHING; NEWS],
            stage: Stage::Live,
            base: Count::Unnamed,
            removal: Removal::None,
            stray_removal: false,
            stray_if_unchanged: false,
            change: Change::default(),
            strays: [Change::default(); STRAYS],
            statuses: [Count::Unnamed; NEWS],
        }
    }

    pub(crate) fn news(&self) -> &[Sight] {
        let none = |sight: &Sight| *sight == Sight::NOTHING;
        let len = self.news.iter().position(none).unwrap_or(NEWS);
        &self.news[..len]
    }

    pub(crate) fn push_news(&mut self) {
        let len = self.news().len();
        assert!(len < NEWS, "more news of a Pod than there can be");
        self.news[len] = self.now;
    }

    /// Drops the first news.
    pub(crate) fn drop_news(&mut self, count: usize) {
        self.news.rotate_left(count);
        self.news[NEWS - count..].fill(Sight::NOTHING);
    }

    /// The same without what cannot matter any more: once the controller knows that the finalizer is off, and
    /// is not to hear otherwise, no answer tells more, and to be settled is to be left alone.
    fn at_rest(mut self) -> Self {
        let is_off = self.known.is_freed() || self.known == Sight::GONE;
        if is_off && !self.news().iter().any(|news| news.has_finalizer()) {
            self.removal = Removal::None;
            self.news = [Sight::NOTHING; NEWS];
            if self.stage == Stage::Settled {
                self.stage = Stage::Live;
            }
        }
        self
    }

    fn pack(&self) -> u128 {
        let mut bits = Bits::default();
        bits.put(self.now.0.into(), 4);
        bits.put(self.known.0.into(), 4);
        for sight in self.news {
            bits.put(sight.0.into(), 4);
        }
        bits.put(self.count.code(), 3);
        bits.put(self.base.code(), 3);
        bits.put(code(self.stage), 4);
        bits.put(self.removal as u64, 3);
        bits.put(self.stray_removal.into(), 1);
        bits.put(self.stray_if_unchanged.into(), 1);
        bits.put(self.change.code(), 3);
        for change in self.strays {
            bits.put(change.code(), 3);
        }
        for count in self.statuses {
            bits.put(count.code(), 3);
        }
        bits.value
    }

    fn unpack(value: u128) -> Self {
        let mut bits = Bits { value, at: 0 };
        Self {
            now: Sight(bits.byte(4)),
            known: Sight(bits.byte(4)),
            news: std::array::from_fn(|_| Sight(bits.byte(4))),
            count: Count::of(bits.take(3)),
            base: Count::of(bits.take(3)),
            stage: STAGES[bits.index(4)],
            removal: REMOVALS[bits.index(3)],
            stray_removal: bits.flag(),
            stray_if_unchanged: bits.flag(),
            change: Change::of(bits.take(3)),
            strays: std::array::from_fn(|_| Change::of(bits.take(3))),
            statuses: std::array::from_fn(|_| Count::of(bits.take(3))),
        }
    }
}

impl State {
    pub(crate) fn packed(&self) -> Packed {
        let mut bits = Bits::default();
        let mode = match self.mode {
            Mode::Starting { pods, job } => u64::from(pods) + 2 * u64::from(job),
            Mode::Running => 4,
            Mode::Outdated => 5,
        };
        bits.put(mode, 3);
        bits.put(self.writing as u64, 2);
        bits.put(self.strays as u64, 3);
        bits.put(self.versions as u64, 3);
        for differs in self.differs {
            bits.put(differs.into(), 1);
        }
        let mut pods = self.pods.map(|pod| pod.at_rest().pack());
        pods.sort_unstable();
        Packed {
            pods,
            rest: u32::try_from(bits.value).expect("fewer than 32 bits"),
        }
    }
}

impl Packed {
    pub(crate) fn state(&self) -> State {
        let mut bits = Bits {
            value: self.rest.into(),
            at: 0,
        };
        let mode = match bits.take(3) {
            4 => Mode::Running,
            5 => Mode::Outdated,
            read => Mode::Starting {
                pods: read & 1 != 0,
                job: read & 2 != 0,
            },
        };
        let writing = [
            Writing::None,
            Writing::Sent,
            Writing::Outdated,
            Writing::Done,
        ];
        State {
            pods: self.pods.map(Pod::unpack),
            mode,
            writing: writing[bits.index(2)],
            strays: bits.index(3),
            versions: bits.index(3),
            differs: std::array::from_fn(|_| bits.flag()),
        }
    }

    /// 64 bits that tell it from others.
    pub(crate) fn digest(&self) -> u64 {
        let mut digest = u64::from(self.rest) ^ 0x9e37_79b9_7f4a_7c15;
        let halves = self
            .pods
            .iter()
            .flat_map(|pod| [*pod as u64, (*pod >> 64) as u64]);
        for half in halves {
            digest = (digest ^ half).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            digest = (digest ^ digest >> 32).wrapping_mul(0x94d0_49bb_1331_11eb);
            digest ^= digest >> 29;
        }
        digest
    }
}

const REMOVALS: [Removal; 6] = [
    Removal::None,
    Removal::Sent,
    Removal::SentIfUnchanged,
    Removal::Outdated,
    Removal::Done,
    Removal::NotFound,
];

const STAGES: [Stage; 11] = [
    Stage::Live,
    Stage::Delayed,
    Stage::Ended(End::Success),
    Stage::Ended(End::Failure),
    Stage::Listing(End::Success),
    Stage::Listing(End::Failure),
    Stage::Listed(End::Success),
    Stage::Listed(End::Failure),
    Stage::Stopped,
    Stage::Skipped,
    Stage::Settled,
];

fn code(stage: Stage) -> u64 {
    match stage {
        Stage::Live => 0,
        Stage::Delayed => 1,
        Stage::Ended(end) => 2 + end as u64,
        Stage::Listing(end) => 4 + end as u64,
        Stage::Listed(end) => 6 + end as u64,
        Stage::Stopped => 8,
        Stage::Skipped => 9,
        Stage::Settled => 10,
    }
}

impl Count {
    fn code(self) -> u64 {
        match self {
            Self::Unnamed => 0,
            Self::Listed(end) => 1 + end as u64,
            Self::Counted(end) => 3 + end as u64,
        }
    }

    fn of(code: u64) -> Self {
        match code {
            0 => Self::Unnamed,
            1 => Self::Listed(End::Success),
            2 => Self::Listed(End::Failure),
            3 => Self::Counted(End::Success),
            _ => Self::Counted(End::Failure),
        }
    }
}

impl Change {
    fn code(self) -> u64 {
        self.names.map_or(0, |end| 1 + end as u64) + 4 * u64::from(self.counts)
    }

    fn of(code: u64) -> Self {
        Self {
            names: [None, Some(End::Success), Some(End::Failure)][(code & 3) as usize],
            counts: code & 4 != 0,
        }
    }

    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// Numbers of few bits in one of many.
#[derive(Debug, Default)]
struct Bits {
    value: u128,
    at: u32,
}

impl Bits {
    fn put(&mut self, value: u64, width: u32) {
        self.value |= u128::from(value) << self.at;
        self.at += width;
    }

    fn take(&mut self, width: u32) -> u64 {
        let value = self.value >> self.at & ((1 << width) - 1);
        self.at += width;
        u64::try_from(value).expect("few bits")
    }

    fn byte(&mut self, width: u32) -> u8 {
        u8::try_from(self.take(width)).expect("few bits")
    }

    fn index(&mut self, width: u32) -> usize {
        usize::from(self.byte(width))
    }

    fn flag(&mut self) -> bool {
        self.take(1) != 0
    }
}
