//! Leader election over a Lease, as a value: client-go's `leaderelection`, with its fields and timings.
//!
//! The Lease names its holder, who leads and renews it every retry period. Another takes it when it has seen no
//! change for the duration of the lease. A leader that could not renew it within the renew deadline leads no more,
//! well before another may take over, and stands by like the others. (client-go's ends its process then.) The leader counts from when it sent its last successful
//! update, the others from when they saw the last change, each by its own monotonic clock. The times in the Lease are
//! for people to read.
//!
//! Replicas that share ranges of the namespaces hold one Lease together ([`sharing`]): under one name, which says how many
//! ranges there are. To all others they are one candidate.
//!
//! Must not: read a clock, send, or write objects.

mod roster;
mod sharing;

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use crate::model::{Division, Monotonic, Now, Partition, Time, Timeout};

pub use roster::{Roster, RosterEntry};
use sharing::Sharing;

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimings {
    /// For so long others leave a Lease alone of which they see no change.
    pub lease_duration: Duration,
    /// For so long a leader leads without a successful update.
    pub renew_deadline: Duration,
    /// How long to wait between tries, to take or to renew.
    pub retry_period: Duration,
}

/// kube-controller-manager's.
impl Default for LeaseTimings {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Timings by which two could lead at once, or nobody for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTimings {
    /// A leader would lead on when another may already have taken the Lease.
    #[error("the lease duration must be longer than the renew deadline")]
    Lease,
    /// One failed try would be the end.
    #[error("the renew deadline must be longer than 1.2 retry periods")]
    Renew,
    /// A Lease has whole seconds, of which there must be one. Others go by these, and would be too early by the rest.
    #[error("the lease duration must be whole seconds, and the retry period more than 0")]
    Odd,
}

/// As client-go: a wait is up to so many tenths longer than the retry period.
const JITTER_TENTHS: u32 = 12;

/// How often a try whose update failed begins anew without a pause. Who may not write would go on so.
const AGAIN: u32 = 1;

/// The same for replicas that hold a Lease together: another of them was often quicker.
const AGAIN_SHARING: u32 = 4;

impl LeaseTimings {
    /// Whether they fit together; client-go's `NewLeaderElector` asks the same.
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

    /// How long a call may take: as in kube-controller-manager, half the renew deadline, so that there is time for
    /// another.
    pub fn call_timeout(&self) -> Duration {
        self.renew_deadline / 2
    }
}

/// What is in a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "LeaderElectionRecord")]
pub struct LeaseRecord {
    /// Who leads; nobody if empty.
    pub holder: String,
    /// How long others leave it alone, in seconds.
    pub seconds: u32,
    /// Since when it is the holder's.
    pub acquired: Option<Time>,
    /// When the holder said last that it leads.
    pub renewed: Option<Time>,
    /// How often another became the holder.
    pub transitions: u32,
    /// Which replicas hold it together, if they do.
    pub roster: Option<Roster>,
}

/// A Lease as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What is in it.
    pub record: LeaseRecord,
    /// Its resource version.
    pub version: String,
}

/// What an election asks of the server, one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseCall {
    /// Reads the Lease.
    Get,
    /// Creates it.
    Create(LeaseRecord),
    /// Replaces what is in it, if its resource version is still this one.
    Update(Lease),
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// The Lease as it is now.
    Found(Lease),
    /// There is none.
    NotFound,
    /// Anything else: it is not known whether the call took effect.
    Failed,
}

/// What somebody is in an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Another leads, or nobody.
    Standby,
    /// It leads until then, if it hears of no success before.
    Leader(Monotonic),
    /// It was asked to stop: the Lease is given back, if it was its own.
    Stopped,
}

/// The next call, or the one under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Read,
    Create,
    /// Takes the Lease, or renews it.
    Take,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TryStep {
    /// A try begins then.
    Wait(Monotonic),
    Next(Ask),
    /// Sent then.
    UnderWay(Ask, Monotonic),
}

