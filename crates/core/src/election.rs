//! Elects a leader by a Lease, as a state machine without IO: client-go's `leaderelection`, with its fields and
//! timings.
//!
//! The Lease names its holder, the leader, which renews it every retry period. Another replica takes the Lease if it
//! has seen no change for the lease duration. A leader that could not renew it within the renew deadline stops leading,
//! well before another may take over, and becomes a standby. (kube-controller-manager exits then.) The leader counts
//! from the time when it sent its last successful update; the others count from the last change that they saw. Each
//! uses its own monotonic clock. The times in the Lease are for users only.
//!
//! Replicas that share ranges of the namespaces hold one Lease together ([`sharing`]), under one name that contains the
//! number of ranges. To all others they are one candidate.
//!
//! Must not: read a clock, send, or write objects.

mod sharing;

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use crate::model::{Division, Monotonic, Now, Partition, Timeout};

pub use crate::model::{Lease, LeaseRecord, Roster, RosterEntry};
use sharing::Sharing;

/// The durations of leader election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimings {
    /// Other replicas may take a Lease after they have seen no change for this long.
    pub lease_duration: Duration,
    /// A leader stops leading after this long without a successful update.
    pub renew_deadline: Duration,
    /// The wait between attempts to take or renew the Lease.
    pub retry_period: Duration,
}

/// The defaults of kube-controller-manager.
impl Default for LeaseTimings {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Timings that could lead to two leaders at once, or to none for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTimings {
    /// A leader could still lead when another may already have taken the Lease.
    #[error("the lease duration must be longer than the renew deadline")]
    Lease,
    /// One failed attempt would end the leadership.
    #[error("the renew deadline must be longer than 1.2 retry periods")]
    Renew,
    /// A Lease stores whole seconds, at least one. Other replicas read the stored value, and would take over too early
    /// by a dropped fraction.
    #[error("the lease duration must be whole seconds, and the retry period more than 0")]
    Odd,
}

/// As in client-go: a wait is up to this many tenths of the retry period longer.
const JITTER_TENTHS: u32 = 12;

/// The number of times that an attempt restarts at once after a failed update. Without a limit a replica without write
/// permission would never pause.
const AGAIN: u32 = 1;

/// The same for replicas that share a Lease: their updates often conflict.
const AGAIN_SHARING: u32 = 4;

impl LeaseTimings {
    /// Checks that the timings fit together, as client-go's `NewLeaderElector` does.
    pub fn check(&self) -> Result<(), BadTimings> {
        let seconds = Duration::from_secs(self.lease_duration.as_secs());
        if seconds.is_zero() || seconds < self.lease_duration || self.retry_period.is_zero() {
            return Err(BadTimings::Odd);
        }
        if self.lease_duration <= self.renew_deadline {
            return Err(BadTimings::Lease);
        }
        match self.renew_deadline > self.retry_period * JITTER_TENTHS / 10 {
            true => Ok(()),
            false => Err(BadTimings::Renew),
        }
    }

    /// Returns the request timeout: half the renew deadline, as in kube-controller-manager, so there is time for
    /// another request.
    pub fn call_timeout(&self) -> Duration {
        self.renew_deadline / 2
    }
}

/// A request of an election to the API server; one is in flight at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseCall {
    /// Reads the Lease.
    Get,
    /// Creates it.
    Create(LeaseRecord),
    /// Replaces its content, if its resourceVersion is still this one.
    Update(Lease),
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// The current Lease.
    Found(Lease),
    /// The Lease does not exist.
    NotFound,
    /// Any other result: it is unknown whether the request took effect.
    Failed,
}

/// The role of a replica in an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Another replica leads, or none.
    Standby,
    /// The replica leads until this time, unless a renewal succeeds before.
    Leader(Monotonic),
    /// The replica was asked to stop: it releases the Lease if it holds it.
    Stopped,
}

/// The kind of the next request, or of the one in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Read,
    Create,
    /// Takes or renews the Lease.
    Take,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TryStep {
    /// The next attempt begins at this time.
    Wait(Monotonic),
    Next(Ask),
    /// The request in flight, and when it was sent.
    UnderWay(Ask, Monotonic),
}

/// One replica's part in an election. Send each request from [`Election::poll_call`], return its result to
/// [`Election::answer`], and call again after [`Election::poll_timeout`].
///
/// Invariant: the role is `Leader` only until the renew deadline after the last successful update was sent.
#[derive(Debug)]
#[doc(alias = "LeaderElector")]
pub struct Election {
    identity: String,
    timings: LeaseTimings,
    role: Role,
    step: TryStep,
    /// The Lease as last read, and since when it is unchanged.
    seen: Option<(Lease, Monotonic)>,
    /// The Lease is to be released.
    stops: bool,
    /// The number of restarts of the current attempt.
    begun_again: u32,
    tries: u32,
    sharing: Option<Sharing>,
    /// An update is needed before the next renewal.
    hurries: bool,
    /// When the Lease was last requested.
    begun: Monotonic,
}

