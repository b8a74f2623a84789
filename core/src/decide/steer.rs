//! Brings the number of active Pods to what is wanted.
//!
//! Source: docs/rules/jobs.md, 2.5 and 4. Pods that are too many lose their finalizer first and
//! are deleted then, so that they never count as failed; Pods of a Job that fails are deleted
//! first, because they may count.

use std::time::Duration;

use crate::model::{
    CompactIndex, FailureCounts, Monotonic, Now, PodRecord, PodReplacement, PodSuffix, PodTable,
    Slot, Timeout,
};

use super::{
    CreateError, CreationId, CreationReason, Effect, JobMachine, NewPod, Report, rank,
    tracked::{Facts, Stage},
};

/// How long a creation counts that the end of its namespace made void: upstream's expiry of
/// expectations.
const VOID_CREATION_LIFE: Duration = Duration::from_secs(300);

/// How long a creation without answer counts that nobody wants any more: an API server gives up
/// on a request after a minute (`--request-timeout`), and the watch then tells what came of it.
const DOUBTFUL_CREATION_LIFE: Duration = Duration::from_secs(90);

/// A Pod whose creation was asked for and whose record is not here yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Creation {
    pub(super) index: Option<u32>,
    failures: Option<FailureCounts>,
    pub(super) state: CreationState,
    /// An earlier attempt had no clear answer: a refusal of a later one says nothing of the first.
    doubted: bool,
}

/// How far a creation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CreationState {
    /// The write is under way.
    Sent,
    /// Nobody knows whether it happened; it will be asked for again under the same name.
    Doubtful,
    /// Refused because the namespace goes away. Upstream still counts such a Pod as active, and
    /// forgets it after five minutes; there is nothing better to do than to wait for the end.
    Void,
}

impl JobMachine {
    /// Deletes every active Pod, because the Job ends. If it ends well, they must not count as
    /// failed and lose their finalizer first.
    pub(super) fn end_active(&mut self) {
        let counts = self.ends_badly();
        for slot in self.tally.active_slots.clone() {
            if counts {
                self.condemn(Slot(slot));
            } else {
                self.shed(Slot(slot));
            }
        }
    }

    /// Creates or deletes Pods as the spec wants it.
    pub(super) fn steer(&mut self, pods: &PodTable, now: Now) {
        if self.spec.suspend {
            if self.tally.active > self.tally.condemned {
                for slot in self.tally.active_slots.clone() {
                    self.shed(Slot(slot));
                }
            }
            return;
        }
        self.shed_surplus(pods);
        if self.tally.condemned == 0 {
            self.create_missing(now);
        }
    }

    fn shed_surplus(&mut self, pods: &PodTable) {
        // Pods whose creation is under way are not looked at: once here they are the first to go.
        let staying = self.tally.active - self.tally.condemned;
        let surplus = staying.saturating_sub(self.wanted_active(staying)) as usize;
        let has_misfits =
            self.tally.misfits > 0 || (self.spec.is_indexed() && self.indexes.has_duplicates());
        if surplus == 0 && !has_misfits {
            return;
        }
        let candidates: Vec<Slot> = self
            .tally
            .active_slots
            .iter()
            .map(Slot)
            .filter(|slot| !self.tracked[slot.at()].has(Facts::CONDEMNED))
            .collect();
        let (mut going, rest) = match self.spec.completions {
            Some(completions) if self.spec.is_indexed() => {
                rank::split_misfits(candidates, pods, completions)
            }
            _ => (Vec::new(), candidates),
        };
        let more = surplus.saturating_sub(going.len());
        let (done, rest) = self.split_done(rest);
        going.append(&mut rank::first_to_go(done, pods, more));
        let more = surplus.saturating_sub(going.len());
        going.append(&mut rank::first_to_go(rest, pods, more));
        for slot in going {
            self.shed(slot);
        }
    }

    /// Splits off the Pods whose index is done already, by a Pod that had seemed lost: upstream
    /// ranks them with the others, and may stop one whose index is still wanted.
    fn split_done(&self, candidates: Vec<Slot>) -> (Vec<Slot>, Vec<Slot>) {
        candidates.into_iter().partition(|slot| {
            let index = self.tracked[slot.at()].index.map(CompactIndex::get);
            index.is_some_and(|index| self.indexes.is_done(index))
        })
    }

    /// How many Pods shall be active (docs/rules/jobs.md, 4.1).
    fn wanted_active(&self, active: u32) -> u32 {
        match self.spec.completions {
            None if self.succeeded_total() > 0 => active,
            None => self.spec.parallelism,
            Some(wanted) => wanted
                .saturating_sub(self.succeeded_total())
                .min(self.spec.parallelism),
        }
    }