/// See the module's text.
#[derive(Debug)]
#[doc(alias = "LeaderElector")]
pub struct Election {
    identity: String,
    timings: LeaseTimings,
    role: Role,
    step: TryStep,
    /// The Lease as it was seen last, and since when it has been so.
    seen: Option<(Lease, Monotonic)>,
    /// It is to be given back.
    stops: bool,
    /// How often this try has failed and begun anew.
    begun_again: u32,
    tries: u32,
    sharing: Option<Sharing>,
    /// There is something to write before the next renewal.
    hurries: bool,
    /// When the Lease was asked for last.
    begun: Monotonic,
}

impl Election {
    /// One that is on standby, under a name that nobody else has.
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

    /// One for a replica of this name, which nobody else has, that shares the ranges with others. It leads as one
    /// of those who hold the Lease together; what it may write, [`Election::range_until`] says.
    pub fn sharing(replica: String, partition: Partition, timings: LeaseTimings) -> Self {
        let sharing = Sharing::new(replica, partition.ranges, timings.lease_duration);
        Self {
            sharing: Some(sharing),
            ..Self::new(shared_holder(partition), timings)
        }
    }

    /// Until when a range may be written, if it is this replica's.
    pub fn range_until(&self, range: u32, now: Monotonic) -> Option<Monotonic> {
        let has = self.sharing.as_ref().is_some_and(|it| it.has(range));
        match self.role(now) {
            Role::Leader(until) if has => Some(until),
            _ => None,
        }
    }

    /// The ranges that are this replica's and should be others'.
    pub fn surplus(&self, now: Monotonic) -> BTreeSet<u32> {
        let sharing = self.sharing.as_ref();
        sharing.map_or_else(BTreeSet::new, |it| it.surplus(now))
    }

    /// Gives a range up, of which nothing may be written any more.
    pub fn give_up(&mut self, range: u32, now: Monotonic) {
        if let Some(sharing) = &mut self.sharing {
            sharing.give_up(range);
            self.hurry(now);
        }
    }

    /// What is to be done does not wait until the next renewal is due.
    fn hurry(&mut self, now: Monotonic) {
        match self.step {
            TryStep::Wait(due) => self.step = TryStep::Wait(due.min(now)),
            TryStep::Next(_) | TryStep::UnderWay(..) => self.hurries = true,
        }
    }

    /// What it is now.
    pub fn role(&self, now: Monotonic) -> Role {
        match self.role {
            _ if self.stops => Role::Stopped,
            Role::Leader(until) if until <= now => Role::Standby,
            role => role,
        }
    }

    /// Leads no more, if the renew deadline is over.
    fn look_at_deadline(&mut self, now: Monotonic) {
        if matches!(self.role, Role::Leader(until) if until <= now) {
            self.lose();
        }
    }

    /// Leads no more. An answer to a renewal would come too late; what that has changed is read.
    fn lose(&mut self) {
        if let Some(sharing) = &mut self.sharing {
            sharing.lose();
        }
        (self.role, self.step) = match self.stops {
            true => (Role::Stopped, self.step),
            false => (Role::Standby, TryStep::Next(Ask::Read)),
        };
    }

    /// Whether there is nothing left to ask for.
    pub fn is_over(&self) -> bool {
        self.role == Role::Stopped
    }

