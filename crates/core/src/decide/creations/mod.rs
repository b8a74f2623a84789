//! Tracks requested Pods that do not exist yet.
//!
//! Source: docs/rules/jobs.md, 4.7. Creations are identified by the names of their Pods. A creation with a lost
//! response is requested again under its name, so it can never create two Pods.
//!
//! Must not: decide how many Pods there should be, or choose their names.

mod slow_start;

use std::{collections::BTreeMap, time::Duration};

use crate::model::{FailureCounts, Limits, Monotonic, Report};

use super::{
    backoff::Backoff,
    effect::{CreateError, CreationId, CreationReason, NewPod},
};

use self::slow_start::SlowStart;

/// The time for which a creation counts after a refusal by a terminating namespace: upstream's expiry of expectations.
const VOID_LIFE: Duration = Duration::from_secs(300);

/// The time for which an unwanted creation without a response counts. An API server gives up on a request after a
/// minute (`--request-timeout`), and the watch then delivers the Pod, if there is one.
const UNCONFIRMED_LIFE: Duration = Duration::from_secs(90);

/// A requested Pod that has no record yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Creation {
    failures: Option<FailureCounts>,
    state: CreationState,
    /// An earlier attempt had no clear result: a refusal of a later one proves nothing about the first.
    doubted: bool,
}

/// The state of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CreationState {
    /// The request is in flight.
    Sent,
    /// The result is unknown; the Pod will be requested again under the same name.
    Unconfirmed,
    /// Refused because the namespace is terminating. Upstream counts such a Pod as active and forgets it after five
    /// minutes. Nothing better can be done than to wait for the end.
    Void,
}

/// The requested Pods of a Job, by name. A creation leaves when its Pod arrives, when it has certainly failed, or when
/// it expires.
#[derive(Clone, Debug)]
#[doc(alias = "ControllerExpectations")]
pub(super) struct Creations {
    outstanding: BTreeMap<CreationId, Creation>,
    unconfirmed: u32,
    void: u32,
    /// Unconfirmed creations with an index that is out of range now: it may be in range again.
    out_of_range: Vec<(CreationId, Creation)>,
    /// The end of the time for which void and unconfirmed creations count.
    lost_until: Option<Monotonic>,
    /// The number of Pods still missing after the last decision.
    missing: u32,
    slow_start: SlowStart,
    backoff: Backoff,
    /// The stored status has become stale.
    changed: bool,
}