    fn create_missing(&mut self, now: Now) {
        self.retention.expire(now.wall);
        let active = self.tally.active + self.creations_len();
        let going = match self.spec.pod_replacement {
            PodReplacement::Failed => self.tally.terminating,
            PodReplacement::TerminatingOrFailed => 0,
        };
        self.missing = self.wanted_active(active).saturating_sub(active + going);
        self.repeat_doubtful(now.monotonic);
        if self.missing == 0 || self.create_blocked_until(now).is_some() {
            return;
        }
        let count = self.ramp.room(self.creations_under_way()).min(self.missing);
        let chosen: Vec<Option<u32>> = if self.spec.is_indexed() {
            let waiting = self.retention.waiting();
            let chosen = self.indexes.choose(self.missing, count, waiting);
            chosen.into_iter().map(Some).collect()
        } else {
            vec![None; count as usize]
        };
        let count = u32::try_from(chosen.len()).expect("no more than are missing");
        self.ramp.sent(count);
        self.missing -= count;
        for index in chosen {
            self.create(index, now.monotonic);
        }
    }

    fn create(&mut self, index: Option<u32>, now: Monotonic) {
        let id = self.names.choose(index);
        if let Some(index) = index {
            self.indexes.take(index);
        }
        let failures = index
            .filter(|_| self.spec.per_index.is_some())
            .map(|index| self.retention.failures(index));
        self.creations.insert(
            id,
            Creation {
                index,
                failures,
                state: CreationState::Sent,
                doubted: false,
            },
        );
        self.errands.ask(now);
        self.effects.push_back(Effect::CreatePod(NewPod {
            index,
            failures,
            suffix: id.suffix,
            reason: self.creation_reason(),
        }));
    }

    fn creation_reason(&self) -> CreationReason {
        let failed = self.failed_total() > 0;
        match self.spec.pod_replacement {
            PodReplacement::Failed if failed => CreationReason::RecreateFailed,
            _ if failed || self.tally.terminating > 0 => {
                CreationReason::RecreateTerminatingOrFailed
            }
            PodReplacement::Failed | PodReplacement::TerminatingOrFailed => CreationReason::New,
        }
    }

    /// Asks again for Pods of which nobody knows whether they exist: the name decides. They come first, and
    /// by the rounds of slow start as all others: a server that fails is not asked for more each time.
    fn repeat_doubtful(&mut self, now: Monotonic) {
        if self.doubtful == 0 || self.create_gate.is_closed(now) {
            return;
        }
        let mut room = self.ramp.room(self.creations_under_way());
        let reason = self.creation_reason();
        for (id, creation) in &mut self.creations {
            if room > 0 && creation.state == CreationState::Doubtful {
                room -= 1;
                self.ramp.sent(1);
                self.doubtful -= 1;
                creation.state = CreationState::Sent;
                self.errands.ask(now);
                self.effects.push_back(Effect::CreatePod(NewPod {
                    index: creation.index,
                    failures: creation.failures,
                    suffix: id.suffix,
                    reason,
                }));
            }
        }
    }

    /// Until when no Pod may be created, because Pods or creations failed. Of two waits the longer one: what
    /// is left of the other, if somebody sets the clock, is waited for then.
    pub(super) fn create_blocked_until(&self, now: Now) -> Option<Timeout> {
        let backoff = match self.spec.per_index {
            Some(_) => None,
            None => self
                .failures
                .until(self.limits.pod_failure_backoff, now.wall),
        };
        let gate = self.create_gate.opens_at(now.monotonic);
        let waits = [backoff.map(Timeout::from), gate.map(Timeout::from)];
        let waits = waits.into_iter().flatten();
        waits.max_by_key(|wait| wait.left(now))
    }

    pub(super) fn creations_under_way(&self) -> u32 {
        self.creations_len() - self.void - self.doubtful
    }

    pub(super) fn creations_len(&self) -> u32 {
        u32::try_from(self.creations.len()).unwrap_or(u32::MAX)
    }

    /// Condemns a Pod; its finalizer goes first, so that it is never counted.
    fn shed(&mut self, slot: Slot) {
        self.condemn(slot);
        if matches!(self.tracked[slot.at()].stage, Stage::Live) {
            self.restage(slot, |_| Stage::Shed);
        }
    }

    fn condemn(&mut self, slot: Slot) {
        if self.tracked[slot.at()].has(Facts::CONDEMNED) {
            return;
        }
        self.change_facts(slot, |facts| facts.set(Facts::CONDEMNED, true));
    }