impl Election {
    /// Creates a standby with a unique name.
    pub fn new(identity: String, timings: LeaseTimings) -> Self {
        Self {
            identity,
            timings,
            role: Role::Standby,
            step: TryStep::Next(Ask::Read),
            seen: None,
            stops: false,
            begun_again: 0,
            tries: 0,
            sharing: None,
            hurries: false,
            begun: Monotonic::default(),
        }
    }

    /// Creates a replica with a unique name that shares the ranges with others. It leads as one of the holders of the
    /// common Lease; [`Election::range_until`] limits its writes.
    pub fn sharing(replica: String, partition: Partition, timings: LeaseTimings) -> Self {
        let sharing = Sharing::new(replica, partition.ranges, timings.lease_duration);
        Self {
            sharing: Some(sharing),
            ..Self::new(shared_holder(partition), timings)
        }
    }

    /// Returns until when a range may be written, if this replica owns it.
    pub fn range_until(&self, range: u32, now: Monotonic) -> Option<Monotonic> {
        let has = self.sharing.as_ref().is_some_and(|it| it.has(range));
        match self.role(now) {
            Role::Leader(until) if has => Some(until),
            _ => None,
        }
    }

    /// Returns the ranges that this replica owns and should hand over.
    pub fn surplus(&self, now: Monotonic) -> BTreeSet<u32> {
        let sharing = self.sharing.as_ref();
        sharing.map_or_else(BTreeSet::new, |it| it.surplus(now))
    }

    /// Hands over a range. The caller must not write any of it any more.
    pub fn give_up(&mut self, range: u32, now: Monotonic) {
        if let Some(sharing) = &mut self.sharing {
            sharing.give_up(range);
            self.hurry(now);
        }
    }

    /// Sends the next update without waiting for the next renewal.
    fn hurry(&mut self, now: Monotonic) {
        match self.step {
            TryStep::Wait(due) => self.step = TryStep::Wait(due.min(now)),
            TryStep::Next(_) | TryStep::UnderWay(..) => self.hurries = true,
        }
    }

    /// Returns the current role.
    pub fn role(&self, now: Monotonic) -> Role {
        match self.role {
            _ if self.stops => Role::Stopped,
            Role::Leader(until) if until <= now => Role::Standby,
            role => role,
        }
    }

    /// Stops leading if the renew deadline has passed.
    fn look_at_deadline(&mut self, now: Monotonic) {
        if matches!(self.role, Role::Leader(until) if until <= now) {
            self.lose();
        }
    }

    /// Stops leading. The response to a renewal in flight would come too late; the Lease is read again instead.
    fn lose(&mut self) {
        if let Some(sharing) = &mut self.sharing {
            sharing.lose();
        }
        (self.role, self.step) = match self.stops {
            true => (Role::Stopped, self.step),
            false => (Role::Standby, TryStep::Next(Ask::Read)),
        };
    }

    /// Returns true if there are no more requests to send.
    pub fn is_over(&self) -> bool {
        self.role == Role::Stopped
    }