    /// Who holds the Lease, as far as was seen.
    pub fn holder(&self) -> Option<&str> {
        let (lease, _) = self.seen.as_ref()?;
        Some(lease.record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    /// The Lease as it was seen last.
    pub fn lease(&self) -> Option<&Lease> {
        self.seen.as_ref().map(|(lease, _)| lease)
    }

    /// What the Lease is was heard of, or that there is none. Who could have something of it does not wait to look.
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

    /// By which others know it.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Gives the Lease back, so that nobody has to wait for its end. Nothing may be written any more. To ask for it again
    /// changes nothing.
    #[doc(alias = "ReleaseOnCancel")]
    pub fn stop(&mut self, now: Monotonic) {
        if !std::mem::replace(&mut self.stops, true) {
            self.release(now);
        }
    }

    fn release(&mut self, now: Monotonic) {
        self.look_at_deadline(now);
        match (self.role, self.step) {
            // What is renewed just now has no version yet.
            (Role::Leader(_), TryStep::UnderWay(..)) => {}
            (Role::Leader(_), _) => self.step = TryStep::Next(Ask::Release),
            _ => self.role = Role::Stopped,
        }
    }

    /// Gives the next call.
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
                    // Of those who hold it together, another has written since.
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

    /// What is to be in the Lease when this one has nothing of it any more.
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

    /// What is to be in the Lease while it is ours.
    fn record(&mut self, now: Now) -> LeaseRecord {
        let roster = self.sharing.as_mut().map(|it| it.next(now.monotonic));
        let seen = self.seen.as_ref().map(|(lease, _)| &lease.record);
        let ours = seen.filter(|record| record.holder == self.identity);
        let seconds = u32::try_from(self.timings.lease_duration.as_secs()).unwrap_or(u32::MAX);
        LeaseRecord {
            holder: self.identity.clone(),
            // Strangers leave it alone as long as the most patient of those who hold it asks for.
            seconds: seconds.max(roster.as_ref().map_or(0, Roster::seconds)),
            acquired: ours.and_then(|ours| ours.acquired).or(Some(now.wall)),
            renewed: Some(now.wall),
            transitions: seen.map_or(0, |seen| {
                seen.transitions + u32::from(seen.holder != self.identity)
            }),
            roster,
        }
    }

    /// Takes in what came of the call under way.
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
            // Another wrote, or our own write took effect though it failed, or the answer is to another call.
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

    /// Whether a try that failed begins anew without a pause.
    fn may_begin_again(&self) -> bool {
        match (&self.sharing, self.role) {
            (Some(_), _) => self.begun_again < AGAIN_SHARING,
            (None, Role::Leader(_)) => self.begun_again < AGAIN,
            (None, _) => false,
        }
    }

    /// The Lease is read: whether it is to be had.
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
            // One that somebody else has written, or no roster, is a stranger's: nobody goes by it, until it ends.
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

    /// How long to wait before the next renewal. Who shares renews between two of the others' writes: the longer a
    /// renewal takes and the more of them there are, the more rarely, and never all at the same time.
    fn renewal_pause(&mut self, at: Monotonic) -> Duration {
        let retry = self.timings.retry_period;
        let Some(sharing) = &self.sharing else {
            return retry;
        };
        if std::mem::take(&mut self.hurries) {
            return Duration::ZERO;
        }
        let turns = at.since(self.begun).saturating_mul(sharing.replicas());
        let pause = retry.max(turns).min(self.timings.call_timeout());
        pause * (750 + self.permille() / 4) / 1000
    }

    /// Until the next look at another's Lease. Those who wait for the same one do not all ask at once.
    fn pause(&mut self, at: Monotonic) -> TryStep {
        let retry = self.timings.retry_period;
        TryStep::Wait(at + retry + retry * JITTER_TENTHS * self.permille() / 10_000)
    }

    /// Another number each time, and other numbers for others.
    fn permille(&mut self) -> u32 {
        self.tries = self.tries.wrapping_add(1);
        let mut hasher = DefaultHasher::new();
        let replica = self.sharing.as_ref().map(Sharing::replica);
        (&self.identity, replica, self.tries).hash(&mut hasher);
        u32::try_from(hasher.finish() % 1000).unwrap_or(0)
    }

    /// When to ask for calls again though nothing was heard.
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

/// Under what name they hold their Lease together who share so, and nobody else.
fn shared_holder(partition: Partition) -> String {
    let end = match partition.by {
        Division::Remainder => "",
        Division::Interval => "-intervals",
    };
    format!("replicas-share-{}{end}", partition.ranges)
}

#[cfg(test)]
mod tests;