    /// A Pod's record has come: if it is one that was asked for, it is no longer outstanding.
    pub(super) fn resolve_creation(&mut self, pod: &PodRecord) {
        if self.creations.is_empty() {
            return;
        }
        let Some(suffix) = PodSuffix::of_name(pod.name.tail()) else {
            return;
        };
        let index = pod.index.map(CompactIndex::get);
        let index = index.filter(|_| self.spec.is_indexed());
        self.forget_creation(CreationId { index, suffix });
    }

    /// Forgets a creation, whether it happened or not; its index is free unless a Pod holds it.
    pub(super) fn forget_creation(&mut self, id: CreationId) {
        let Some(creation) = self.creations.remove(&id) else {
            return;
        };
        self.names.give_back(id);
        match creation.state {
            CreationState::Sent => {}
            CreationState::Doubtful => self.doubtful -= 1,
            CreationState::Void => {
                self.void -= 1;
                self.status_is_stale = true;
            }
        }
        if let Some(index) = creation.index {
            self.indexes.give_back(index);
        }
    }

    /// Takes in that a Pod was not created.
    pub(super) fn not_created(&mut self, id: CreationId, error: CreateError, now: Monotonic) {
        let doubted = |creation: &Creation| creation.doubted;
        let error = match error {
            CreateError::Refused | CreateError::RefusedFor(_)
                if self.creations.get(&id).is_some_and(doubted) =>
            {
                CreateError::Unknown
            }
            clear => clear,
        };
        match error {
            CreateError::NameTaken => {
                self.names.avoid(id);
                self.forget_creation(id);
                if self.create_gate.fail_if_again(now) {
                    let message = "Error creating: the names of new Pods are taken";
                    self.report(Report::warning("FailedCreate", message));
                }
            }
            CreateError::Refused => {
                self.creation_refused(id);
                self.create_gate.fail(now);
            }
            CreateError::RefusedFor(wait) => {
                self.creation_refused(id);
                self.create_gate.fail_until(wait, now);
            }
            CreateError::Unknown => {
                self.ramp.refused();
                self.create_gate.fail(now);
                if let Some(creation) = self.creations.get_mut(&id) {
                    creation.state = CreationState::Doubtful;
                    creation.doubted = true;
                    self.doubtful += 1;
                    self.lost_until = self.lost_until.max(Some(now + DOUBTFUL_CREATION_LIFE));
                }
            }
            CreateError::NotSent => match self.creations.get_mut(&id) {
                // What became of the attempt before is still to be found out.
                Some(creation) if creation.doubted => {
                    creation.state = CreationState::Doubtful;
                    self.doubtful += 1;
                }
                _ => self.forget_creation(id),
            },
            CreateError::NamespaceTerminating => {
                if let Some(creation) = self.creations.get_mut(&id) {
                    creation.state = CreationState::Void;
                    self.void += 1;
                    self.status_is_stale = true;
                    self.lost_until = self.lost_until.max(Some(now + VOID_CREATION_LIFE));
                }
            }
        }
    }

    fn creation_refused(&mut self, id: CreationId) {
        self.forget_creation(id);
        self.ramp.refused();
    }

    /// Creations that the end of the namespace made void, as long as they count.
    pub(super) fn void_creations(&self) -> u32 {
        self.void
    }

    /// When creations of which nothing will be heard any more stop to count.
    pub(super) fn lost_creations_end(&self, now: Monotonic) -> Option<Monotonic> {
        self.lost_until
            .filter(|until| self.void + self.doubtful > 0 && *until > now)
    }

    /// Forgets void creations once they have counted long enough; doubtful ones too, unless they
    /// will be `repeated` to learn their fate. Whether there were any.
    pub(super) fn forget_lost_creations(&mut self, repeated: bool, now: Monotonic) -> bool {
        if self.void + self.doubtful == 0 && self.beyond.is_empty() {
            self.lost_until = None;
        }
        if self.lost_until.is_none_or(|until| until > now) {
            return false;
        }
        self.beyond.clear();
        let lost = |creation: &Creation| match creation.state {
            CreationState::Sent => false,
            CreationState::Doubtful => !repeated,
            CreationState::Void => true,
        };
        let ids: Vec<CreationId> = self
            .creations
            .iter()
            .filter(|(_, creation)| lost(creation))
            .map(|(id, _)| *id)
            .collect();
        for id in &ids {
            self.forget_creation(*id);
        }
        !ids.is_empty()
    }
}