    /// Returns the holder of the Lease, as last read.
    pub fn holder(&self) -> Option<&str> {
        let (lease, _) = self.seen.as_ref()?;
        Some(lease.record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    /// Returns the Lease as last read.
    pub fn lease(&self) -> Option<&Lease> {
        self.seen.as_ref().map(|(lease, _)| lease)
    }

    /// Handles a watch event for the Lease, or its absence. A replica that could gain by the change reads the Lease at
    /// once.
    pub fn hear(&mut self, record: Option<&LeaseRecord>, now: Monotonic) {
        let is_free = record.is_none_or(|record| record.holder.is_empty());
        let is_news = match (&self.sharing, record) {
            (Some(sharing), Some(record)) if record.holder == self.identity => {
                sharing.is_news(record.roster.as_ref())
            }
            _ => is_free && self.role == Role::Standby,
        };
        if is_news {
            self.hurry(now);
        }
    }

    /// Returns the name of this candidate in the Lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Releases the Lease, so that no replica has to wait until it expires. Nothing may be written any more. Further
    /// calls have no effect.
    #[doc(alias = "ReleaseOnCancel")]
    pub fn stop(&mut self, now: Monotonic) {
        if !std::mem::replace(&mut self.stops, true) {
            self.release(now);
        }
    }

    fn release(&mut self, now: Monotonic) {
        self.look_at_deadline(now);
        match (self.role, self.step) {
            // A renewal is in flight, so the new resourceVersion is not known yet.
            (Role::Leader(_), TryStep::UnderWay(..)) => {}
            (Role::Leader(_), _) => self.step = TryStep::Next(Ask::Release),
            _ => self.role = Role::Stopped,
        }
    }

    /// Returns the next request to send.
    pub fn poll_call(&mut self, now: Now) -> Option<LeaseCall> {
        let at = now.monotonic;
        self.look_at_deadline(at);
        if self.is_over() {
            return None;
        }
        if let TryStep::UnderWay(_, sent) = self.step
            && at.since(sent) >= self.timings.call_timeout()
        {
            self.answer(LeaseAnswer::Failed, now);
        }
        let ask = match self.step {
            TryStep::Wait(due) if due <= at => {
                self.begun_again = 0;
                match self.role {
                    // Another holder of the shared Lease has written since.
                    Role::Leader(_) if self.sharing.is_none() => Ask::Take,
                    _ => Ask::Read,
                }
            }
            TryStep::Next(ask) => ask,
            TryStep::Wait(_) | TryStep::UnderWay(..) => return None,
        };
        self.step = TryStep::UnderWay(ask, at);
        match ask {
            Ask::Read => self.begun = at,
            Ask::Create | Ask::Take | Ask::Release => self.hurries = false,
        }
        let seen = self.seen.as_ref().map(|(lease, _)| lease.version.clone());
        Some(match (ask, seen) {
            (Ask::Create, _) => LeaseCall::Create(self.record(now)),
            (Ask::Take, Some(version)) => LeaseCall::Update(Lease {
                record: self.record(now),
                version,
            }),
            (Ask::Release, Some(version)) => LeaseCall::Update(Lease {
                record: self.last_record(now),
                version,
            }),
            _ => LeaseCall::Get,
        })
    }

    /// Returns the content of the Lease after this replica leaves.
    fn last_record(&mut self, now: Now) -> LeaseRecord {
        let record = self.record(now);
        let sharing = self.sharing.as_ref();
        match sharing.and_then(|it| it.others(now.monotonic)) {
            Some(others) => LeaseRecord {
                roster: Some(others),
                ..record
            },
            None => LeaseRecord {
                holder: String::new(),
                seconds: 1,
                acquired: Some(now.wall),
                roster: None,
                ..record
            },
        }
    }

    /// Returns the content of the Lease while this replica holds it.
    fn record(&mut self, now: Now) -> LeaseRecord {
        let roster = self.sharing.as_mut().map(|it| it.next(now.monotonic));
        let seen = self.seen.as_ref().map(|(lease, _)| &lease.record);
        let ours = seen.filter(|record| record.holder == self.identity);
        let seconds = u32::try_from(self.timings.lease_duration.as_secs()).unwrap_or(u32::MAX);
        LeaseRecord {
            holder: self.identity.clone(),
            // Other candidates must wait for the longest duration that any of its holders asks for.
            seconds: seconds.max(roster.as_ref().map_or(0, Roster::seconds)),
            acquired: ours.and_then(|ours| ours.acquired).or(Some(now.wall)),
            renewed: Some(now.wall),
            transitions: seen.map_or(0, |seen| {
                seen.transitions + u32::from(seen.holder != self.identity)
            }),
            roster,
        }
    }

    /// Handles the result of the request in flight.
    pub fn answer(&mut self, answer: LeaseAnswer, now: Now) {
        let at = now.monotonic;
        self.look_at_deadline(at);
        let TryStep::UnderWay(ask, sent) = self.step else {
            return;
        };
        if self.is_over() {
            return;
        }
        self.step = match (ask, answer) {
            (Ask::Read, LeaseAnswer::Found(lease)) => self.read(lease, at),
            (Ask::Read | Ask::Take, LeaseAnswer::NotFound) => TryStep::Next(Ask::Create),
            (Ask::Create | Ask::Take, LeaseAnswer::Found(lease))
                if lease.record.holder == self.identity =>
            {
                if let Some(sharing) = &mut self.sharing {
                    sharing.written(lease.record.roster.as_ref(), at);
                }
                self.seen = Some((lease, at));
                self.role = Role::Leader(sent + self.timings.renew_deadline);
                TryStep::Wait(at + self.renewal_pause(at))
            }
            (Ask::Release, LeaseAnswer::Found(lease)) => {
                self.seen = Some((lease, at));
                self.role = Role::Stopped;
                TryStep::Wait(at)
            }
            // Another replica wrote, our own write took effect although it failed, or the response belongs to another
            // request.
            (Ask::Take | Ask::Release, LeaseAnswer::Failed | LeaseAnswer::Found(_))
                if self.may_begin_again() =>
            {
                self.begun_again += 1;
                TryStep::Next(Ask::Read)
            }
            (_, LeaseAnswer::Failed | LeaseAnswer::NotFound | LeaseAnswer::Found(_)) => {
                TryStep::Wait(at + self.timings.retry_period)
            }
        };
        if self.stops && ask != Ask::Release {
            self.release(at);
        }
    }

    /// Returns true if a failed attempt restarts without a pause.
    fn may_begin_again(&self) -> bool {
        match (&self.sharing, self.role) {
            (Some(_), _) => self.begun_again < AGAIN_SHARING,
            (None, Role::Leader(_)) => self.begun_again < AGAIN,
            (None, _) => false,
        }
    }

    /// Handles a Lease that was read, and decides whether to take it.
    fn read(&mut self, lease: Lease, at: Monotonic) -> TryStep {
        let since = match &self.seen {
            Some((seen, since)) if seen.record == lease.record => *since,
            _ => at,
        };
        let record = &lease.record;
        let is_over = at.since(since) >= Duration::from_secs(record.seconds.into());
        let mut is_ours = record.holder == self.identity;
        if let Some(sharing) = &mut self.sharing {
            let roster = record.roster.as_ref();
            // A foreign or missing roster belongs to another client: no replica uses it before the Lease expires.
            is_ours &= sharing.is_sound(roster);
            sharing.see(roster.filter(|_| is_ours), at);
        }
        let is_free = record.holder.is_empty() || is_over;
        self.seen = Some((lease, since));
        match self.role {
            _ if is_ours => TryStep::Next(Ask::Take),
            Role::Leader(_) => {
                self.role = Role::Standby;
                self.pause(at)
            }
            _ if is_free => TryStep::Next(Ask::Take),
            _ => self.pause(at),
        }
    }

    /// Returns the wait before the next renewal. A sharing replica renews between the writes of the others. The wait
    /// grows with the duration of a renewal and the number of replicas, and varies so that they do not all renew at
    /// once. A renewal that takes as long as the last one, and as much again, ends before the deadline.
    fn renewal_pause(&mut self, at: Monotonic) -> Duration {
        let retry = self.timings.retry_period;
        let Some(sharing) = &self.sharing else {
            return retry;
        };
        if std::mem::take(&mut self.hurries) {
            return Duration::ZERO;
        }
        let took = at.since(self.begun);
        let turns = took.saturating_mul(sharing.replicas());
        let spare = match self.role {
            Role::Leader(until) => until.since(at).saturating_sub(took) / 2,
            _ => Duration::ZERO,
        };
        let pause = retry.max(turns).min(spare);
        pause * (750 + self.permille() / 4) / 1000
    }

    /// Waits until the next read of another holder's Lease. The wait varies so that standbys do not all read at once.
    fn pause(&mut self, at: Monotonic) -> TryStep {
        let retry = self.timings.retry_period;
        TryStep::Wait(at + retry + retry * JITTER_TENTHS * self.permille() / 10_000)
    }

    /// Returns a number that differs per call and per replica.
    fn permille(&mut self) -> u32 {
        self.tries = self.tries.wrapping_add(1);
        let mut hasher = DefaultHasher::new();
        let replica = self.sharing.as_ref().map(Sharing::replica);
        (&self.identity, replica, self.tries).hash(&mut hasher);
        u32::try_from(hasher.finish() % 1000).unwrap_or(0)
    }

    /// Returns when to call [`Election::poll_call`] again without any event.
    pub fn poll_timeout(&self) -> Timeout {
        if self.is_over() {
            return Timeout::default();
        }
        let step = match self.step {
            TryStep::Wait(due) => due,
            TryStep::Next(_) => Monotonic::default(),
            TryStep::UnderWay(_, sent) => sent + self.timings.call_timeout(),
        };
        match self.role {
            Role::Leader(until) => Timeout::from(step.min(until)),
            _ => step.into(),
        }
    }
}

/// Returns the holder name that is common to the replicas of this partition, and to no others.
fn shared_holder(partition: Partition) -> String {
    let end = match partition.by {
        Division::Remainder => "",
        Division::Interval => "-intervals",
    };
    format!("replicas-share-{}{end}", partition.ranges)
}

#[cfg(test)]
mod tests;