impl Creations {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            outstanding: BTreeMap::new(),
            unconfirmed: 0,
            void: 0,
            out_of_range: Vec::new(),
            lost_until: None,
            missing: 0,
            slow_start: SlowStart::new(limits.max_pod_writes),
            backoff: Backoff::new(limits.retry_backoff),
            changed: false,
        }
    }

    /// Inherits the state that is not stored: backoff, and creations with an unknown result. Returns the creations that
    /// count.
    pub(super) fn succeed_to(
        &mut self,
        before: &Self,
        has_index: impl Fn(u32) -> bool,
    ) -> Vec<CreationId> {
        self.backoff = before.backoff.clone();
        self.lost_until = before.lost_until;
        let all = before.outstanding.iter().map(|(id, one)| (*id, *one));
        let unconfirmed = all.filter(|(_, one)| one.state == CreationState::Unconfirmed);
        for (id, creation) in unconfirmed.chain(before.out_of_range.iter().copied()) {
            if id.index.is_none_or(&has_index) {
                self.unconfirmed += 1;
                self.outstanding.insert(id, creation);
            } else {
                self.out_of_range.push((id, creation));
            }
        }
        self.outstanding.keys().copied().collect()
    }

    /// Returns the number of creations.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.outstanding.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Returns the number of requests in flight.
    pub(super) fn under_way(&self) -> u32 {
        self.len() - self.void - self.unconfirmed
    }

    /// Returns the number of creations voided by the end of the namespace, while they count.
    pub(super) fn void(&self) -> u32 {
        self.void
    }

    pub(super) fn has_unconfirmed(&self) -> bool {
        self.unconfirmed > 0
    }

    /// Returns the number of Pods still missing after the last decision.
    pub(super) fn missing(&self) -> u32 {
        self.missing
    }

    /// Sets the number of missing Pods.
    pub(super) fn set_missing(&mut self, missing: u32) {
        self.missing = missing;
    }

    /// Returns when refused creations may be retried.
    pub(super) fn opens_at(&self, now: Monotonic) -> Option<Monotonic> {
        self.backoff.opens_at(now)
    }

    /// True if the last creation that was answered was refused.
    pub(super) fn are_refused(&self) -> bool {
        self.backoff.has_failed()
    }

    /// Returns when void and unconfirmed creations expire.
    pub(super) fn lost_end(&self, now: Monotonic) -> Option<Monotonic> {
        self.lost_until
            .filter(|until| self.void + self.unconfirmed > 0 && *until > now)
    }

    /// Returns true if the stored status has become stale since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Returns how many more creations may be sent now.
    pub(super) fn room(&mut self) -> u32 {
        let under_way = self.under_way();
        self.slow_start.room(under_way)
    }

    /// Records a sent creation; one Pod less is missing.
    pub(super) fn send(&mut self, id: CreationId, failures: Option<FailureCounts>) {
        self.slow_start.sent(1);
        self.missing -= 1;
        self.outstanding.insert(
            id,
            Creation {
                failures,
                state: CreationState::Sent,
                doubted: false,
            },
        );
    }

    /// Requests unconfirmed Pods again, under the same names. They go before new ones and in the rounds of slow start,
    /// so a failing server does not get more requests each time.
    pub(super) fn repeat(&mut self, reason: CreationReason, now: Monotonic) -> Vec<NewPod> {
        if self.unconfirmed == 0 || self.backoff.is_closed(now) {
            return Vec::new();
        }
        let room = self.room() as usize;
        let all = self.outstanding.iter_mut();
        let unconfirmed = all.filter(|(_, one)| one.state == CreationState::Unconfirmed);
        let again = unconfirmed.take(room).map(|(id, creation)| {
            creation.state = CreationState::Sent;
            id.pod(creation.failures, reason)
        });
        let again: Vec<NewPod> = again.collect();
        let count = u32::try_from(again.len()).expect("no more than there is room for");
        self.slow_start.sent(count);
        self.unconfirmed -= count;
        again
    }

    /// Handles a successful creation. Returns true if it was outstanding.
    pub(super) fn created(&mut self, id: CreationId, now: Monotonic) -> bool {
        self.backoff.succeed(now);
        self.forget(id)
    }

    /// Forgets a creation, successful or not. Returns true if there was one.
    pub(super) fn forget(&mut self, id: CreationId) -> bool {
        let Some(creation) = self.outstanding.remove(&id) else {
            return false;
        };
        match creation.state {
            CreationState::Sent => {}
            CreationState::Unconfirmed => self.unconfirmed -= 1,
            CreationState::Void => {
                self.void -= 1;
                self.changed = true;
            }
        }
        true
    }

    /// Handles a failed creation or an unknown result. Returns true if the creation is over, and a report for users.
    pub(super) fn not_created(
        &mut self,
        id: CreationId,
        error: CreateError,
        now: Monotonic,
    ) -> (bool, Option<Report>) {
        let creation = self.outstanding.get(&id);
        let doubted = creation.is_some_and(|one| one.doubted);
        match error {
            CreateError::NameTaken => {
                let again = self.backoff.fail_if_again(now);
                let message = "Error creating: the names of new Pods are taken";
                let report = again.then(|| Report::warning("FailedCreate", message));
                return (self.forget(id), report);
            }
            CreateError::Refused if !doubted => {
                self.slow_start.refused();
                self.backoff.fail(now);
                return (self.forget(id), None);
            }
            CreateError::RefusedFor(wait) if !doubted => {
                self.slow_start.refused();
                self.backoff.fail_until(wait, now);
                return (self.forget(id), None);
            }
            CreateError::Unknown | CreateError::Refused | CreateError::RefusedFor(_) => {
                self.slow_start.refused();
                self.backoff.fail(now);
                self.doubt(id, now);
            }
            CreateError::NotSent if !doubted => return (self.forget(id), None),
            // The result of the earlier attempt is still unknown.
            CreateError::NotSent => self.doubt(id, now),
            CreateError::NamespaceTerminating => {
                self.set_state(id, CreationState::Void, now + VOID_LIFE);
            }
        }
        (false, None)
    }

    fn doubt(&mut self, id: CreationId, now: Monotonic) {
        if let Some(creation) = self.outstanding.get_mut(&id) {
            creation.doubted = true;
            self.set_state(id, CreationState::Unconfirmed, now + UNCONFIRMED_LIFE);
        }
    }

    /// Changes the state of a creation that has no response in flight any more. Two responses may arrive: the Pod came
    /// and went before the first, and was requested again.
    fn set_state(&mut self, id: CreationId, state: CreationState, until: Monotonic) {
        let Some(creation) = self.outstanding.get(&id).copied() else {
            return;
        };
        self.forget(id);
        match state {
            CreationState::Sent => {}
            CreationState::Unconfirmed => self.unconfirmed += 1,
            CreationState::Void => {
                self.void += 1;
                self.changed = true;
            }
        }
        self.outstanding.insert(id, Creation { state, ..creation });
        self.lost_until = self.lost_until.max(Some(until));
    }

    /// Forgets void creations that have expired, and unconfirmed ones unless they will be `repeated`. Returns the
    /// forgotten ones.
    pub(super) fn forget_lost(&mut self, repeated: bool, now: Monotonic) -> Vec<CreationId> {
        if self.void + self.unconfirmed == 0 && self.out_of_range.is_empty() {
            self.lost_until = None;
        }
        if self.lost_until.is_none_or(|until| until > now) {
            return Vec::new();
        }
        self.out_of_range.clear();
        let is_lost = |creation: &Creation| match creation.state {
            CreationState::Sent => false,
            CreationState::Unconfirmed => !repeated,
            CreationState::Void => true,
        };
        let lost = self.outstanding.iter().filter(|(_, one)| is_lost(one));
        let lost: Vec<CreationId> = lost.map(|(id, _)| *id).collect();
        for id in &lost {
            self.forget(*id);
        }
        lost
    }

    /// Panics if the sums do not match the creations. Returns the creations.
    pub(super) fn check(&self) -> impl Iterator<Item = &CreationId> {
        for (state, kept) in [
            (CreationState::Unconfirmed, self.unconfirmed),
            (CreationState::Void, self.void),
        ] {
            let found = self.outstanding.values().filter(|one| one.state == state);
            assert_eq!(found.count(), kept as usize, "{state:?} creations");
        }
        self.outstanding.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PodSuffix, Uid, names::Series};

    fn id(count: u32) -> CreationId {
        CreationId {
            index: None,
            suffix: PodSuffix::nth(Series::new(Uid::from_u128(1), None), count),
        }
    }

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_secs(1000 + seconds)
    }

    fn sent(count: u32) -> Creations {
        let mut creations = Creations::new(&Limits::default());
        creations.set_missing(count);
        (0..count).for_each(|count| creations.send(id(count), None));
        creations
    }

    #[test]
    fn a_creation_with_two_answers_counts_once() {
        let mut creations = sent(1);
        for error in [
            CreateError::Unknown,
            CreateError::Unknown,
            CreateError::NamespaceTerminating,
            CreateError::NamespaceTerminating,
        ] {
            creations.not_created(id(0), error, at(0));
            assert_eq!(creations.check().count(), 1);
        }
        assert_eq!((creations.void(), creations.has_unconfirmed()), (1, false));
    }

    #[test]
    fn a_refusal_after_a_lost_answer_says_nothing_of_the_first_attempt() {
        let mut creations = sent(2);
        assert_eq!(
            creations.not_created(id(0), CreateError::Unknown, at(0)),
            (false, None)
        );
        assert_eq!(
            creations.not_created(id(1), CreateError::Refused, at(0)),
            (true, None)
        );
        assert_eq!((creations.len(), creations.under_way()), (1, 0));
        assert!(
            creations.repeat(CreationReason::New, at(0)).is_empty(),
            "at once"
        );
        let again = creations.repeat(CreationReason::New, at(1));
        assert_eq!(again.iter().map(NewPod::id).collect::<Vec<_>>(), [id(0)]);
        assert_eq!(
            creations.not_created(id(0), CreateError::Refused, at(1)),
            (false, None)
        );
        assert_eq!(
            creations.not_created(id(0), CreateError::NotSent, at(1)),
            (false, None)
        );
        assert!(creations.created(id(0), at(2)));
        assert!(!creations.created(id(0), at(2)), "it was there already");
    }

    #[test]
    fn a_creation_that_is_not_sent_again_is_forgotten_in_time() {
        let mut creations = sent(1);
        creations.not_created(id(0), CreateError::Unknown, at(0));
        creations.repeat(CreationReason::New, at(1));
        // Nothing is unconfirmed while a request is in flight.
        assert!(creations.forget_lost(false, at(1)).is_empty());
        creations.not_created(id(0), CreateError::NotSent, at(2));
        assert!(creations.forget_lost(false, at(2)).is_empty());
        assert_eq!(creations.lost_end(at(2)), Some(at(92)));
        assert_eq!(creations.forget_lost(false, at(92)), [id(0)]);
    }

    #[test]
    fn a_creation_without_response_counts_for_a_while() {
        let mut creations = sent(2);
        creations.not_created(id(0), CreateError::NamespaceTerminating, at(0));
        creations.not_created(id(1), CreateError::Unknown, at(0));
        assert_eq!(
            (creations.void(), creations.lost_end(at(1))),
            (1, Some(at(300)))
        );
        assert!(creations.take_changed() && !creations.take_changed());
        assert!(creations.forget_lost(false, at(299)).is_empty());
        assert_eq!(creations.forget_lost(true, at(300)), [id(0)]);
        assert_eq!(creations.forget_lost(false, at(300)), [id(1)]);
        assert!(creations.take_changed() && creations.is_empty());
    }

    #[test]
    fn a_new_machine_keeps_creations_with_unknown_results() {
        let mut creations = sent(3);
        creations.not_created(id(1), CreateError::Unknown, at(0));
        let indexed = CreationId {
            index: Some(7),
            ..id(3)
        };
        creations.set_missing(1);
        creations.send(indexed, None);
        creations.not_created(indexed, CreateError::Unknown, at(0));
        let mut next = Creations::new(&Limits::default());
        assert_eq!(next.succeed_to(&creations, |index| index < 7), [id(1)]);
        let mut later = Creations::new(&Limits::default());
        assert_eq!(later.succeed_to(&next, |_| true), [id(1), indexed]);
        // A creation that is no longer wanted counts no longer than before.
        assert_eq!(later.lost_end(at(1)), Some(at(90)));
        assert_eq!(later.forget_lost(false, at(90)), [id(1), indexed]);
    }
}
