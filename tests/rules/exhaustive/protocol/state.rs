//! Represents one situation of the counting protocol: each Pod on the server, in the controller's cache and in the
//! statuses, and everything in flight between server and controller.
//!
//! A Pod takes less than 128 bits, the rest less than 32. Pods are interchangeable, so a situation is kept with its
//! Pods sorted.

use lakh::decide::{End, Stage};

/// Maximum number of Pods.
pub(crate) const PODS: usize = 3;

/// Maximum number of status writes that may still arrive without a waiting controller: one for each fault and crash.
pub(crate) const STRAYS: usize = 4;

/// Maximum number of undelivered versions of the Job, or of a Pod.
pub(crate) const NEWS: usize = 4;

/// The state of a Pod, on the server or in an event: two bits of phase, then flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sight(u8);

impl Sight {
    /// It was not created yet, or no event was received.
    pub(crate) const NEVER: Self = Self(3);
    pub(crate) const GONE: Self = Self(7);
    /// It exists without its finalizer, and was not deleted before.
    pub(crate) const FREED: Self = Self(0);
    const FREED_DELETING: Self = Self(8);
    /// No event.
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

    /// Returns true if it has its finalizer. Without it, nothing that happens to the Pod matters any more.
    pub(crate) fn has_finalizer(self) -> bool {
        self.0 & 4 != 0 && self != Self::GONE
    }

    /// Returns true if it exists without its finalizer.
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

    /// An object that is being deleted is gone without its finalizer once its kubelet is done.
    pub(crate) fn freed(self) -> Self {
        match (self.is_deleting(), self.end()) {
            (true, Some(_)) => Self::GONE,
            (true, None) => Self::FREED_DELETING,
            (false, _) => Self::FREED,
        }
    }
}

/// The record of a Pod in a status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Count {
    #[default]
    Unnamed,
    /// Its UID is in `uncountedTerminatedPods`.
    Listed(End),
    /// It is in the counter, or its index in `completedIndexes`.
    Counted(End),
}

/// The change of a Pod by a status write: it is named, or its UID moves from the list into the counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) names: Option<End>,
    pub(crate) counts: bool,
}

/// The progress of the removal of a finalizer that the controller waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Removal {
    #[default]
    None,
    Sent,
    /// The Pod goes uncounted: the server removes it only if the Pod is as the controller knew it.
    SentIfUnchanged,
    /// The server will refuse it: the Pod has changed.
    Outdated,
    /// The server has done it; its response is in flight.
    Done,
    /// The response that the Pod is gone is in flight.
    NotFound,
}

/// The progress of the status write that the controller waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Writing {
    #[default]
    None,
    /// The server will accept it.
    Sent,
    /// The server will refuse it: the Job has changed.
    Outdated,
    /// The server has it; its response is in flight.
    Done,
}

/// A Pod in a situation: its state on the server and in the cache, its counting, and its part of everything in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    /// Its state on the server.
    pub(crate) now: Sight,
    /// Its record in the server's status.
    pub(crate) count: Count,
    /// Its state in the controller's cache.
    pub(crate) known: Sight,
    /// Undelivered events.
    pub(crate) news: [Sight; NEWS],
    pub(crate) stage: Stage,
    /// Its record in the status that the controller knows.
    pub(crate) base: Count,
    pub(crate) removal: Removal,
    /// A removal without a waiting controller may still arrive.
    pub(crate) stray_removal: bool,
    /// The same for a removal that requires an unchanged Pod.
    pub(crate) stray_if_unchanged: bool,
    /// Its part of the status write.
    pub(crate) change: Change,
    /// Its part of status writes that may still arrive without a waiting controller.
    pub(crate) strays: [Change; STRAYS],
    /// Its records in newer statuses that the controller has not received yet.
    pub(crate) statuses: [Count; NEWS],
}

/// The mode of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It has just started, and has or has not read the Pods and the Job.
    Starting {
        pods: bool,
        job: bool,
    },
    Running,
    /// Another client wrote the status. The controller decides nothing while writes are in flight, then starts anew.
    Outdated,
}

/// One situation: all Pods, and the state of the controller, its status writes and the Job's versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) pods: [Pod; PODS],
    pub(crate) mode: Mode,
    pub(crate) writing: Writing,
    pub(crate) strays: usize,
    /// Number of versions of the Job that the controller has not received yet. For each, true if its status differs.
    pub(crate) versions: usize,
    pub(crate) differs: [bool; NEWS],
}

/// A situation in its stored form.
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

    /// Drops the first events.
    pub(crate) fn drop_news(&mut self, count: usize) {
        self.news.rotate_left(count);
        self.news[NEWS - count..].fill(Sight::NOTHING);
    }

    /// Removes everything that cannot matter any more. This applies once the controller knows that the finalizer is
    /// off, and no event denies it. Then responses add nothing, and a settled Pod is like one left alone.
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

    /// A digest of 64 bits that identifies the situation.
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

/// Packs small numbers into a large one.
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
